"""One job that upserts in simulated worlds, as in `test_append_worlds`. Other writers compact files,
and write rows with the job's keys, between any two steps. After each step the table has what its
versions say, one after another.

docs/protocols/delta-sink.md has the invariants, DL8 and DL9 among them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from rheos.connectors.table_log.copy_on_write import CopyOnWrite
from rheos.connectors.table_log.epoch_append import Append, StagedDataFile, UncertainAppendError
from rheos.connectors.table_log.table_files import LiveFile
from rheos.connectors.table_log.upserts import together
from rheos.core.errors import UnavailableError
from tests.connectors.delta.simulated_table import SimulatedTable, Version, data_file
from tests.connectors.delta.test_append_worlds import SINK, Driver, World, run_all

WORLDS = 200
KEYS = 4
MOST_ROWS = 3
"""Maximum number of rows that one version applies. Each staged file has one row."""
DeltaFiles: type[CopyOnWrite] = CopyOnWrite


@dataclass
class KeyedRows:
    """A table whose rows are `key=value`."""

    store: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Files that exist, by path."""
    changes: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """Changes of the keys in a staged file. None deletes the row."""
    made: int = 0


@dataclass
class KeyedTable(KeyedRows, SimulatedTable):
    def write_version(
        self, base: int, number: int, removed: Sequence[LiveFile], added: Sequence[StagedDataFile]
    ) -> None:
        if base != len(self.versions):
            raise UncertainAppendError(UnavailableError("the version exists"))
        newest = self.versions[-1]
        paths = {file.path for file in removed}
        assert paths <= set(newest.files), "a file is removed that the version does not have"
        kept = {path: rows for path, rows in newest.files.items() if path not in paths}
        files = kept | {file.path: self.store[file.path] for file in added}
        self.versions.append(Version(files, newest.numbers | {SINK: number}))

    def live(self, version: int) -> list[LiveFile]:
        return [LiveFile(path, 1) for path in self.versions[version - 1].files]


class Changes:
    """The changes that one version applies, as `copy_on_write.ChangedFiles`."""

    def __init__(self, table: Any, files: Sequence[StagedDataFile]) -> None:
        self.table = table
        ordered = sorted(files, key=lambda file: file.checkpoint)
        self.keys = {key: value for file in ordered for key, value in table.changes[file.path].items()}

    def rows(self, file: LiveFile) -> tuple[str, ...]:
        return next(v.files[file.path] for v in self.table.versions if file.path in v.files)

    def touched(self, files: Sequence[LiveFile]) -> list[LiveFile]:
        return [file for file in files if any(key_of(row) in self.keys for row in self.rows(file))]

    def rewrite(self, files: Sequence[LiveFile], *, with_changes: bool) -> list[StagedDataFile]:
        rows = [row for file in files for row in self.rows(file) if key_of(row) not in self.keys]
        if with_changes:
            rows += [f"{key}={value}" for key, value in self.keys.items() if value is not None]
        if not rows:
            return []
        self.table.made += 1
        path = f"rewritten {self.table.made}"
        self.table.store[path] = tuple(rows)
        return [data_file(path, 0)]

    def drop(self, files: Sequence[StagedDataFile]) -> None:
        for file in files:
            del self.table.store[file.path]


def key_of(row: str) -> str:
    return row.partition("=")[0]


class UpsertDriver(Driver):
    """A driver that writes a version for each group of checkpoints, long after it has written files."""

    table: Any
    changes: type[Changes] = Changes

    def take(self, files: Sequence[StagedDataFile]) -> None:
        self.left = together(files, MOST_ROWS)
        self.take_next()

    def take_next(self) -> None:
        self.request: Callable[[], None] | None = None
        self.applied: tuple[StagedDataFile, ...] = ()
        super().take(self.left.pop(0))

    def go_on(self, answer: Any, failure: UncertainAppendError | None) -> None:
        self.request = None
        super().go_on(answer, failure)
        if self.done and self.left:
            self.done = False
            self.take_next()

    def step(self, fault: str) -> None:
        if not self.failed and isinstance(self.next, Append) and self.request is None:
            version, number = self.next.snapshot.version, self.next.checkpoint
            if self.applied != self.next.files:
                self.applied = self.next.files
                self.rewriting = DeltaFiles(self.changes(self.table, self.applied))
            removed, added = self.rewriting.on(self.table.live(version))
            self.request = lambda: self.table.write_version(version, number, removed, added)
            return
        super().step(fault)

    def write(self, action: Append) -> None:
        assert self.request is not None
        self.request()

    def in_flight(self) -> Callable[[], None] | None:
        return None if self.done else self.request


class UpsertWorld(World):
    table: Any
    drivers = UpsertDriver
    tables: Callable[[], Any] = KeyedTable

    def __init__(self, seed: int) -> None:
        self.expected: dict[str, list[str]] = defaultdict(list)
        self.replayed = 0
        """Number of versions that `expected` contains."""
        self.foreign_rows: dict[int, str] = {}
        """Rows of other writers, by the version that has them first."""
        self.history: dict[int, list[str]] = defaultdict(list)
        """Staged files by checkpoint."""
        super().__init__(seed, type(self).tables())

    def fill(self, path: str) -> None:
        keys = self.random.sample(range(KEYS), self.random.randint(1, 2))
        gone = self.random.random() < 0.3
        self.table.changes[path] = {f"k{key}": None if gone else path for key in keys}
        self.history[self.checkpoint].append(path)

    def write_elsewhere(self) -> None:
        version = len(self.table.versions)
        key = self.random.choice(["other", "k0", "k1"])
        self.foreign_rows[version] = row = f"{key}=foreign {version}"
        self.table.write(row)

    def check(self) -> None:
        versions = self.table.versions
        for at in range(self.replayed, len(versions)):
            before = versions[at - 1].numbers.get(SINK, 0) if at else 0
            number = versions[at].numbers.get(SINK, 0)
            assert number >= before
            if row := self.foreign_rows.get(at):
                self.expected[key_of(row)].append(row)
            for checkpoint in range(before + 1, number + 1):
                self.apply(checkpoint)
        self.replayed = len(versions)
        expected = Counter(row for rows in self.expected.values() for row in rows)
        assert Counter(self.table.rows()) == expected, f"{self.table.rows()}, not {expected}"
        if self.staged is not None:
            number = versions[-1].numbers.get(SINK, 0)
            promised = [file.checkpoint for file in self.logged if file.path in self.before]
            assert max(promised, default=0) <= number, "an attempt runs before the log's changes"
        rewritten = {path for path in versions[-1].files if path.startswith("rewritten")}
        assert rewritten <= set(self.table.store), "a live file was dropped"

    def apply(self, number: int) -> None:
        for path in self.history[number]:
            if path not in self.promised:  # A checkpoint that failed, before a later one completed.
                continue
            for key, value in self.table.changes[path].items():
                self.expected[key] = [] if value is None else [f"{key}={value}"]

    def finish(self) -> None:
        number = self.table.versions[-1].numbers.get(SINK, 0)
        assert all(file.checkpoint <= number for file in self.logged)


def test_the_table_has_the_newest_row_of_each_key() -> None:
    assert run_all(WORLDS, UpsertWorld) > 10 * WORLDS


def test_checkpoints_that_wait_become_few_versions() -> None:
    files = [data_file(f"{n} {part}", n) for n in (3, 1, 2, 4) for part in "ab"]
    groups = [[file.checkpoint for file in group] for group in together(files, most_rows=4)]
    assert groups == [[1, 1, 2, 2], [3, 3, 4, 4]]
    assert [[file.checkpoint for file in group] for group in together(files, most_rows=1)] == [
        [n, n] for n in (1, 2, 3, 4)
    ], "a checkpoint is never divided"


# --- the worlds detect each broken rule -----------------------------------------------------------


class KeepsOldWork(CopyOnWrite):
    """DL8: use the files for the first version in all others."""

    def on(self, live: Sequence[LiveFile]) -> tuple[list[LiveFile], list[StagedDataFile]]:
        if self._added is None:
            super().on(live)
        paths = {file.path for file in live}
        return [file for file in self._removed if file.path in paths], list(self._added or [])


class ExaminesNoNewFiles(CopyOnWrite):
    """DL8: begin again if a replaced file is gone, but ignore files of other writers."""

    def on(self, live: Sequence[LiveFile]) -> tuple[list[LiveFile], list[StagedDataFile]]:
        if self._added is not None and {f.path for f in self._removed} <= {f.path for f in live}:
            return list(self._removed), list(self._added)
        return super().on(live)


class WritesChangesAgain(CopyOnWrite):
    """DL8: each further file brings the changes with it."""

    def on(self, live: Sequence[LiveFile]) -> tuple[list[LiveFile], list[StagedDataFile]]:
        before, self._added = self._added, None
        removed, added = super().on(live)
        self._added = [*(before or []), *added]
        return removed, self._added


@pytest.mark.parametrize("rule", [KeepsOldWork, ExaminesNoNewFiles, WritesChangesAgain])
def test_the_worlds_detect_broken_rewriting(
    rule: type[CopyOnWrite], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "DeltaFiles", rule)
    with pytest.raises(AssertionError, match="seed"):
        run_all(WORLDS, UpsertWorld)
