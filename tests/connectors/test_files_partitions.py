"""Files in partition folders: where rows are written, who reads them, and that each row exists once."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos import testing
from rheos.connectors import files
from rheos.connectors.files.partitions import NULL_PARTITION, PartitionedFiles
from rheos.core.connectors.contract import SinkWriter
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from tests.connectors.ports import batch_of, sink_context
from tests.connectors.test_files_sink_runs import RUNTIMES

SCHEMA = pa.schema([("n", pa.int64()), ("day", pa.date32()), ("place", pa.string())])
STRANGE = "a/b=c: 100% [x]"
PLACES = (None, STRANGE, "x")
C1, C2 = CheckpointId(1), CheckpointId(2)


def rows(*numbers: int) -> pa.RecordBatch:
    return batch_of(
        SCHEMA, *({"n": n, "day": date(2026, 1, 1 + n % 2), "place": PLACES[n % 3]} for n in numbers)
    )


def published(folder: Path) -> list[Path]:
    return sorted(
        path.relative_to(folder) for path in folder.rglob("part-*") if ".rheos" not in str(path)
    )


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_each_partition_has_a_folder_as_hive_names_it(format: Any, tmp_path: Path) -> None:
    sink = files.sink(tmp_path, format=format, partition_by=["day", "place"])
    writer = sink.open(sink_context(SCHEMA))
    writer.write(rows(*range(12)))
    sink.committer().commit(writer.prepare(C1))
    folders = {str(path.parent) for path in published(tmp_path)}
    assert folders == {
        f"day=2026-01-0{day}/place={place}"
        for day in (1, 2)
        for place in (NULL_PARTITION, "a%2Fb%3Dc%3A 100%25 %5Bx%5D", "x")
    }
    read = pl.read_parquet if format == "parquet" else pl.read_ndjson
    for path in published(tmp_path):
        assert read(tmp_path / path).columns == ["n"]


@pytest.mark.parametrize("format", [rh.formats.csv(delimiter=";"), "text"])
def test_files_of_lines_omit_the_partition_column(format: Any, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("line", pa.string(), nullable=False), ("day", pa.date32())])
    sink = files.sink(tmp_path, format=format, partition_by=["day"], compression="gzip")
    sink.validate(schema)
    writer = sink.open(sink_context(schema))
    writer.write(batch_of(schema, {"line": "a", "day": date(2026, 1, 1)}))
    sink.committer().commit(writer.prepare(C1))
    (path,) = published(tmp_path)
    assert str(path.parent) == "day=2026-01-01"
    assert path.suffix == ".gz"


def test_polars_and_duckdb_read_the_partition_columns(tmp_path: Path) -> None:
    sink = files.sink(tmp_path, partition_by=["day", "place"])
    writer = sink.open(sink_context(SCHEMA))
    writer.write(rows(*range(12)))
    sink.committer().commit(writer.prepare(C1))
    wanted = {(row["n"], row["day"], row["place"]) for row in rows(*range(12)).to_pylist()}
    polars = pl.read_parquet(tmp_path, hive_partitioning=True).select("n", "day", "place")
    assert set(polars.rows()) == wanted
    found = duckdb.sql(
        f"SELECT n, day, place FROM read_parquet('{tmp_path}/*/*/*.parquet', hive_partitioning = true)"
    )
    assert found is not None
    assert set(found.fetchall()) == wanted


@pytest.mark.spark
def test_spark_reads_the_partition_columns(tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    write(tmp_path / "out", 30, "batch")
    found = SparkSession.builder.getOrCreate().read.parquet(str(tmp_path / "out"))
    assert {(row["n"], row["third"]) for row in found.collect()} == {(n, n % 3) for n in range(30)}


def test_rows_without_partition_columns_are_in_the_folder_itself(tmp_path: Path) -> None:
    folders: list[str] = []
    sink = files.sink(tmp_path, partition_by=["place"])

    def open_file(ctx: Any, folder: str) -> SinkWriter:
        folders.append(folder)
        return sink.open(ctx)

    PartitionedFiles(sink_context(SCHEMA), (), open_file).write(rows(1, 2))
    assert folders == [""]


def test_open_files_are_bounded_and_counted(tmp_path: Path) -> None:
    counted: dict[str, int] = {}

    def count(name: str, by: int) -> None:
        counted[name] = counted.get(name, 0) + by

    sink = files.sink(tmp_path, partition_by=["n"], max_open_files=2)
    writer = sink.open(replace(sink_context(SCHEMA), count=count))
    writer.write(rows(1, 2))
    writer.write(rows(1, 3))  # 2 was used least recently.
    assert counted == {"files_closed_early": 1}
    writer.write(rows(1))
    sink.committer().commit(writer.prepare(C1))
    assert [str(path.parent) for path in published(tmp_path)] == ["n=1", "n=2", "n=3"]
    assert pl.read_parquet(tmp_path, hive_partitioning=True).height == 5


def test_a_commit_that_is_repeated_after_a_kill_completes_the_rest(tmp_path: Path) -> None:
    sink = files.sink(tmp_path, partition_by=["day", "place"])
    writer = sink.open(sink_context(SCHEMA))
    writer.write(rows(*range(6)))
    staged = writer.prepare(C1)
    assert len(staged) == 6
    sink.committer().commit(staged[:2])
    (tmp_path / "day=2026-01-02/place=x").mkdir(parents=True, exist_ok=True)  # Before its rename.
    sink.committer().abort_stale(JobId("job"), Attempt(9), staged)
    sink.committer().commit(staged)
    sink.committer().commit(staged)
    found = pl.read_parquet(tmp_path, hive_partitioning=True)
    assert sorted(found["n"].to_list()) == list(range(6))


def write(folder: Path, count: int, runtime: Any, **settings: Any) -> None:
    env = rh.Environment(2, runtime=runtime)
    numbers = rh.generator(
        lambda block: {"n": block.index(), "third": block.index() % 3}, count=40, splits=1
    )
    rows = env.from_source(numbers).filter(rh.col("n") < count)
    rows.sink_to(rh.files.sink(folder, partition_by=["third"], **settings), name="out")
    env.execute("numbers")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_second_run_adds_or_replaces(runtime: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, 30, runtime)
    assert sorted(path.name for path in out.iterdir()) == ["third=0", "third=1", "third=2"]
    with pytest.raises(rh.ConfigurationError, match="already contains files"):
        write(out, 30, runtime)
    write(out, 30, runtime, mode="append")
    assert pl.read_parquet(out).height == 60
    write(out, 2, runtime, mode="overwrite")
    assert pl.read_parquet(out).sort("n").rows() == [(0, 0), (1, 1)]
    (out / "third=0" / "mine.parquet").touch()
    with pytest.raises(
        rh.ConfigurationError, match=r"contains files of another origin \(third=0/mine.parquet\)"
    ):
        write(out, 30, runtime, mode="overwrite")


def test_each_row_is_there_once_after_crashes(tmp_path: Path) -> None:
    def numbers(env: rh.Environment) -> rh.DataStream:
        source = rh.generator(
            lambda block: {"n": block.index(), "part": block.index() % 7},
            count=100,
            rate_per_s=50,
            splits=1,
        )
        rows = env.from_source(source)
        rows.sink_to(rh.files.sink(tmp_path / str(seed), partition_by=["part"], max_open_files=3))
        return rows

    for seed in range(4):
        testing.simulate(numbers, seed=seed, faults=testing.Faults(crash_slot=1.0, crash_driver=0.5))
        found = pl.read_parquet(tmp_path / str(seed) / "part=*" / "*.parquet", hive_partitioning=True)
        assert sorted(found.select("n", "part").rows()) == [(n, n % 7) for n in range(100)]


@pytest.mark.parametrize(
    ("columns", "error", "what"),
    [
        (["dya"], ProgramError, "names the column 'dya', which the stream does not have"),
        (["x"], SchemaError, "the column 'x' is double, which cannot name a partition"),
        (["list"], SchemaError, "the column 'list' is list"),
        (["day", "day"], ProgramError, "names a column twice"),
        (["day", "n"], ProgramError, "all columns are partition columns"),
    ],
)
def test_columns_that_cannot_partition_are_refused(columns: list[str], error: Any, what: str) -> None:
    schema = pa.schema([("n", pa.int64()), ("day", pa.date32())])
    if columns[0] in ("x", "list"):
        schema = pa.schema([("x", pa.float64()), ("list", pa.list_(pa.int64())), ("n", pa.int64())])
    with pytest.raises(error, match=what):
        files.sink("out", partition_by=columns).validate(schema)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"partition_by": "day"}, "is not a list of columns"),
        ({"partition_by": [1]}, "is not a list of columns"),
        ({"partition_by": ["day"], "max_open_files": 0}, "max_open_files=0 is not a number"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, what: str) -> None:
    with pytest.raises(ProgramError, match=what):
        files.sink("out", **arguments)


def test_sql_names_the_partition_columns(tmp_path: Path) -> None:
    env = rh.Environment(2, runtime="simulated")
    env.sql_script(
        f"""CREATE TABLE out (n BIGINT, day DATE) WITH
            ('connector' = 'files', 'path' = '{tmp_path}/out', 'format' = 'parquet',
             'partition_by' = 'day');
            INSERT INTO out SELECT * FROM (VALUES (1, DATE '2026-01-01'), (2, DATE '2026-01-02'))
            AS t (n, day)"""
    )
    env.execute("by day")
    found = pl.read_parquet(tmp_path / "out", hive_partitioning=True).sort("n")
    assert found.rows() == [(1, date(2026, 1, 1)), (2, date(2026, 1, 2))]
