"""A Delta table has the current row of each key: upserts, deletes and the changes of updating tables.

The invariants DL8 and DL9 are in docs/protocols/delta-sink.md.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import rheos as rh
from rheos import testing
from rheos.connectors.delta.delta_log import DeltaLog
from rheos.connectors.table_log.changed_files import KeyedChanges
from rheos.connectors.table_log.table_files import LiveFile
from rheos.core.errors import UnrestorableError
from tests.connectors.delta.test_sink import Job

SCHEMA = pa.schema({"k": pa.int64(), "part": pa.string(), "v": pa.float64()})


def read(table: Path) -> list[tuple[Any, ...]]:
    rows = pl.read_delta(str(table))
    rows = rows.select("k", *(name for name in ("part", "v", "n", "more") if name in rows.columns))
    return sorted(rows.rows(), key=repr)


class UpsertJob(Job):
    """A job that stages changes by hand. Rows are (key, partition, value), without a value deleted."""

    def __init__(self, table: Path, **settings: Any) -> None:
        self.table, self.schema, self.checkpoint = table, SCHEMA.append(pa.field("gone", pa.bool_())), 0
        sink = rh.delta.sink(table, **settings).of_changes(["k"], "gone")
        sink.validate(self.schema)
        self.sink = sink.prepared(self.schema, ("job", "table"))
        self.open()

    def change(self, *rows: tuple[int, str, float | None]) -> list[bytes]:
        self.checkpoint += 1
        named = [{"k": k, "part": p, "v": v, "gone": v is None} for k, p, v in rows]
        return self.stage_rows(named)


@pytest.fixture(params=[(), ("part",)], ids=["flat", "partitioned"])
def job(tmp_path: Path, request: pytest.FixtureRequest) -> UpsertJob:
    return UpsertJob(tmp_path / "t", partition_by=request.param)


# --- whole jobs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("runtime", ["simulated", pytest.param("continuous", marks=pytest.mark.spark)])
def test_an_updating_table_is_written_as_its_current_rows(runtime: str, tmp_path: Path) -> None:
    random = Random(7)
    rows = [{"user": random.randrange(9), "cents": random.randrange(100)} for _ in range(300)]
    env = rh.Environment(2, runtime=runtime)  # type: ignore[arg-type]
    env.register("payments", env.from_source(rh.collection(rows)))
    totals = env.sql("SELECT user, count(*) AS n, sum(cents) AS total FROM payments GROUP BY user")
    totals.sink_to(rh.delta.sink(tmp_path / "t"))
    env.execute("totals into a table")
    query = duckdb.connect()
    query.register("payments", pa.Table.from_pylist(rows))
    query.register("lake", DeltaTable(tmp_path / "t").to_pyarrow_dataset())
    totals_of = "SELECT user, count(*), sum(cents)::BIGINT FROM payments GROUP BY user ORDER BY user"
    expected = query.execute(totals_of).fetchall()
    assert query.execute("SELECT user, n, total FROM lake ORDER BY user").fetchall() == expected


def test_each_change_takes_effect_once_after_crashes(tmp_path: Path) -> None:
    def changes(env: rh.Environment) -> rh.DataStream:
        def change(block: rh.Block) -> dict[str, Any]:
            return {"k": block.index() % 17, "v": block.index()}

        source = rh.generator(change, count=400, rate_per_s=200, splits=1)
        rows = env.from_source(source).upserts(key="k", op=None)
        rows.sink_to(rh.delta.sink(tmp_path / str(seed), key="k"))
        return rows

    for seed in range(2):
        testing.simulate(changes, seed=seed, faults=testing.Faults(crash_slot=1.0, crash_driver=0.5))
        newest = {n % 17: n for n in range(400)}
        assert read(tmp_path / str(seed)) == sorted(newest.items(), key=repr)


def test_sql_writes_by_the_primary_key(tmp_path: Path) -> None:
    env = rh.Environment(2, runtime="simulated")
    env.register("numbers", env.from_source(rh.collection([{"n": n} for n in range(6)])))
    env.sql_script(
        f"""CREATE TABLE lake (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
        WITH ('connector' = 'delta', 'path' = '{tmp_path}/t');
        INSERT INTO lake SELECT n % 2 AS k, count(*) AS n FROM numbers GROUP BY n % 2"""
    )
    env.execute("sql into a table")
    assert read(tmp_path / "t") == [(0, 3), (1, 3)]


def test_a_changelog_with_another_key_is_refused(tmp_path: Path) -> None:
    env = rh.Environment(1, runtime="simulated")
    rows = env.from_source(rh.collection([{"a": 1, "b": 2}])).upserts(key="a", op=None)
    with pytest.raises(rh.ProgramError, match="changes of a table with the key a, but the key of the"):
        rows.sink_to(rh.delta.sink(tmp_path / "t", key="b"))
    with pytest.raises(rh.ProgramError, match="does not name columns"):
        rh.delta.sink(tmp_path / "t", key=["a", "a"])


# --- commits, one by one ----------------------------------------------------------------------------


def test_random_changes_leave_the_newest_rows(job: UpsertJob) -> None:
    random, expected, listed = Random(3), {}, []
    for _ in range(12):
        rows = []
        for _ in range(random.randint(1, 8)):
            key, part = random.randrange(10), random.choice(["a/b %20", "é", "x"])
            value = None if random.random() < 0.3 else random.random()
            rows.append((key, part, value))
            expected[key] = (key, part, value)
        listed += job.change(*rows)
        if random.random() < 0.6:
            job.commit(listed)
            job.commit(listed)  # A repetition has no effect.
            left = [row for row in expected.values() if row[2] is not None]
            assert read(job.table) == sorted(left, key=repr)
    DeltaTable(job.table).vacuum(0, enforce_retention_duration=False, dry_run=False, full=True)
    assert read(job.table) == sorted((row for row in expected.values() if row[2] is not None), key=repr)


def test_files_without_changed_keys_stay(job: UpsertJob) -> None:
    for k in range(4):
        write_deltalake(
            job.table,
            pa.table({"k": [k * 10, k * 10 + 2], "part": ["x"] * 2, "v": [0.0] * 2}),
            mode="append",
        )
    before = set(DeltaTable(job.table).file_uris())
    job.commit(job.change((10, "x", 1.0), (21, "x", 2.0)))
    after = set(DeltaTable(job.table).file_uris())
    assert len(before - after) == 1, "21 is within the bounds of a file that does not have it"
    assert len(after - before) == 1
    assert (10, "x", 1.0) in read(job.table)
    assert len(read(job.table)) == 9


def test_the_bounds_of_files_save_reading_them(job: UpsertJob, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(0, 80, 2):
        write_deltalake(job.table, pa.table({"k": [k], "part": ["x"], "v": [0.0]}), mode="append")
    examined, keys_of = [], KeyedChanges._keys_of

    def counted(changes: KeyedChanges, file: LiveFile) -> pl.DataFrame:
        examined.append(file.path)
        return keys_of(changes, file)

    monkeypatch.setattr(KeyedChanges, "_keys_of", counted)
    job.commit(job.change((4, "x", 1.0), (7, "x", 1.0)))
    assert len(examined) == 1


@pytest.mark.parametrize("change", ["append", "append the key", "compact", "add a column"])
def test_other_writers_between_look_and_write_are_respected(
    job: UpsertJob, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    job.commit(job.change((1, "x", 1.0), (2, "x", 2.0)))
    job.commit(job.change((3, "y", 3.0)))
    write, others = DeltaLog.write, [change]

    def late(log: DeltaLog, *args: Any, **settings: Any) -> None:
        if others:
            match others.pop():
                case "append":
                    add = pa.table({"k": [7], "part": ["x"], "v": [7.0]})
                    write_deltalake(job.table, add, mode="append")
                case "append the key":
                    add = pa.table({"k": [1, 8], "part": ["x", "x"], "v": [8.0, 8.0]})
                    write_deltalake(job.table, add, mode="append")
                case "compact":
                    DeltaTable(job.table).optimize.compact()
                case "add a column":
                    add = pa.table({"k": [9], "part": ["x"], "v": [9.0], "more": ["m"]})
                    write_deltalake(job.table, add, mode="append", schema_mode="merge")
        write(log, *args, **settings)

    monkeypatch.setattr(DeltaLog, "write", late)
    job.commit(job.change((1, "x", 10.0), (3, "y", None)))
    expected = {
        "append": [(1, "x", 10.0), (2, "x", 2.0), (7, "x", 7.0)],
        "append the key": [(1, "x", 10.0), (2, "x", 2.0), (8, "x", 8.0)],
        "compact": [(1, "x", 10.0), (2, "x", 2.0)],
        "add a column": [(1, "x", 10.0, None), (2, "x", 2.0, None), (9, "x", 9.0, "m")],
    }
    assert read(job.table) == expected[change]
    live = {Path(uri).name for uri in DeltaTable(job.table).file_uris()}
    job.commit(job.change((2, "x", None)))
    assert {Path(uri).name for uri in DeltaTable(job.table).file_uris()} != live


def test_a_version_without_effect_records_the_checkpoint(job: UpsertJob) -> None:
    staged = job.change((1, "x", None))
    job.commit(staged)
    job.commit(staged)  # Its files are removed: only the number shows that it took effect (DL9).
    assert read(job.table) == []
    assert DeltaTable(job.table).version() == 1
    assert not list(job.table.rglob("*.parquet"))


def test_keys_of_all_types_are_matched_with_null(tmp_path: Path) -> None:
    at = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
    values: dict[str, list[Any]] = {
        "s": ["", "é", None, "x" * 70],
        "d": [date(2026, 3, 1), date(1, 1, 1), None, date(9999, 1, 1)],
        "at": [at, None, at + timedelta(microseconds=1), at + timedelta(days=1)],
        "x": [0.5, float("inf"), None, -1.0],
        "b": [True, False, None],
        "raw": [b"\x00", b"\xff", None],
    }
    types = {
        "s": pa.string(),
        "d": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "x": pa.float64(),
        "b": pa.bool_(),
        "raw": pa.binary(),
    }
    for name, keys in values.items():
        for partition_by in ([], [name])[: 2 if name in ("s", "d", "b") else 1]:
            schema = pa.schema([pa.field(name, types[name]), pa.field("v", pa.int64())])
            job = Job(
                tmp_path / f"{name}-{len(partition_by)}", schema, key=name, partition_by=partition_by
            )
            for v in range(3):
                job.checkpoint += 1
                job.commit(job.stage_rows([{name: key, "v": v} for key in keys]))
            distinct = {key or None if name == "s" and partition_by else key for key in keys}
            rows = pl.read_delta(str(job.table))
            assert rows["v"].to_list() == [2] * len(distinct), (name, partition_by)
            assert set(rows[name]) == distinct


# --- what must stop the job ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("delta.enableChangeDataFeed", "the setting delta.enableChangeDataFeed"),
        ("delta.appendOnly", "the setting delta.appendOnly"),
    ],
)
def test_a_table_that_forbids_rewriting_is_refused(tmp_path: Path, setting: str, what: str) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA, configuration={setting: "true"})
    with pytest.raises(rh.ConfigurationError, match=what):
        UpsertJob(tmp_path / "t")
    Job(tmp_path / "t", SCHEMA)  # Rows may be appended.


def lose_changes(job: UpsertJob) -> None:
    for file in job.table.glob("*.parquet"):
        file.unlink()


def lose_a_data_file(job: UpsertJob) -> None:
    for uri in DeltaTable(job.table).file_uris():
        Path(uri).unlink()


@pytest.mark.parametrize("lose", [lose_changes, lose_a_data_file])
def test_a_lost_file_is_an_error(
    tmp_path: Path, lose: Callable[[UpsertJob], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rheos.connectors.table_log.epoch_append.PAUSES_MS", (0,))
    job = UpsertJob(tmp_path / "t", partition_by=["part"])
    job.commit(job.change((1, "x", 1.0)))
    staged = job.change((1, "x", 2.0))
    lose(job)
    with pytest.raises(UnrestorableError, match="is lost: the file does not exist"):
        job.commit(staged)


def test_staged_rows_of_a_changed_program_are_not_mixed(tmp_path: Path) -> None:
    appending = Job(tmp_path / "t", SCHEMA)
    staged = appending.stage_rows([{"k": 1, "part": "x", "v": 1.0}])
    upserting = UpsertJob(tmp_path / "t")
    for job, rows in ((upserting, staged), (appending, upserting.change((1, "x", 1.0)))):
        with pytest.raises(UnrestorableError, match="or for another key"):
            job.commit(rows)
