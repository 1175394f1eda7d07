"""Compaction of a table with a log: a pure state machine that returns actions and receives their
results.

    ListNewest -> nothing to merge -> done
        |
    MergeFiles -> ReplaceFiles -----> done
                    ^    |  another version was first, or the outcome is unknown
                    |    v
                  ListNewest -------> done, if the new files are in the table
                         |
                         +----------> given up, if a replaced file is not

A compaction changes no row, so another writer's version between reading and replacing does no harm as
long as all replaced files are still in the table. DL10 and DL11: docs/protocols/delta-sink.md.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from rheos.connectors.table_log.compaction_policy import Compaction, chosen_files
from rheos.connectors.table_log.epoch_append import StagedDataFile, UncertainAppendError
from rheos.connectors.table_log.table_files import LiveFile

ATTEMPTS = 3
"""Number of versions that a compaction tries to write with the same files."""


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """A version of the table with its data files."""

    version: Any
    """The version itself, for further actions."""
    files: Sequence[LiveFile]


@dataclass(frozen=True, slots=True)
class MergedFiles:
    """New data files that no version has yet, with the rows of other files."""

    files: tuple[StagedDataFile, ...]
    paths: frozenset[str]
    """Their paths as the table's log will name them."""


@dataclass(frozen=True, slots=True)
class ListNewest:
    """Read the newest version of the table. The answer is a `ListedVersion`."""


@dataclass(frozen=True, slots=True)
class MergeFiles:
    """Write the rows of data files to new ones. The answer is a `MergedFiles`."""

    version: Any
    files: tuple[LiveFile, ...]


@dataclass(frozen=True, slots=True)
class ReplaceFiles:
    """Write the version that follows another one, without some files, and with new ones that have the
    same rows. It must fail if that version exists (DL10)."""

    version: Any
    removed: tuple[LiveFile, ...]
    added: MergedFiles


CompactionAction: TypeAlias = ListNewest | MergeFiles | ReplaceFiles
CompactionAnswer: TypeAlias = ListedVersion | MergedFiles | None


class CompactionOutcome(Enum):
    NOTHING = "nothing to merge"
    COMPACTED = "compacted"
    CONFLICT = "given up after a conflict"


CompactionSteps: TypeAlias = Generator[
    CompactionAction, CompactionAnswer, tuple[CompactionOutcome, tuple[LiveFile, ...]]
]


def compaction_steps(policy: Compaction, now_ms: int) -> CompactionSteps:
    """Yield the actions of one compaction. The shell executes each before it requests the next one.

    Args:
        policy: the policy.
        now_ms: the current time.

    Returns:
        The outcome, and the files that the compaction has replaced or has given up to replace.

    Raises:
        RheosError: every error of the shell other than `UncertainAppendError`.
    """
    seen = yield ListNewest()
    assert isinstance(seen, ListedVersion)
    removed = tuple(chosen_files(seen.files, policy, now_ms))
    if not removed:
        return CompactionOutcome.NOTHING, ()
    added = yield MergeFiles(seen.version, removed)
    assert isinstance(added, MergedFiles)
    for _ in range(ATTEMPTS):
        try:
            yield ReplaceFiles(seen.version, removed, added)
        except UncertainAppendError:
            seen = yield ListNewest()
            assert isinstance(seen, ListedVersion)
            present = {file.path for file in seen.files}
            if added.paths & present:
                return CompactionOutcome.COMPACTED, removed
            if not present.issuperset(file.path for file in removed):  # DL10
                return CompactionOutcome.CONFLICT, removed
        else:
            return CompactionOutcome.COMPACTED, removed
    return CompactionOutcome.CONFLICT, removed
