"""DataFrames in programs: from_dataframe, to_dataframe, and refused uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos import col
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, SchemaError

pytestmark = pytest.mark.spark

HERE = Path(__file__).name


@pytest.fixture
def trips(spark: Any) -> Any:
    return spark.sql(
        "select id, concat('line ', id % 3) as line, timestamp_millis(id * 60000) as at, "
        "cast(id as decimal(10, 2)) as fare from range(300)"
    ).repartition(3)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


# --- out --------------------------------------------------------------------------------------------


def test_a_stream_of_a_dataframe_converts_back_to_a_dataframe(spark: Any, trips: Any) -> None:
    env = rh.Environment(parallelism=2)
    late = env.from_dataframe(trips, event_time="at").filter(col("id") >= 290)
    frame = late.to_dataframe()
    assert frame.schema == trips.schema
    assert rows(frame) == rows(trips.filter("id >= 290"))

    lines = spark.createDataFrame([("line 1", "north"), ("line 2", "south")], "line string, to string")
    joined = frame.join(lines, "line").groupBy("to").count()
    assert rows(joined) == [("north", 3), ("south", 4)]


def test_keyed_windows_are_read_through_a_view_and_written(
    spark: Any, trips: Any, tmp_path: Path
) -> None:
    env = rh.Environment(parallelism=2)
    hourly = (
        env.from_dataframe(trips, event_time="at")
        .key_by("line")
        .window(rh.Tumbling("1h"))
        .aggregate(n=rh.agg.count(), fares=rh.agg.max("fare"))
    )
    hourly.to_dataframe().createOrReplaceTempView("hourly_trips")
    written = str(tmp_path / "out")
    spark.sql("select line, window_start, n from hourly_trips").write.parquet(written)
    expected = spark.sql(
        "select line, start, count(*) from (select line, window(at, '1 hour').start as start "
        "from {trips}) group by line, start",
        trips=trips,
    )
    assert rows(spark.read.parquet(written)) == rows(expected)


@dataclass
class Seen:
    line: str
    n: int


class Count(rh.KeyedProcessFunction):
    count = rh.ValueState(int, default=0)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[Seen]:
        self.count.value += 1
        if row.id == 13:
            raise ValueError("an unlucky trip")
        yield Seen(row.line, self.count.value)


def test_a_process_function_runs_when_spark_reads(trips: Any) -> None:
    env = rh.Environment(parallelism=2)
    fine = env.from_dataframe(trips.filter("id != 13")).key_by("line").process(Count())
    assert rows(fine.to_dataframe()) == sorted(
        (f"line {k}", n + 1) for k in range(3) for n in range(99 if k == 1 else 100)
    )


def test_the_error_of_a_function_is_found_in_sparks_error(trips: Any) -> None:
    env = rh.Environment(parallelism=2)
    frame = env.from_dataframe(trips).key_by("line").process(Count()).to_dataframe()
    with pytest.raises(Exception, match="an unlucky trip") as caught:
        frame.collect()
    assert HERE in str(caught.value)


def test_to_dataframe_leaves_the_programs_sinks_for_later(trips: Any, tmp_path: Path) -> None:
    env = rh.Environment(parallelism=1)
    stream = env.from_dataframe(trips)
    stream.sink_to(rh.files.sink(str(tmp_path / "out"), format="jsonl"))
    stream.collect("all")
    assert stream.to_dataframe().count() == 300
    assert not (tmp_path / "out").exists()
    assert env.execute("later").collected["all"].num_rows == 300
    # And a program is as good as before: its streams may still be read.
    assert stream.to_dataframe().count() == 300


def test_a_stream_without_a_batch_runtime_is_not_converted(trips: Any) -> None:
    for runtime in ("continuous", "simulated"):
        env = rh.Environment(parallelism=1, runtime=runtime)
        with pytest.raises(ProgramError, match=f"runtime='{runtime}'") as caught:
            env.from_dataframe(trips).to_dataframe()
        assert caught.value.site is not None
        assert Path(caught.value.site.file).name == HERE
        assert "batch" in str(caught.value.hint)


def test_an_unbounded_stream_is_not_converted() -> None:
    env = rh.Environment(parallelism=1)
    ticks = env.from_source(rh.generator(_ticks, schema=pa.schema({"n": pa.int64()})))
    with pytest.raises(ProgramError, match="never ends, but a DataFrame needs all rows") as caught:
        ticks.filter(col("n") > 0).to_dataframe()
    assert HERE in str(caught.value)


def _ticks(block: rh.Block) -> pl.DataFrame:
    return pl.DataFrame({"n": pl.Series(range(block.start, block.start + block.rows), dtype=pl.Int64)})


def test_columns_without_a_spark_type_are_refused_at_the_users_line(trips: Any) -> None:
    env = rh.Environment(parallelism=1)
    ns = env.from_dataframe(trips).select(col("at").dt.cast_time_unit("ns"))
    with pytest.raises(SchemaError, match=r"column 'at' cannot be converted.*timestamp\[ns") as caught:
        ns.to_dataframe()
    assert HERE in str(caught.value)
    cased = env.from_dataframe(trips).select(col("id"), ID=col("id") + 1)
    with pytest.raises(SchemaError, match="differ only by case"):
        cased.to_dataframe()


# --- in ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda spark: [1, 2], ProgramError, "a Spark DataFrame is needed"),
        (lambda spark: pl.DataFrame({"a": [1]}), ProgramError, "this is a polars.DataFrame"),
        (lambda spark: spark.range(3).select(), SchemaError, "has no columns"),
        (lambda spark: spark.sql("select 1 a, 2 a"), SchemaError, "two columns are named 'a'"),
        (lambda spark: spark.sql("select 1 __a"), SchemaError, "reserved for Rheos"),
        (
            lambda spark: spark.sql("select array(interval '1' month) a"),
            SchemaError,
            r"column 'a\.element' .* interval month",
        ),
        (
            lambda spark: spark.readStream.format("rate").load(),
            ProgramError,
            r"this DataFrame is streaming, but env\.from_dataframe\(\) reads a bounded one",
        ),
    ],
)
def test_a_value_that_is_not_a_bounded_dataframe_is_refused_at_the_users_line(
    spark: Any, make: Any, error: type[RheosError], says: str
) -> None:
    env = rh.Environment(parallelism=1)
    with pytest.raises(error, match=says) as caught:
        env.from_dataframe(make(spark))
    assert HERE in str(caught.value)
    assert caught.value.hint


def test_a_dataframe_of_spark_connect_is_refused() -> None:
    elsewhere = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})
    with pytest.raises(ConfigurationError, match="Spark Connect") as caught:
        rh.dataframe(elsewhere())
    assert HERE in str(caught.value)


@pytest.mark.parametrize(
    ("event_time", "says"),
    [
        ("when", "no column 'when'.*\n.*id, line, at, fare"),
        ("line", "'line' is string"),
        ("fare", "fare"),
    ],
)
def test_the_event_time_must_be_a_time_column(trips: Any, event_time: str, says: str) -> None:
    env = rh.Environment(parallelism=1)
    with pytest.raises(SchemaError, match=says) as caught:
        env.from_dataframe(trips, event_time=event_time)
    assert HERE in str(caught.value)


def test_watermark_and_event_time_must_name_the_same_column(spark: Any) -> None:
    frame = spark.sql("select timestamp_millis(id) a, timestamp_millis(-id) b from range(3)")
    env = rh.Environment(parallelism=1)
    watermark = rh.Watermark.bounded_out_of_orderness("1s", on="b")
    with pytest.raises(ProgramError, match="event time of the DataFrame is 'a'"):
        env.from_source(rh.dataframe(frame, event_time="a"), watermark=watermark)


@pytest.mark.parametrize("runtime", ["batch", "simulated"])
def test_no_row_of_a_dataframe_is_late_in_any_order(spark: Any, runtime: Any) -> None:
    """Check that no row is late even though the rows go back in time."""
    frame = spark.sql("select 'k' k, 8640000000 - id * 60000 as at from range(600)").coalesce(1)
    env = rh.Environment(parallelism=2, runtime=runtime)
    counts = (
        env.from_source(rh.dataframe(frame), watermark=rh.Watermark.monotonic(on="at"))
        .key_by("k")
        .window(rh.Tumbling("1h"))
        .aggregate(n=rh.agg.count())
    )
    counts.collect("counts")
    counts.side_output("late").collect("late")
    collected = env.execute("hours").collected
    assert collected["late"].num_rows == 0
    assert sum(collected["counts"].column("n").to_pylist()) == 600


@pytest.mark.parametrize("runtime", ["batch", "simulated"])
@pytest.mark.parametrize("where", ["id < 0", "id < 5"])
def test_empty_and_tiny_dataframes_are_read(spark: Any, trips: Any, runtime: Any, where: str) -> None:
    env = rh.Environment(parallelism=3, runtime=runtime)
    env.from_dataframe(trips.filter(where), event_time="at").collect("all")
    table = env.execute("few").collected["all"]
    assert sorted(table.column("id").to_pylist()) == list(range(5 if "5" in where else 0))


@pytest.mark.parametrize("runtime", ["batch", "simulated"])
def test_a_row_without_event_time_is_an_error_that_shows_it(spark: Any, runtime: Any) -> None:
    frame = spark.sql("select id, if(id = 7, null, timestamp_millis(id)) at from range(10)")
    env = rh.Environment(parallelism=1, runtime=runtime)
    env.from_dataframe(frame, event_time="at", name="tickets").print()
    with pytest.raises(InputError, match=r"(?s)tickets.*no event time: column 'at'.*'id': 7"):
        env.execute("tickets")
