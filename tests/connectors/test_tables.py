"""Tables of Spark as sinks. Delta Lake and Iceberg are tested in `test_table_transactions`."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos import col
from tests.connectors.killed_jobs import run_with_kills
from tests.waiting import wait_for


@pytest.fixture
def database(spark: Any, tmp_path: Path) -> Iterator[str]:
    name = f"db_{tmp_path.name}".replace("-", "_")[-40:]
    spark.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path}/warehouse'")
    yield name
    spark.sql(f"DROP DATABASE {name} CASCADE")


def rows(count: int = 6) -> list[dict[str, Any]]:
    return [{"n": n, "k": [f"it's {n % 2}", "a/b=c", None][n % 3]} for n in range(count)]


def write(target: str, data: list[dict[str, Any]], spark: Any, **settings: Any) -> None:
    runtime = settings.pop("runtime", "batch")
    partition_by = settings.pop("partition_by", ())
    format = settings.pop("format", None)
    env = rh.Environment(2, runtime=runtime, spark=spark, **settings)
    sink = rh.tables.sink(target, format=format, partition_by=partition_by)
    env.from_source(rh.collection(data)).sink_to(sink, name="table")
    env.execute("rows into a table")


def found(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.select("n", "k").collect()), key=lambda row: row[0])


def expected(count: int = 6) -> list[tuple[Any, ...]]:
    return [(row["n"], row["k"]) for row in rows(count)]


# --- what is written --------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("runtime", ["batch", "continuous", "simulated"])
def test_a_table_is_created_and_appended_to(spark: Any, database: str, runtime: str) -> None:
    target = f"{database}.orders"
    write(target, rows(3), spark, runtime=runtime, partition_by=["k"])
    write(target, rows(6)[3:], spark, runtime=runtime)
    assert found(spark.table(target)) == expected()
    partitions = {row[0] for row in spark.sql(f"SHOW PARTITIONS {target}").collect()}
    assert partitions == {
        "k=__HIVE_DEFAULT_PARTITION__",
        "k=a%2Fb%3Dc",
        "k=it%27s 0",
        "k=it%27s 1",
    }


@pytest.mark.spark
def test_a_folder_is_created_and_appended_to(spark: Any, tmp_path: Path) -> None:
    target = f"{tmp_path}/orders"
    write(target, rows(), spark, partition_by=["k"])
    assert found(spark.read.parquet(target)) == expected()
    assert not (tmp_path / "orders" / ".rheos-staging").exists()


@pytest.mark.spark
def test_narrower_numbers_and_missing_columns_fit(spark: Any, database: str) -> None:
    target = f"{database}.wide"
    spark.sql(f"CREATE TABLE {target} (extra STRING, n BIGINT, k STRING) USING parquet")
    env = rh.Environment(1, runtime="batch", spark=spark)
    narrow = env.from_source(rh.collection(rows())).with_columns(n=col("n").cast(int32()))
    narrow.sink_to(rh.tables.sink(target))
    env.execute("narrow")
    assert found(spark.table(target)) == expected()
    assert [row[0] for row in spark.table(target).select("extra").collect()] == [None] * 6


def int32() -> Any:
    import polars as pl

    return pl.Int32


# --- what is refused --------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("n BIGINT", "has no column 'k' (string); it has n"),
        ("n STRING, k STRING", "column 'n' is bigint in the stream, but string in the table"),
        ("N BIGINT, k STRING", "column 'n' of the stream is called 'N' in the table"),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    spark: Any, database: str, columns: str, message: str
) -> None:
    target = f"{database}.other"
    spark.sql(f"CREATE TABLE {target} ({columns}) USING parquet")
    with pytest.raises(rh.SchemaError, match=re.escape(message)) as refused:
        write(target, rows(), spark)
    assert refused.value.site is not None
    assert refused.value.site.file == __file__
    assert refused.value.operator == "table"


@pytest.mark.spark
@pytest.mark.parametrize("made", ["TEMPORARY VIEW seen", "VIEW {}.seen"])
def test_a_view_is_refused(spark: Any, database: str, made: str) -> None:
    spark.sql(f"CREATE {made.format(database)} AS SELECT 1 AS n, 'a' AS k")
    target = made.format(database).split()[-1]
    try:
        with pytest.raises(rh.ConfigurationError, match=f"{target} is a view"):
            write(target, rows(), spark)
        assert not spark.catalog.tableExists(f"{spark.catalog.currentDatabase()}.seen")
    finally:
        spark.catalog.dropTempView("seen")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("format", "package"),
    [("delta", "io.delta:delta-spark_2.13"), ("iceberg", "org.apache.iceberg:iceberg-spark-runtime")],
)
def test_a_format_without_its_package_is_refused(
    spark: Any, database: str, format: str, package: str
) -> None:
    with pytest.raises(rh.ConfigurationError, match="does not provide") as refused:
        write(f"{database}.lake", rows(), spark, format=format)
    assert package in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "a b"}, "is not the name of a table"),
        ({"target": "t", "format": "orc"}, "format='orc' is not known"),
        ({"target": "t", "mode": "overwrite"}, "mode='overwrite' is not valid"),
        ({"target": "t", "partition_by": "k"}, "is not a list of columns"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(rh.ProgramError, match=re.escape(message)):
        rh.tables.sink(**arguments)


@pytest.mark.spark
def test_a_job_without_a_slot_to_publish_in_is_refused(spark: Any, tmp_path: Path) -> None:
    have = spark.sparkContext.defaultParallelism
    env = rh.Environment(have, runtime="continuous", spark=spark)
    source = rh.generator(lambda block: {"n": block.index()}, rate_per_s=10)
    env.from_source(source).sink_to(rh.tables.sink(tmp_path / "out"))
    with pytest.raises(rh.ConfigurationError) as refused:
        env.execute("no slot is left")
    assert (
        f"the job needs {have + 1} slots ({have} for tasks, and 1 for Spark jobs" in refused.value.what
    )
    assert f"local[{have + 1}]" in (refused.value.hint or "")


@pytest.mark.spark
def test_a_table_that_changes_receives_no_partial_epoch(
    spark: Any, database: str, tmp_path: Path
) -> None:
    from rheos.core.connectors.contract import SinkContext
    from rheos.core.protocol.ids import Attempt, CheckpointId, JobId

    target = f"{database}.changing"
    schema = pa.schema([("n", pa.int64()), ("k", pa.string())])
    # A table of its own place: to drop it leaves the files.
    made = "CREATE TABLE {} (n {}, k STRING) USING parquet PARTITIONED BY (k) LOCATION '{}'"
    spark.sql(made.format(target, "BIGINT", tmp_path / "files"))
    sink = rh.tables.sink(target).prepared(schema, ("job", "sink-1"))
    sink = pickle.loads(pickle.dumps(sink))
    ctx: Any = SinkContext(JobId("job"), Attempt(1), "sink-1", 0, None, None, schema)  # type: ignore[arg-type]
    writer, committer = sink.open(ctx), sink.committer()
    assert committer is not None
    writer.write(pa.RecordBatch.from_pylist(rows(), schema))
    staged = writer.prepare(CheckpointId(1))
    assert writer.prepare(CheckpointId(2)) == []
    spark.sql(f"DROP TABLE {target}")
    with pytest.raises(rh.SchemaError, match=f"{target} does not exist: .TABLE_OR_VIEW_NOT_FOUND"):
        committer.commit(staged)
    spark.sql(made.format(target, "STRING", tmp_path / "files"))
    with pytest.raises(rh.SchemaError, match="column 'n' is bigint in the stream, but string in the"):
        committer.commit(staged)
    assert found(spark.table(target)) == []
    spark.sql(f"DROP TABLE {target}")
    spark.sql(made.format(target, "BIGINT", tmp_path / "files"))
    committer.commit(staged)
    committer.commit(staged)
    assert found(spark.table(target)) == expected()


@pytest.mark.spark
def test_a_table_altered_since_the_savepoint_is_reported(
    spark: Any, database: str, tmp_path: Path
) -> None:
    target = f"{database}.altered"
    made = f"CREATE TABLE {target} ({{}}, k STRING) USING parquet LOCATION '{tmp_path}/rows'"
    spark.sql(made.format("n INT"))

    def program(runs: str, **settings: Any) -> rh.Environment:
        env = rh.Environment(
            1, runtime="continuous", spark=spark, checkpoint_dir=tmp_path / runs, **settings
        )
        endless = rh.generator(lambda block: {"n": block.index()}, rate_per_s=100, splits=1)
        numbers = env.from_source(endless).with_columns(n=col("n").cast(int32()), k=rh.lit("k"))
        numbers.sink_to(rh.tables.sink(target), name="table")
        return env

    def run_and_stop(env: rh.Environment) -> str:
        job = env.execute_async("numbers")
        wait_for(lambda: sum(operator.records_out for operator in job.status().operators) > 10)
        return job.stop()

    savepoint = run_and_stop(program("before"))
    spark.sql(f"DROP TABLE {target}")
    spark.sql(made.format("n BIGINT"))  # The stream would fit it, too.
    with pytest.raises(rh.RheosError, match="column 'n' was int, and is now bigint") as refused:
        program("after", from_savepoint=savepoint).execute("numbers")
    assert f"{target} has changed since the savepoint {savepoint!r}" in refused.value.what
    assert refused.value.operator == "table"
    spark.sql(f"DROP TABLE {target}")
    spark.sql(made.format("n INT"))
    run_and_stop(program("back", from_savepoint=savepoint))
    numbers = sorted(row[0] for row in spark.table(target).select("n").collect())
    assert numbers
    assert numbers == list(range(len(numbers)))


# --- what dies --------------------------------------------------------------------------------------


@pytest.mark.proves(
    "Spark",
    faults=["workers and the driver of a job with tables are killed"],
    slow_because="every run kills those of a job with a Delta table",
)
@pytest.mark.spark
@pytest.mark.slow
def test_each_row_once_though_workers_and_driver_are_killed(spark: Any, tmp_path: Path) -> None:
    target = f"{tmp_path}/table"
    written = run_with_kills(
        "parquet", tmp_path, target, lambda: int(spark.read.parquet(target).count())
    )
    spark.catalog.refreshByPath(target)
    numbers = sorted(row[0] for row in spark.read.parquet(target).select("n").collect())
    assert numbers == written
