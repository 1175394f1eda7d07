"""A sink merges small files of its table, and changes no row, whatever other writers do meanwhile.

docs/protocols/delta-sink.md has the invariants DL10 and DL11, and iceberg-sink.md has IC10 and IC11.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import rheos as rh
from rheos.connectors.calls.labelled_counts import LabelledCounts
from rheos.connectors.delta.appended_files import AppendedFiles
from rheos.connectors.delta.delta_log import DeltaLog
from rheos.connectors.iceberg.iceberg_log import IcebergLog
from rheos.connectors.iceberg.source_files import AppendedSnapshots
from rheos.connectors.table_log.epoch_append import UncertainAppendError
from rheos.connectors.table_log.maintenance_counts import (
    COMPACTED_FILES,
    COMPACTIONS_GIVEN_UP,
)
from rheos.core.errors import UnavailableError
from tests.connectors.delta import test_sink as delta
from tests.connectors.delta import test_upserts as delta_upserts
from tests.connectors.iceberg import test_sink as iceberg
from tests.connectors.iceberg import test_upserts as iceberg_upserts
from tests.connectors.ports import read_all

POLICY = rh.compaction(files=3, every=1)


class Lake(ABC):
    """A table of one format, and what the tests do with it."""

    job: Any
    log: Any

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def begin(self, **settings: Any) -> Any: ...

    @abstractmethod
    def begin_upserts(self, **settings: Any) -> Any: ...

    @abstractmethod
    def paths(self) -> set[str]: ...

    @abstractmethod
    def kinds(self) -> list[bool]:
        """Return for each version whether it is a compaction."""

    @abstractmethod
    def append(self, number: int) -> None: ...

    @abstractmethod
    def delete(self, number: int) -> None: ...

    @abstractmethod
    def widen(self) -> None: ...

    @abstractmethod
    def appended(self) -> int:
        """Return the number of files that a source of appended rows reads after the first version."""

    @abstractmethod
    def changes(self) -> list[Any]: ...

    def corrupt(self) -> None:
        for path in self.paths():
            Path(path).write_bytes(b"PAR1 is not enough")


class DeltaLake(Lake):
    log = DeltaLog

    def begin(self, **settings: Any) -> Any:
        return delta.Job(self.folder / "t", **{"compact": POLICY, **settings})

    def begin_upserts(self, **settings: Any) -> Any:
        return delta_upserts.UpsertJob(self.folder / "t", **{"compact": POLICY, **settings})

    def paths(self) -> set[str]:
        return {uri.removeprefix("file://") for uri in DeltaTable(self.folder / "t").file_uris()}

    def kinds(self) -> list[bool]:
        history = DeltaTable(self.folder / "t").history()
        return ["rheos.compaction" in entry for entry in reversed(history)][1:]

    def append(self, number: int) -> None:
        rows = pa.table({"n": [number], "k": ["x"]})
        write_deltalake(self.folder / "t", rows, mode="append")

    def delete(self, number: int) -> None:
        DeltaTable(self.folder / "t").delete(f"n = {number}")

    def widen(self) -> None:
        rows = pa.table({"n": [7], "k": ["x"], "more": ["m"]})
        write_deltalake(self.folder / "t", rows, mode="append", schema_mode="merge")

    def appended(self) -> int:
        return len(AppendedFiles().after(str(self.folder / "t"), 0))

    def changes(self) -> list[Any]:
        return read_all(rh.delta.changes(self.folder / "t", version=0, end="now", metadata=["op"]))


class IcebergLake(Lake):
    log = IcebergLog

    def begin(self, **settings: Any) -> Any:
        return iceberg.Job(self.folder, **{"compact": POLICY, **settings})

    def begin_upserts(self, **settings: Any) -> Any:
        return iceberg_upserts.UpsertJob(self.folder, **{"compact": POLICY, **settings})

    def paths(self) -> set[str]:
        return {
            task.file.file_path.removeprefix("file://")
            for task in iceberg.table(self.folder).scan().plan_files()
        }

    def kinds(self) -> list[bool]:
        found = []
        for each in iceberg.table(self.folder).metadata.snapshots:
            about = each.summary.additional_properties
            assert (each.summary.operation.value == "replace") == ("rheos.compaction" in about)
            found.append("rheos.compaction" in about)
        return found

    def append(self, number: int) -> None:
        iceberg.table(self.folder).append(pa.table({"n": [number], "k": ["x"]}, iceberg.SCHEMA))

    def delete(self, number: int) -> None:
        iceberg.table(self.folder).delete(f"n = {number}")

    def widen(self) -> None:
        with iceberg.table(self.folder).update_schema() as update:
            update.union_by_name(pa.schema({"more": pa.string()}))
        self.append(7)

    def appended(self) -> int:
        return len(AppendedSnapshots().after(iceberg.table(self.folder), 0))

    def changes(self) -> list[Any]:
        lake = iceberg.lake(self.folder)
        return read_all(rh.iceberg.changes(iceberg.NAME, catalog=lake, since=0, end="now"))


@pytest.fixture(params=[DeltaLake, IcebergLake], ids=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    made: Lake = request.param(tmp_path)
    return made


def before_replacing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, act: Callable[[Callable[[], None]], None]
) -> None:
    """Let `act` run in place of the first write of a compaction, which it may make."""
    write, left = lake.log.write, [True]

    def late(log: Any, version: Any, checkpoint: int | None, *files: Any) -> None:
        if checkpoint is None and left:
            left.pop()
            act(lambda: write(log, version, checkpoint, *files))
        else:
            write(log, version, checkpoint, *files)

    monkeypatch.setattr(lake.log, "write", late)


def count_of(job: Any, counts: LabelledCounts) -> int:
    return counts.value((job.committer().target.name,))


# --- what it merges -------------------------------------------------------------------------------


@pytest.mark.thinned(4)
@pytest.mark.parametrize("partition_by", [("k",), ()], ids=["partitioned", "flat"])
def test_small_files_are_merged_and_no_reader_sees_it(lake: Lake, partition_by: Any) -> None:
    job, expected = lake.begin(partition_by=partition_by), []
    before = count_of(job, COMPACTED_FILES)
    for n in range(7):
        staged = job.stage_rows(
            [{"n": n, "k": "a/b %20"}, {"n": n + 100, "k": "é"}, {"n": n + 200, "k": None}]
        )
        job.checkpoint += 1
        job.commit(staged)
        job.commit(staged)  # The number of the sink stays.
        expected += [n, n + 100, n + 200]
        job.checkpoint += 1
    assert job.numbers() == sorted(expected)
    partitions = 3 if partition_by else 1
    assert lake.kinds() == [False, False, False, True, False, False, True, False, False, True]
    assert len(lake.paths()) == partitions
    assert lake.appended() == 7 * partitions
    changes = lake.changes()
    assert {change["op"] for change in changes} <= {"insert", "snapshot"}
    assert sorted(change["n"] for change in changes) == sorted(expected)
    assert count_of(job, COMPACTED_FILES) - before == 9 * partitions


@pytest.mark.thinned(4)
def test_files_with_current_rows_are_merged(lake: Lake) -> None:
    job = lake.begin_upserts()
    for n in range(6):
        job.commit(job.change((n, "x", 1.0), (n + 10, "y", 2.0)))
    job.commit(job.change((0, "x", None), (15, "z", 9.0)))
    rows = delta_upserts.read(lake.folder / "t") if isinstance(lake, DeltaLake) else None
    rows = iceberg_upserts.rows_of(lake.folder) if rows is None else rows
    expected = [(n, "x", 1.0) for n in range(1, 6)] + [(n + 10, "y", 2.0) for n in range(5)]
    assert rows == sorted([*expected, (15, "z", 9.0)], key=repr)
    assert sum(lake.kinds()) >= 2


def test_nothing_is_merged_by_default_or_before_it_is_due(lake: Lake) -> None:
    job = lake.begin(compact=None)
    for n in range(4):
        job.commit(job.stage(n))
    seldom = lake.begin(compact=rh.compaction(files=2, every=10))
    seldom.checkpoint = 4
    seldom.commit(seldom.stage(4))
    assert not any(lake.kinds())
    seldom.checkpoint = 9
    seldom.commit(seldom.stage(5))
    assert lake.kinds()[-1]
    assert job.numbers() == [0, 1, 2, 3, 4, 5]


# --- other writers, and lost answers ----------------------------------------------------------------


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("other", "left", "compacted"),
    [
        ("append", [0, 1, 2, 7], True),
        ("delete", [0, 2], False),
        ("widen", [0, 1, 2, 7], False),
        ("lost answer", [0, 1, 2], True),
        ("refused", [0, 1, 2], True),
    ],
)
def test_other_writers_are_respected(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, other: str, left: list[int], compacted: bool
) -> None:
    def act(write: Callable[[], None]) -> None:
        match other:
            case "append":
                lake.append(7)
                write()
            case "delete":
                lake.delete(1)
                write()
            case "widen":
                lake.widen()
                write()
            case "lost answer":
                write()
                raise UncertainAppendError(UnavailableError("no answer"))
            case "refused":
                raise UncertainAppendError(UnavailableError("no answer"))

    job = lake.begin()
    before = count_of(job, COMPACTIONS_GIVEN_UP)
    before_replacing(lake, monkeypatch, act)
    for n in range(3):
        job.commit(job.stage(n))
    assert job.numbers() == left
    assert lake.kinds().count(True) == compacted
    assert count_of(job, COMPACTIONS_GIVEN_UP) - before == (not compacted)
    for n in (10, 11, 12):
        job.commit(job.stage(n))
    assert job.numbers() == [*left, 10, 11, 12]
    assert lake.kinds().count(True) > compacted


def test_an_error_of_a_compaction_does_not_stop_the_sink(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    job = lake.begin()
    before = count_of(job, COMPACTIONS_GIVEN_UP)
    for n in range(2):
        job.commit(job.stage(n))
    lake.corrupt()
    job.commit(job.stage(2))
    assert "were not compacted" in caplog.text
    assert count_of(job, COMPACTIONS_GIVEN_UP) - before == 1
    assert len(lake.paths()) == 3


def test_sql_sets_the_policy(tmp_path: Path) -> None:
    env = rh.Environment(1, runtime="simulated")
    env.register("numbers", env.from_source(rh.collection([{"n": n} for n in range(6)])))
    script = """CREATE TABLE lake (n BIGINT) WITH ('connector' = 'delta', 'path' = '{}',
        'compact.files' = '{}', 'compact.at-most' = '64MB'); INSERT INTO lake SELECT n FROM numbers"""
    with pytest.raises(rh.ProgramError, match="files=1 is not an integer"):
        env.sql_script(script.format(tmp_path / "t", 1))
