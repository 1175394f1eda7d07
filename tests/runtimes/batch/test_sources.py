"""Files read by Spark: the same rows, watermarks and errors as with Rheos' own reader."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rheos as rh
from rheos import col
from rheos.runtimes.batch.source_input import SparkRows, SplitInput
from rheos.runtimes.batch.sources import SourceFrame, source_frame
from tests.spark_versions import is_since

pytestmark = pytest.mark.spark

UTC = dt.UTC


@dataclass
class Visit:
    at: dt.datetime
    user: int
    url: str
    price: float | None


VISITS = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("user", pa.int64()),
        pa.field("url", pa.string()),
        pa.field("price", pa.float64()),
    ]
)


def visits(first: int, rows: int) -> pa.Table:
    numbers = range(first, first + rows)
    return pa.table(
        {
            "at": [dt.datetime(2026, 1, 1, tzinfo=UTC) + dt.timedelta(seconds=n) for n in numbers],
            "user": [n % 7 for n in numbers],
            "url": [f"/page/{n % 11}" for n in numbers],
            "price": [None if n % 5 == 0 else n / 2 for n in numbers],
        },
        schema=VISITS,
    )


def write(folder: Path, *tables: pa.Table, **options: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet", **options)
    return folder


@pytest.fixture
def env(spark: SparkSession) -> rh.Environment:
    return rh.Environment(2, runtime="batch", spark=spark)


def read(spark: SparkSession, env: rh.Environment) -> SourceFrame:
    """Return how the first source of the program is read."""
    plan = env.plan()
    session = spark.newSession()
    return source_frame(session, plan, plan.chains[0])


def spark_plan(found: SourceFrame) -> str:
    return str(found.frame._jdf.queryExecution().executedPlan().toString())


def rows(result: rh.JobResult, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.collected[name].to_pylist()
    return sorted(found, key=str)


def test_columns_are_pruned_and_the_filter_is_pushed_down(
    spark: SparkSession, env: rh.Environment, tmp_path: Path
) -> None:
    folder = write(tmp_path / "in", visits(0, 100), visits(100, 300))
    stream = env.from_source(rh.files.source(folder, schema=VISITS), name="visits")
    stream.filter(col("user") == 3).select("user", "price").collect("threes")
    found = read(spark, env)
    assert found.feed == SparkRows(("user", "price"), ordered=False)
    assert "ReadSchema: struct<user:bigint,price:double>" in spark_plan(found)
    assert "PushedFilters: [IsNotNull(user), EqualTo(user,3)]" in spark_plan(found)
    assert found.how == "Parquet, read by Spark in parts of files, filtered: columns user, price"
    result = env.execute()
    whole = pl.DataFrame(pa.concat_tables([visits(0, 100), visits(100, 300)]))
    wanted = whole.filter(user=3).select("user", "price")
    assert rows(result, "threes") == sorted(wanted.to_dicts(), key=str)
    # The source does not count rows that the reader dropped.
    assert {o.name: o.records_out for o in result.status.operators}["visits"] == wanted.height


def test_several_filters_are_pushed_down_as_their_union(
    spark: SparkSession, env: rh.Environment, tmp_path: Path
) -> None:
    folder = write(tmp_path / "in", visits(0, 100))
    stream = env.from_source(rh.files.source(folder, schema=VISITS))
    stream.filter(col("user") == 3).filter(col("price") < 40.0).select("user").collect("threes")
    stream.filter(col("user") >= 5).select("user").collect("more")
    pushed = spark_plan(read(spark, env)).split("PushedFilters: ")[1].split(", ReadSchema")[0]
    assert "And(EqualTo(user,3),LessThan(price,40.0))" in pushed
    assert "GreaterThanOrEqual(user,5)" in pushed
    result = env.execute()
    table = pl.DataFrame(visits(0, 100))
    assert result.collected["threes"].num_rows == table.filter(pl.col("price") < 40, user=3).height
    assert result.collected["more"].num_rows == table.filter(pl.col("user") >= 5).height


def test_no_filter_is_pushed_past_an_unfiltered_consumer(
    spark: SparkSession, env: rh.Environment, tmp_path: Path
) -> None:
    stream = env.from_source(rh.files.source(write(tmp_path / "in", visits(0, 9)), schema=VISITS))
    stream.filter(col("user") == 3).collect("threes")
    stream.select("url").collect("urls")
    assert "PushedFilters: []" in spark_plan(read(spark, env))
    assert env.execute().collected["urls"].num_rows == 9


def test_a_filter_that_may_fail_is_not_pushed_down(
    spark: SparkSession, env: rh.Environment, tmp_path: Path
) -> None:
    """The cast fails on the row of user 1, which the other part of the filter would have hidden."""
    stream = env.from_source(rh.files.source(write(tmp_path / "in", visits(0, 3)), schema=VISITS))
    stream.filter((col("user") > 1) & (col("url").str.slice(6).cast(pl.Int64) > 0)).collect("rows")
    assert "PushedFilters: []" in spark_plan(read(spark, env))
    broken = visits(0, 3).set_column(2, "url", pa.array(["/page/1", "/page/x", "/page/2"]))
    write(tmp_path / "in", broken)
    with pytest.raises(rh.UserFunctionError, match="filter"):
        env.execute()


def late_counts(env: rh.Environment, folder: Path) -> rh.JobResult:
    watermark = rh.Watermark.bounded_out_of_orderness("1s", on="at")
    stream = env.from_source(rh.files.source(folder, schema=VISITS), watermark=watermark, name="visits")
    windows = stream.filter(col("user") == 1).key_by("user").window(rh.Tumbling("10s"))
    windows.aggregate(n=rh.agg.count()).collect("counts")
    return env.execute()


def test_lateness_considers_all_rows_of_a_file(env: rh.Environment, tmp_path: Path) -> None:
    """A row that the filter drops makes the late row late; and a file stays one partition."""
    table = pa.table(
        {
            "at": [dt.datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in (0, 50, 1, 51)],
            "user": [1, 2, 1, 1],
            "url": ["/"] * 4,
            "price": [1.0] * 4,
        },
        schema=VISITS,
    )
    folder = write(tmp_path / "in", table, visits(0, 30_000), row_group_size=1000)
    result = late_counts(env, folder)
    assert result.counter("window(10s)", "late") == 1
    other = rh.Environment(2, runtime="simulated")
    expected = late_counts(other, folder)
    assert rows(result, "counts") == rows(expected, "counts")


def test_each_file_is_a_partition_if_order_matters(
    spark: SparkSession, env: rh.Environment, tmp_path: Path
) -> None:
    folder = write(tmp_path / "in", *(visits(0, 1 + 700 * n) for n in range(5)), row_group_size=100)
    stream = env.from_source(rh.files.source(folder, schema=VISITS))
    counted = stream.key_by("user").running(n=rh.agg.count())
    counted.select("user", "n").collect("counts")
    found = read(spark, env)
    assert isinstance(found.feed, SplitInput)
    assert found.how.endswith("columns user")
    assert found.frame.rdd.getNumPartitions() == 5
    some = rh.Environment(2, runtime="batch", spark=spark)
    filtered = some.from_source(rh.files.source(folder, schema=VISITS)).filter(col("user") == 3)
    filtered.key_by("user").running(n=rh.agg.count()).select("user", "n").collect("counts")
    found = read(spark, some)
    assert found.feed == SparkRows(("user",), ordered=True)
    assert found.frame.rdd.getNumPartitions() == 5
    assert rows(some.execute(), "counts") == [
        row for row in rows(env.execute(), "counts") if row["user"] == 3
    ]


def test_few_files_are_split_over_all_slots(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "in", visits(0, 10))
    free = rh.Environment(2, runtime="batch", spark=spark)
    free.from_source(rh.files.source(folder, schema=VISITS)).select("user").collect("users")
    assert read(spark, free).feed == SparkRows(("user",), ordered=False)


def test_a_filtered_row_without_event_time_is_an_error(env: rh.Environment, tmp_path: Path) -> None:
    table = visits(0, 3).set_column(0, "at", pa.array([None, 1, 2], pa.timestamp("us", tz="UTC")))
    folder = write(tmp_path / "in", table)
    stream = env.from_source(
        rh.files.source(folder, schema=VISITS), watermark=rh.Watermark.monotonic(on="at")
    )
    stream.filter(col("user") == 2).collect("rows")
    with pytest.raises(rh.InputError, match="no event time"):
        env.execute()


def nullless(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])


N = pa.array([1, 2, 3])
REASONS: list[tuple[str, pa.Table, pa.Schema, dict[str, Any]]] = [
    ("nulls in column 'n'", pa.table({"n": [1, None]}), nullless(("n", pa.int64())), {}),
    (
        "has no null count for column",
        pa.table({"n": N}),
        nullless(("n", pa.int64())),
        {"write_statistics": False},
    ),
    ("is int64, but the schema declares int32", pa.table({"n": N}), pa.schema({"n": pa.int32()}), {}),
    ("is int64, but the schema declares", pa.table({"n": N}), pa.schema({"n": pa.float64()}), {}),
    ("is uint64", pa.table({"n": N.cast("uint64")}), pa.schema({"n": pa.uint64()}), {}),
    (
        "is timestamp[ns]",
        pa.table({"n": N.cast(pa.timestamp("ns"))}),
        pa.schema({"n": pa.timestamp("ns")}),
        {},
    ),
    (
        "is time64[us]",
        pa.table({"n": N.cast(pa.time64("us"))}),
        pa.schema({"n": pa.time64("us")}),
        {},
    ),
    (
        "is in ms, and its times may exceed the range of us",
        pa.table({"n": pa.array([2**60], pa.timestamp("ms"))}),
        pa.schema({"n": pa.timestamp("ms")}),
        {},
    ),
    (
        "BYTE_STREAM_SPLIT",
        pa.table({"n": N.cast("float64")}),
        pa.schema({"n": pa.float64()}),
        {"use_byte_stream_split": True, "use_dictionary": False},
    ),
    ("stored as BROTLI", pa.table({"n": N}), pa.schema({"n": pa.int64()}), {"compression": "brotli"}),
    ("differ only by case", pa.table({"n": N, "N": N}), pa.schema({"n": pa.int64()}), {}),
    (
        "has times in Spark's old calendar in column",
        pa.table({"n": N.cast("int32").cast("date32")}).replace_schema_metadata(
            {"org.apache.spark.version": "2.4.8"}
        ),
        pa.schema({"n": pa.date32()}),
        {},
    ),
]


@pytest.mark.parametrize(
    ("reason", "table", "schema", "options"), REASONS, ids=lambda each: str(each)[:30]
)
def test_files_that_spark_reads_differently_use_the_own_reader(
    spark: SparkSession,
    env: rh.Environment,
    tmp_path: Path,
    reason: str,
    table: pa.Table,
    schema: pa.Schema,
    options: dict[str, Any],
) -> None:
    folder = write(tmp_path / "in", table, **options)
    env.from_source(rh.files.source(folder, schema=schema)).select("n").collect("n")
    found = read(spark, env)
    assert isinstance(found.feed, SplitInput)
    assert found.how.startswith("read split by split: ")
    assert reason in found.how


def test_a_forbidden_null_is_the_same_error_everywhere(spark: SparkSession, tmp_path: Path) -> None:
    """Even in a column that nobody reads, and upstream of a filter that drops the row. The record
    has the columns that are read."""
    table = visits(0, 50).set_column(1, "user", pa.array([*range(30), None, *range(19)], pa.int64()))
    folder = write(tmp_path / "in", visits(0, 5), table)
    said = []
    for runtime in ("batch", "simulated"):
        env = rh.Environment(1, runtime=runtime, spark=spark if runtime == "batch" else None)
        stream = env.from_source(rh.files.source(folder, schema=Visit), name="visits")
        stream.filter(col("url") == "/page/0").select("url").collect("urls")
        with pytest.raises(rh.InputError) as raised:
            env.execute()
        said.append((raised.value.what, raised.value.operator))
        assert "'user': None, 'url': '/page/8'" in str(raised.value.record)
    assert said[0] == said[1]
    assert "1.parquet:31: column 'user' is missing or null" in said[0][0]


def test_files_of_several_types_are_read_as_the_widest(
    spark: SparkSession, env: rh.Environment, tmp_path: Path
) -> None:
    schema = pa.schema({"n": pa.int64(), "x": pa.float64(), "t": pa.timestamp("us"), "u": pa.uint16()})
    narrow = pa.schema({"n": pa.int32(), "x": pa.float32(), "t": pa.timestamp("ms"), "u": pa.uint16()})
    table = pa.table({"n": [1, -5], "x": [0.5, 2.0], "t": [1000, 2000], "u": [1, 65_535]})
    folder = write(tmp_path / "in", table.cast(schema), table.cast(narrow))
    env.from_source(rh.files.source(folder, schema=schema)).filter(col("n") == -5).collect("rows")
    # Older versions of Spark do not widen types, so the tasks read these files themselves.
    assert isinstance(read(spark, env).feed, SparkRows) == is_since("4.0")
    found = env.execute().collected["rows"]
    assert found.schema.equals(schema)
    kept = found.to_pylist()
    times = sorted(row.pop("t") for row in kept)
    assert times == [dt.datetime(1970, 1, 1, microsecond=2000), dt.datetime(1970, 1, 1, second=2)]
    assert kept == [{"n": -5, "x": 2.0, "u": 65_535}] * 2


def test_all_supported_types_are_read_unchanged(
    spark: SparkSession, env: rh.Environment, tmp_path: Path
) -> None:
    columns = {
        "b": pa.array([True, False, None]),
        "i8": pa.array([-128, 127, None], pa.int8()),
        "u8": pa.array([0, 255, None], pa.uint8()),
        "u32": pa.array([0, 2**32 - 1, None], pa.uint32()),
        "f": pa.array([float("nan"), -0.0, None], pa.float32()),
        "s": pa.array(["", "é", None]),
        "large": pa.array(["A", "B", "C"], pa.large_string()),
        "by": pa.array([b"", b"\xff", None]),
        "d": pa.array([dt.date(1, 1, 1), dt.date(1582, 10, 10), None]),
        "t": pa.array([dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None]),
        "tz": pa.array([0, -(10**15), None], pa.timestamp("us", tz="Europe/Berlin")),
        "ms": pa.array([0, -(10**13), None], pa.timestamp("ms", tz="UTC")),
        "dec": pa.array([1, -(10**17), None], pa.decimal128(38, 2)),
        "a.b `c`": pa.array([1, 2, None]),
    }
    table = pa.table(columns)
    folder = write(tmp_path / "in %20 :#", table)
    env.from_source(rh.files.source(folder, schema=table.schema)).collect("rows")
    assert isinstance(read(spark, env).feed, SparkRows)
    found = env.execute().collected["rows"]
    assert found.schema.equals(table.schema)
    assert str(found.to_pydict()) == str(table.to_pydict())


def test_only_columns_that_are_not_needed_may_be_nested(
    spark: SparkSession, env: rh.Environment, tmp_path: Path
) -> None:
    table = pa.table({"n": N, "l": [[1], [], None]})
    folder = write(tmp_path / "in", table)
    stream = env.from_source(rh.files.source(folder, schema=table.schema))
    stream.select("n").collect("n")
    assert read(spark, env).feed == SparkRows(("n",), ordered=False)
    stream.select("l").collect("l")
    assert "column 'l' is list" in read(spark, env).how


def test_rows_without_columns_are_counted(
    spark: SparkSession, env: rh.Environment, tmp_path: Path
) -> None:
    folder = write(tmp_path / "in", visits(0, 1000))
    env.from_source(rh.files.source(folder, schema=VISITS)).select(one=pl.lit(1)).collect("ones")
    # One column is read, so that the rows can be counted.
    assert read(spark, env).feed == SparkRows(("at",), ordered=False)
    assert env.execute().collected["ones"]["one"].to_pylist() == [1] * 1000


def test_file_names_with_pattern_characters_use_the_own_reader(
    spark: SparkSession, env: rh.Environment, tmp_path: Path
) -> None:
    folder = write(tmp_path / "in[1]", visits(0, 3))
    env.from_source(rh.files.source(folder, schema=VISITS)).collect("rows")
    assert "Spark interprets the name" in read(spark, env).how
    assert env.execute().collected["rows"].num_rows == 3


def test_a_missing_column_is_an_error_before_the_run(env: rh.Environment, tmp_path: Path) -> None:
    folder = write(tmp_path / "in", visits(0, 3).drop_columns(["price"]))
    env.from_source(rh.files.source(folder, schema=VISITS), name="visits").select("user").collect("u")
    with pytest.raises(rh.InputError, match="no column 'price'") as raised:
        env.execute()
    assert raised.value.operator == "visits"


def test_a_dataframe_of_a_temporary_view_is_read_in_place(
    spark: SparkSession, env: rh.Environment, tmp_path: Path
) -> None:
    folder = write(tmp_path / "in", visits(0, 100), visits(100, 300))
    theirs = spark.newSession()
    theirs.read.parquet(str(folder)).createOrReplaceTempView("visits")
    frame = theirs.sql("select *, user as again from visits where user > 0")
    stream = env.from_dataframe(frame, event_time="at", name="visits")
    windows = stream.filter(col("user") == 3).key_by("user").window(rh.Tumbling("1m"))
    windows.aggregate(n=rh.agg.count(), p=rh.agg.sum("price")).collect("windows")
    found = read(spark, env)
    assert found.feed == SparkRows(("at", "user", "price"), ordered=False)
    assert found.how == "a DataFrame, filtered: columns at, user, price"
    # No row is late, so a filter may reach the files although there are windows downstream.
    assert "EqualTo(user,3)" in spark_plan(found)
    result = env.execute()
    table = pl.DataFrame(pa.concat_tables([visits(0, 100), visits(100, 300)])).filter(user=3)
    assert sum(result.collected["windows"]["n"].to_pylist()) == table.height
    assert sum(result.collected["windows"]["p"].to_pylist()) == table["price"].sum()
    assert result.counter("window(1m)", "late") == 0


def test_no_row_of_a_dataframe_is_late(spark: SparkSession, env: rh.Environment) -> None:
    frame = spark.createDataFrame([(10_000_000, "a"), (1, "a"), (5, "b")], "at bigint, k string")
    stream = env.from_dataframe(frame.coalesce(1), event_time="at")
    windows = stream.key_by("k").window(rh.Tumbling("10ms")).aggregate(n=rh.agg.count())
    windows.select("k", "n").collect("windows")
    stream.select("k").collect("keys")
    result = env.execute()
    assert rows(result, "windows") == [{"k": "a", "n": 1}, {"k": "a", "n": 1}, {"k": "b", "n": 1}]
    assert result.collected["keys"].num_rows == 3


@dataclass(frozen=True, eq=False)
class Table(rh.connectors.Source):
    """A connector of another author, which the batch runtime knows by its capabilities alone."""

    schema: pa.Schema = VISITS
    bounded: bool = True

    def splits(self) -> list[rh.connectors.Split]:
        raise AssertionError("Spark reads the rows")

    def open(self, split: Any, position: Any, ctx: Any) -> Any:
        raise AssertionError("Spark reads the rows")


@dataclass(frozen=True, eq=False)
class FrameTable(Table):
    frame: Any = None

    def dataframe(self) -> Any:
        return self.frame

    def __reduce__(self) -> Any:
        raise AssertionError("a DataFrame stays on the driver")


@dataclass(frozen=True, eq=False)
class ParquetTable(Table):
    files: tuple[str, ...] = ()

    def splits(self) -> list[rh.connectors.Split]:
        return [rh.connectors.Split(file) for file in self.files]

    def parquet_files(self, splits: Any) -> list[str]:
        return [split.id for split in splits]


@pytest.mark.parametrize("kind", ["a DataFrame", "Parquet, read by Spark"])
def test_spark_reads_any_source_with_the_capability(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    folder = write(tmp_path / "in", visits(0, 70))
    source: Table = ParquetTable(files=tuple(map(str, folder.iterdir())))
    if kind == "a DataFrame":
        source = FrameTable(frame=spark.read.parquet(str(folder)))
    batch = rh.Environment(2, runtime="batch", spark=spark)
    visited = batch.from_source(source).filter(col("user") == 3).select("user", "url")
    visited.collect("visits")
    found = read(spark, batch)
    assert found.how.startswith(f"{kind}"), found.how
    assert "filtered" in found.how
    assert len(rows(batch.execute(), "visits")) == 10


def test_a_source_that_cannot_hand_its_files_to_spark_states_the_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    class Deltas(ParquetTable):
        def parquet_files(self, splits: Any) -> list[str]:
            raise rh.connectors.UnfitForSparkError("deleted rows are in other files")

    batch = rh.Environment(2, runtime="batch", spark=spark)
    batch.from_source(Deltas(files=(str(tmp_path),))).collect("visits")
    assert read(spark, batch).how == "read split by split: deleted rows are in other files"
