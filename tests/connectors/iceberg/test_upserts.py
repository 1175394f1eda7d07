"""An Iceberg table has the current row of each key: upserts, deletes, changes of updating tables.

The invariants IC8 and IC9 are in docs/protocols/iceberg-sink.md.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestContent, ManifestFile

import rheos as rh
from rheos import testing
from rheos.connectors.iceberg.iceberg_log import IcebergLog
from rheos.connectors.table_log.changed_files import KeyedChanges
from rheos.connectors.table_log.table_files import LiveFile
from rheos.core.errors import CheckpointError, UnrestorableError
from tests.connectors.iceberg.test_sink import (
    NAME,
    Job,
    expire_all_but_the_newest,
    lake,
    lose_a_file,
    table,
)
from tests.connectors.ports import sink_context

SCHEMA = pa.schema({"k": pa.int64(), "part": pa.string(), "v": pa.float64()})
PARTITIONS = [(), ("part",), ("bucket[2](k)", "truncate[1](part)")]


def rows_of(folder: Path, name: str = NAME) -> list[tuple[Any, ...]]:
    rows = pl.from_arrow(table(folder, name).scan().to_arrow())
    assert isinstance(rows, pl.DataFrame)
    order = [each for each in ("k", "part", "v", "n", "more") if each in rows.columns]
    return sorted(rows.select(order).rows(), key=repr)


class UpsertJob(Job):
    """A job that stages changes by hand. Rows are (key, partition, value), without a value deleted."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, self.catalog, self.checkpoint = folder, lake(folder), 0
        self.schema = SCHEMA.append(pa.field("gone", pa.bool_()))
        sink = rh.iceberg.sink(NAME, catalog=lake(folder), **settings).of_changes(["k"], "gone")
        sink.validate(self.schema)
        self.sink = sink.prepared(self.schema, ("job", "table"))
        self.writer = self.sink.open(sink_context(self.schema))

    def change(self, *rows: tuple[int, str | None, float | None]) -> list[bytes]:
        self.checkpoint += 1
        return self.stage_rows([{"k": k, "part": p, "v": v, "gone": v is None} for k, p, v in rows])

    def rows(self) -> list[tuple[Any, ...]]:
        return rows_of(self.folder)

    def append_elsewhere(self, *rows: tuple[int, str, float]) -> None:
        columns = zip(*rows, strict=True)
        self.table().append(pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA))

    def live(self) -> set[str]:
        return {task.file.file_path for task in self.table().scan().plan_files()}


@pytest.fixture(params=PARTITIONS, ids=["flat", "by a column", "by transforms"])
def job(tmp_path: Path, request: pytest.FixtureRequest) -> UpsertJob:
    return UpsertJob(tmp_path, partition_by=request.param)


# --- whole jobs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("runtime", ["simulated", pytest.param("continuous", marks=pytest.mark.spark)])
def test_an_updating_table_is_written_as_its_current_rows(runtime: str, tmp_path: Path) -> None:
    random = Random(7)
    rows = [{"user": random.randrange(9), "cents": random.randrange(100)} for _ in range(300)]
    env = rh.Environment(2, runtime=runtime)  # type: ignore[arg-type]
    env.register("payments", env.from_source(rh.collection(rows)))
    totals = env.sql("SELECT user, count(*) AS n, sum(cents) AS total FROM payments GROUP BY user")
    totals.sink_to(rh.iceberg.sink(NAME, catalog=lake(tmp_path)))
    env.execute("totals into a table")
    query = table(tmp_path).scan().to_duckdb("lake")
    query.register("payments", pa.Table.from_pylist(rows))
    totals_of = "SELECT user, count(*), sum(cents)::BIGINT FROM payments GROUP BY user ORDER BY user"
    expected = query.execute(totals_of).fetchall()
    assert query.execute("SELECT user, n, total FROM lake ORDER BY user").fetchall() == expected


def test_each_change_takes_effect_once_after_crashes(tmp_path: Path) -> None:
    def changes(env: rh.Environment) -> rh.DataStream:
        def change(block: rh.Block) -> dict[str, Any]:
            return {"k": block.index() % 17, "v": block.index()}

        source = rh.generator(change, count=400, rate_per_s=200, splits=1)
        rows = env.from_source(source).upserts(key="k", op=None)
        rows.sink_to(rh.iceberg.sink("shop.t", catalog=lake(tmp_path), key="k"))
        return rows

    testing.simulate(changes, seed=1, faults=testing.Faults(crash_slot=1.0, crash_driver=0.5))
    newest = {n % 17: n for n in range(400)}
    assert rows_of(tmp_path) == sorted(newest.items(), key=repr)


def test_sql_writes_by_the_primary_key(tmp_path: Path) -> None:
    env = rh.Environment(2, runtime="simulated")
    env.register("numbers", env.from_source(rh.collection([{"n": n} for n in range(6)])))
    env.sql_script(
        f"""CREATE TABLE lake (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
        WITH ('connector' = 'iceberg', 'table' = '{NAME}', 'catalog.type' = 'sql',
              'catalog.uri' = 'sqlite:///{tmp_path}/catalog.db', 'catalog.warehouse' = '{tmp_path}');
        INSERT INTO lake SELECT n % 2 AS k, count(*) AS n FROM numbers GROUP BY n % 2"""
    )
    env.execute("sql into a table")
    assert rows_of(tmp_path) == [(0, 3), (1, 3)]


# --- commits, one by one ----------------------------------------------------------------------------


def test_random_changes_leave_the_newest_rows(job: UpsertJob) -> None:
    random, expected, listed = Random(3), {}, []
    with job.table().transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "4"})
    for _ in range(9):
        rows = []
        for _ in range(random.randint(1, 8)):
            key, part = random.randrange(10), random.choice(["a/b %20", "é", "", None])
            value = None if random.random() < 0.3 else random.random()
            rows.append((key, part, value))
            expected[key] = (key, part, value)
        listed += job.change(*rows)
        if random.random() < 0.6:
            job.commit(listed)
            job.commit(listed)  # A repetition has no effect.
            left = [row for row in expected.values() if row[2] is not None]
            assert job.rows() == sorted(left, key=repr)
    expire_all_but_the_newest(job)
    job.commit(listed)
    assert job.rows() == sorted((row for row in expected.values() if row[2] is not None), key=repr)
    manifests = job.table().current_snapshot().manifests(job.table().io)
    assert len(manifests) < 10, "manifests are merged"


def test_a_commit_has_one_number_and_keeps_other_files(job: UpsertJob) -> None:
    for k in range(4):
        job.append_elsewhere((k * 10, "x", 0.0), (k * 10 + 2, "x", 0.0))
    before, snapshots = job.live(), len(job.table().metadata.snapshots)
    job.commit(job.change((10, "x", 1.0), (21, "x", 2.0)))
    assert len(before - job.live()) == 1, "21 is within the bounds of a file that does not have it"
    assert len(job.rows()) == 9
    [written] = job.table().metadata.snapshots[snapshots:]
    assert written.summary.operation.value == "overwrite"
    assert written.summary.additional_properties["rheos.checkpoint"] == "1"


def test_the_bounds_of_files_save_reading_them(job: UpsertJob, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(0, 12, 2):
        job.append_elsewhere((k, "x", 0.0))
    examined, keys_of = [], KeyedChanges._keys_of

    def counted(changes: KeyedChanges, file: LiveFile) -> pl.DataFrame:
        examined.append(file.path)
        return keys_of(changes, file)

    monkeypatch.setattr(KeyedChanges, "_keys_of", counted)
    job.commit(job.change((4, "x", 1.0), (7, "x", 1.0)))
    assert len(examined) == 1


def rename_and_add_columns(job: UpsertJob) -> None:
    with job.table().update_schema() as update:
        update.rename_column("part", "place")
        update.rename_column("k", "key")
        update.union_by_name(pa.schema({"more": pa.list_(pa.string())}))
    with job.table().update_schema() as update:  # The names are exchanged: only ids tell them apart.
        update.rename_column("place", "k")
    with job.table().update_schema() as update:
        update.rename_column("k", "part")
        update.rename_column("key", "k")
    schema = job.table().schema().as_arrow()
    job.table().append(pa.table({"k": [9], "part": ["x"], "v": [9.0], "more": [["m"]]}, schema))


def compact(job: UpsertJob) -> None:
    found = job.table()
    found.overwrite(found.scan().to_arrow())


CHANGES: dict[str, tuple[Callable[[UpsertJob], Any], list[tuple[Any, ...]]]] = {
    "append": (
        lambda job: job.append_elsewhere((7, "x", 7.0)),
        [(1, "x", 10.0), (2, "x", 2.0), (7, "x", 7.0)],
    ),
    "append the key": (
        lambda job: job.append_elsewhere((1, "x", 8.0), (8, "x", 8.0)),
        [(1, "x", 10.0), (2, "x", 2.0), (8, "x", 8.0)],
    ),
    "delete": (lambda job: job.table().delete("k = 2"), [(1, "x", 10.0)]),
    "compact": (compact, [(1, "x", 10.0), (2, "x", 2.0)]),
    "change columns": (
        rename_and_add_columns,
        [(1, "x", 10.0, None), (2, "x", 2.0, None), (9, "x", 9.0, ["m"])],
    ),
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("change", CHANGES)
def test_other_writers_between_look_and_write_are_respected(
    job: UpsertJob, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    job.commit(job.change((1, "x", 1.0), (2, "x", 2.0)))
    job.commit(job.change((3, "y", 3.0)))
    write, (other, expected) = IcebergLog.write, CHANGES[change]
    others = [other]

    def late(log: IcebergLog, *args: Any, **settings: Any) -> None:
        if others:
            others.pop()(job)
        write(log, *args, **settings)

    monkeypatch.setattr(IcebergLog, "write", late)
    job.commit(job.change((1, "x", 10.0), (3, "y", None)))
    assert job.rows() == expected


def test_a_commit_whose_answer_was_lost_is_not_repeated(
    job: UpsertJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.commit(job.change((1, "x", 1.0), (2, "x", 2.0)))
    commit_table, lost = SqlCatalog.commit_table, []

    def loses_the_answer(catalog: Any, *args: Any, **settings: Any) -> Any:
        commit_table(catalog, *args, **settings)
        lost.append(True)
        raise OSError("connection closed")

    staged = job.change((1, "x", None), (3, "y", 3.0))
    with monkeypatch.context() as patch:
        patch.setattr(SqlCatalog, "commit_table", loses_the_answer)
        job.commit(staged)
    assert lost == [True]
    job.commit(staged)  # Its files are removed: only the number shows that it took effect (IC9).
    assert job.rows() == [(2, "x", 2.0), (3, "y", 3.0)]


def test_a_snapshot_without_effect_records_the_checkpoint(job: UpsertJob) -> None:
    staged = job.change((1, "x", None))
    job.commit(staged)
    job.commit(staged)
    assert job.rows() == []
    assert len(job.table().metadata.snapshots) == 1
    assert not list(job.folder.rglob("*.parquet"))


def test_files_of_an_earlier_partitioning_are_replaced(tmp_path: Path) -> None:
    first = UpsertJob(tmp_path, partition_by=["part"])
    first.commit(first.change((1, "x", 1.0), (2, "y", 2.0)))
    with first.table().update_spec() as update:
        update.remove_field("part")
    job = UpsertJob(tmp_path)
    job.committer().of_log("another").commit(job.change((1, "x", 3.0)))  # type: ignore[attr-defined]
    assert job.rows() == [(1, "x", 3.0), (2, "y", 2.0)]


def test_keys_of_all_types_are_matched_with_null(tmp_path: Path) -> None:
    at = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
    values: dict[pa.DataType, list[Any]] = {
        pa.string(): ["", "é", None, "x" * 70, "x" * 71],
        pa.date32(): [date(2026, 3, 1), date(1, 1, 1), None, date(9999, 1, 1)],
        pa.timestamp("us", "UTC"): [at, None, at + timedelta(microseconds=1), at + timedelta(days=1)],
        pa.float64(): [0.5, float("inf"), None, -1.0],
        pa.bool_(): [True, False, None],
        pa.binary(): [b"\x00", b"\xff", None],
        pa.int32(): [-1, 0, 2**31 - 1, -(2**31), None],
    }
    for at_, (kind, keys) in enumerate(values.items()):
        schema = pa.schema({"key": kind, "v": pa.int64()})
        folder = tmp_path / str(at_)
        folder.mkdir()
        partition_by = [] if kind in (pa.float64(), pa.binary()) else ["key"]
        job = Job(folder, schema, key="key", partition_by=partition_by)
        for v in range(3):
            job.checkpoint += 1
            job.commit(job.stage_rows([{"key": key, "v": v} for key in keys]))
        rows = job.table().scan().to_arrow()
        assert rows["v"].to_pylist() == [2] * len(keys), kind
        assert set(rows["key"].to_pylist()) == set(keys)


# --- what must stop the job ---------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["changes", "data"])
def test_a_lost_file_is_an_error(tmp_path: Path, lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rheos.connectors.table_log.epoch_append.PAUSES_MS", (0,))
    job = UpsertJob(tmp_path, partition_by=["part"])
    job.commit(job.change((1, "x", 1.0)))
    if lost == "data":
        lose_a_file(job)
    staged = job.change((1, "x", 2.0))
    if lost == "changes":
        lose_a_file(job)
    with pytest.raises(UnrestorableError, match="is lost: the file does not exist"):
        job.commit(staged)


def test_files_of_deleted_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = UpsertJob(tmp_path)
    job.commit(job.change((1, "x", 1.0)))
    staged = job.change((1, "x", 2.0))
    monkeypatch.setattr(ManifestFile, "content", ManifestContent.DELETES)
    with pytest.raises(CheckpointError, match="has files of deleted rows"):
        job.commit(staged)


def test_a_record_with_other_fields_is_refused(tmp_path: Path) -> None:
    at = [pa.field("x", pa.int64()), pa.field("y", pa.int64())]
    job = Job(tmp_path, pa.schema({"k": pa.int64(), "at": pa.struct(at)}), key="k")
    for k in range(2):
        job.checkpoint += 1
        job.commit(job.stage_rows([{"k": k, "at": {"x": k, "y": 2}}]))
    with job.table().update_schema() as update:
        update.move_first(("at", "y"))
    job = Job(tmp_path, pa.schema({"k": pa.int64(), "at": pa.struct(at[::-1])}), key="k")
    job.checkpoint = 3
    with pytest.raises(CheckpointError, match="column 'at' has other fields in the file"):
        job.commit(job.stage_rows([{"k": 1, "at": {"x": 1, "y": 2}}]))


def test_staged_rows_of_a_changed_program_are_not_mixed(tmp_path: Path) -> None:
    appending = Job(tmp_path, SCHEMA)
    staged = appending.stage_rows([{"k": 1, "part": "x", "v": 1.0}])
    upserting = UpsertJob(tmp_path)
    for job, rows in ((upserting, staged), (appending, upserting.change((1, "x", 1.0)))):
        with pytest.raises(UnrestorableError, match="or for another key"):
            job.commit(rows)


def test_a_changelog_with_another_key_is_refused(tmp_path: Path) -> None:
    env = rh.Environment(1, runtime="simulated")
    rows = env.from_source(rh.collection([{"a": 1, "b": 2}])).upserts(key="a", op=None)
    with pytest.raises(rh.ProgramError, match="changes of a table with the key a, but the key of the"):
        rows.sink_to(rh.iceberg.sink(NAME, catalog=lake(tmp_path), key="b"))


def test_columns_that_cannot_be_rewritten_are_refused(tmp_path: Path) -> None:
    catalog = load_catalog("default", **lake(tmp_path))
    catalog.create_namespace("shop")
    catalog.create_table(NAME, SCHEMA.append(pa.field("id", pa.uuid())))
    Job(tmp_path, SCHEMA)  # Rows may be appended.
    with pytest.raises(rh.ConfigurationError, match="columns that the sink cannot rewrite: id"):
        UpsertJob(tmp_path)
