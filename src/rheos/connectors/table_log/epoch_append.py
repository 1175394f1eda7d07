"""Exactly-once appends to a table with a log: a pure state machine that returns actions and receives
their results.

    Look -> nothing is missing -> done
      ^  -> Append ------------> done
      |       |
      +-------+  another version was there first, or the outcome is unknown

A *transaction* of the table adds the files of one checkpoint, and sets the sink's *number* to that of
the checkpoint. The table keeps the number for as long as it exists. DL1 to DL7:
docs/protocols/delta-sink.md. This module uses no library of tables: `delta_log.py` and `iceberg_log.py`
execute the actions, and tests execute them on simulated tables.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from rheos.core.errors import RheosError

PAUSES_MS = (0, 20, 50, 100, 200, 400, 800, 1600)
"""Pauses before another look. Other writers of the table may be faster each time."""


class StagedDataFile(msgspec.Struct, frozen=True):
    """Committable: one data file that no version of the table contains yet."""

    table: str
    """Identity of the table, which another table at the same place does not have."""
    job: str
    operator: str
    checkpoint: int
    """Checkpoint at whose barrier the file was finished."""
    path: str
    """Path of the file, relative to the table's folder. No other file ever has it (DL1)."""
    rows: int
    size_bytes: int
    partition: list[str | None]
    """Values of the partition columns as strings."""
    statistics: str
    """Number of rows, and bounds of columns, as the table's log contains them."""
    key: list[str] = []
    """Key of upserts, if the file has changes. No version ever contains such a file."""
    order: int = 0
    """Position among the writer's files of the checkpoint. A later file has newer changes."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of the table."""

    number: int
    """The sink's number in this version; 0 if the sink has not written."""
    version: Any
    """The version itself, for `Append`."""


@dataclass(frozen=True, slots=True)
class Look:
    """Read the newest version of the table. The answer is a `TableVersion`."""


@dataclass(frozen=True, slots=True)
class Append:
    """Write the version that follows the snapshot: with the files, and with the checkpoint as the
    sink's number. It must fail if that version exists (DL2)."""

    snapshot: TableVersion
    files: tuple[StagedDataFile, ...]
    checkpoint: int


@dataclass(frozen=True, slots=True)
class PauseBeforeLook:
    ms: int


Action: TypeAlias = Look | Append | PauseBeforeLook
Steps: TypeAlias = Generator[Action, TableVersion | None, None]


class UncertainAppendError(Exception):
    """An append that another writer was ahead of, or whose outcome is unknown. Raised by the shell."""

    def __init__(self, error: RheosError) -> None:
        super().__init__(str(error))
        self.error = error


def append_steps(files: Sequence[StagedDataFile]) -> Steps:
    """Yield the actions that append files, each once.

    The shell executes each action before it requests the next one. It sends the answer of `Look`, and
    throws errors of actions.

    Args:
        files: all files that a checkpoint in the log lists. Those of earlier checkpoints may be in the
            table already.

    Raises:
        RheosError: the error of the last append, if each of several attempts has failed; and every
            error of the shell other than `UncertainAppendError`.
    """
    newest = max(file.checkpoint for file in files)
    for pause_ms in (*PAUSES_MS, None):
        snapshot = yield Look()
        assert snapshot is not None, "the shell answers Look"
        # DL3: the number of the same version decides that the append is based on.
        missing = tuple(file for file in files if file.checkpoint > snapshot.number)
        if not missing:
            return
        try:
            yield Append(snapshot, missing, newest)
        except UncertainAppendError as failure:
            if pause_ms is None:
                raise failure.error from failure
        else:
            return
        yield PauseBeforeLook(pause_ms)
