"""One job whose drivers compact their table, in simulated worlds, as in `test_append_worlds`. Other
writers compact files, rewrite them and write rows, between any two steps of a compaction. No compaction
changes a row.

docs/protocols/delta-sink.md has the invariants, DL10 and DL11 among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import pytest

import rheos as rh
from rheos.connectors.table_log.compaction_policy import Compaction, chosen_files
from rheos.connectors.table_log.compaction_steps import (
    CompactionAction,
    CompactionOutcome,
    ListedVersion,
    ListNewest,
    MergedFiles,
    MergeFiles,
    ReplaceFiles,
    compaction_steps,
)
from rheos.connectors.table_log.epoch_append import UncertainAppendError
from rheos.connectors.table_log.table_files import LiveFile
from rheos.core.errors import UnavailableError
from tests.connectors.delta.simulated_table import SimulatedTable, Version, data_file
from tests.connectors.delta.test_append_worlds import SINK, Driver, World, run_all
from tests.connectors.delta.test_upsert_worlds import KeyedTable, UpsertDriver, UpsertWorld
from tests.connectors.iceberg.simulated_snapshots import SimulatedSnapshots
from tests.connectors.iceberg.test_upsert_worlds import IcebergDriver, KeyedSnapshots

WORLDS = 60
POLICY = rh.compaction(files=2, below=100)
steps_of: Callable[[Compaction, int], Any] = compaction_steps


class CompactedTable(SimulatedTable):
    """A table of Delta, with the version that a compaction writes."""

    def listed(self) -> ListedVersion:
        return ListedVersion(len(self.versions), live(self.versions[-1].files))

    def rows_of(self, files: Sequence[LiveFile]) -> tuple[str, ...]:
        every = {path: rows for version in self.versions for path, rows in version.files.items()}
        return tuple(row for file in files for row in every[file.path])

    def replace(self, action: ReplaceFiles, rows: tuple[str, ...]) -> None:
        if action.version != len(self.versions):
            raise UncertainAppendError(UnavailableError("the version exists"))
        newest = self.versions[-1]
        removed = {file.path for file in action.removed}
        kept = {path: rows for path, rows in newest.files.items() if path not in removed}
        self.versions.append(Version(kept | dict.fromkeys(action.added.paths, rows), newest.numbers))


class CompactedSnapshots(SimulatedSnapshots):
    """A table of Iceberg, with the snapshot that a compaction writes."""

    def listed(self) -> ListedVersion:
        return ListedVersion(self.main, live(self.snapshots[self.main].files))

    def rows_of(self, files: Sequence[LiveFile]) -> tuple[str, ...]:
        every = {path: rows for version in self.versions for path, rows in version.files.items()}
        return tuple(row for file in files for row in every[file.path])

    def replace(self, action: ReplaceFiles, rows: tuple[str, ...]) -> None:
        if action.version != self.main:
            raise UncertainAppendError(UnavailableError("main has changed"))
        removed = {file.path for file in action.removed}
        self._commit(dict.fromkeys(action.added.paths, rows), removed, {})


class UpsertedTable(CompactedTable, KeyedTable):
    pass


class UpsertedSnapshots(CompactedSnapshots, KeyedSnapshots):
    pass


def live(files: dict[str, tuple[str, ...]]) -> list[LiveFile]:
    return [LiveFile(path, len(rows)) for path, rows in files.items()]


class Compacting(Driver):
    """A driver that compacts the table after its files are in it, one action at a time."""

    table: Any

    def begin(self) -> None:
        self.compaction: Generator[CompactionAction, Any, Any] | None = None
        self.merged: tuple[str, ...] = ()
        super().begin()

    def step(self, fault: str) -> None:
        if self.compaction is None:
            super().step(fault)
            if self.done and not self.failed:
                self.done = False
                self.compaction = steps_of(POLICY, 0)
                self.compacts = next(self.compaction)
            return
        match self.compacts:
            case ListNewest() | MergeFiles() if fault:
                self.done = True  # The error is logged, and the compaction given up.
            case ListNewest():
                self.answer(self.table.listed())
            case MergeFiles(_, files):
                self.merged = self.table.rows_of(files)
                self.table.compactions = getattr(self.table, "compactions", 0) + 1
                path = f"merged {self.table.compactions}"
                self.answer(MergedFiles((data_file(path, 0),), frozenset([path])))
            case ReplaceFiles() as action:
                try:
                    if fault != "before":
                        self.table.replace(action, self.merged)
                    if fault:
                        raise UncertainAppendError(UnavailableError("no answer"))
                except UncertainAppendError as failure:
                    self.answer(None, failure)
                else:
                    self.answer(None)

    def answer(self, answer: Any, failure: UncertainAppendError | None = None) -> None:
        assert self.compaction is not None
        try:
            sent = self.compaction.throw(failure) if failure else self.compaction.send(answer)
            self.compacts = sent
        except StopIteration as end:
            OUTCOMES[end.value[0]] += 1
            self.done = True

    def in_flight(self) -> Callable[[], None] | None:
        if self.compaction is None or self.done:
            return super().in_flight()
        action, rows = self.compacts, self.merged
        return (lambda: self.table.replace(action, rows)) if isinstance(action, ReplaceFiles) else None


OUTCOMES: Counter[CompactionOutcome] = Counter()


class AppendWorld(World):
    drivers = Compacting


class CompactingUpserts(Compacting, UpsertDriver):
    pass


class CompactingSnapshots(Compacting, IcebergDriver):
    pass


class DeltaUpserts(UpsertWorld):
    drivers = CompactingUpserts
    tables = UpsertedTable


class IcebergUpserts(UpsertWorld):
    drivers = CompactingSnapshots
    tables = UpsertedSnapshots


def world_of(table: Callable[[], Any]) -> Any:
    return lambda seed: AppendWorld(seed, table())


WORLDS_OF: dict[str, Any] = {
    "delta": world_of(CompactedTable),
    "iceberg": world_of(CompactedSnapshots),
    "upserts into delta": DeltaUpserts,
    "upserts into iceberg": IcebergUpserts,
}


@pytest.mark.parametrize("kind", [*WORLDS_OF])
def test_no_compaction_changes_a_row(kind: str) -> None:
    OUTCOMES.clear()
    assert run_all(WORLDS, WORLDS_OF[kind]) > 5 * WORLDS
    assert min(OUTCOMES[outcome] for outcome in CompactionOutcome) > 0, OUTCOMES


# --- the worlds detect each broken rule -----------------------------------------------------------


def looks_only_once(policy: Compaction, now_ms: int, *, after: str) -> Any:
    """DL10: after a conflict, repeat without looking, or without checking what was replaced."""
    seen = yield ListNewest()
    removed = tuple(chosen_files(seen.files, policy, now_ms))
    if not removed:
        return CompactionOutcome.NOTHING, ()
    added = yield MergeFiles(seen.version, removed)
    for _ in range(3):
        try:
            yield ReplaceFiles(seen.version, removed, added)
        except UncertainAppendError:
            seen = yield ListNewest()
            paths = {file.path for file in seen.files}
            if after == "unchecked sources" and added.paths & paths:
                return CompactionOutcome.COMPACTED, removed
            if after == "unchecked result" and not {file.path for file in removed} <= paths:
                seen = yield ListNewest()
                continue
        else:
            return CompactionOutcome.COMPACTED, removed
    return CompactionOutcome.CONFLICT, removed


@pytest.mark.parametrize("rule", ["unchecked sources", "unchecked result"])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_the_worlds_detect_broken_steps(kind: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "steps_of", partial(looks_only_once, after=rule))
    with pytest.raises(AssertionError, match="seed"):
        run_all(WORLDS, WORLDS_OF[kind])


class Unconditional(CompactedTable):
    """DL10: a compaction is written though its version exists."""

    def replace(self, action: ReplaceFiles, rows: tuple[str, ...]) -> None:
        super().replace(ReplaceFiles(len(self.versions), action.removed, action.added), rows)


class Numbered(CompactedTable):
    """DL11: a compaction sets the sink's number."""

    def replace(self, action: ReplaceFiles, rows: tuple[str, ...]) -> None:
        super().replace(action, rows)
        newest = self.versions.pop()
        self.versions.append(Version(newest.files, newest.numbers | {SINK: 0}))


@pytest.mark.parametrize("table", [Unconditional, Numbered])
def test_the_worlds_detect_broken_versions(table: type[CompactedTable]) -> None:
    with pytest.raises(AssertionError, match="seed"):
        run_all(WORLDS, world_of(table))
