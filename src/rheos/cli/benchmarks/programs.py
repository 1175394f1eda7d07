"""The benchmarks: programs as users would write them, with taps at which rows are measured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl
import pyarrow as pa

from rheos.api.environment import Environment
from rheos.api.keyed_stream import KeyedStream
from rheos.api.patterns import Pattern, begin, skip_past_last_event
from rheos.api.streams import DataStream
from rheos.cli.benchmarks import grep, state_machine, state_machine_forms
from rheos.cli.benchmarks.generated_rows import (
    KeysWithKinds,
    Measurements,
    MeasurementsWithTime,
    Visits,
    interval_ms,
)
from rheos.cli.benchmarks.measured_connectors import SINK, SOURCE, MeasuredSource, MeasuringSink
from rheos.connectors.collection import collection
from rheos.connectors.generator import GeneratorFunction, generator
from rheos.core import aggregates as agg
from rheos.core.errors import ConfigurationError
from rheos.core.graph.watermark import Watermark
from rheos.core.graph.windows import Session, Sliding, Tumbling, Window

SINCE = "t"
"""Time from which latencies count: when the row was due, or generated if there is no rate."""


@dataclass(frozen=True)
class Load:
    """Parameters of a program's run."""

    parallelism: int
    keys: int | None
    rate_per_core: float | None
    """Records per second and core; None for the maximum."""
    batch_rows: int
    folder: str
    """Folder to which the taps write."""

    @property
    def key_count(self) -> int:
        """Return the number of keys of a program that has keys."""
        assert self.keys is not None
        return self.keys


@dataclass(frozen=True)
class BenchRows:
    """Creates the endless source of a benchmark's program, with one split per core."""

    env: Environment
    load: Load
    tapped: bool
    """Whether rows are counted when they leave the source."""

    def of(
        self, fn: GeneratorFunction, name: str, *, on: str | None = None, **columns: pa.DataType
    ) -> DataStream:
        """Return the rows that `fn` generates.

        Args:
            fn: the generator's function.
            name: the name of the source.
            on: the column of event time, if there is one.
            columns: the types of the columns, none of which is nullable.
        """
        load = self.load
        rate = None if load.rate_per_core is None else load.rate_per_core * load.parallelism
        source: Any = generator(
            fn,
            rate_per_s=rate,
            splits=load.parallelism,
            schema=pa.schema([pa.field(name, kind, False) for name, kind in columns.items()]),
            due_column=SINCE,
            block_rows=load.batch_rows,
        )
        if self.tapped:
            source = MeasuredSource(source, load.folder)
        watermark = None if on is None else Watermark.monotonic(on=on)
        return self.env.from_source(source, watermark=watermark, name=name)

    def lines(self) -> DataStream:
        return self.of(grep.Lines(), "lines", line=pa.string())

    def measurements(self) -> DataStream:
        return self.of(Measurements(self.load.key_count), "measurements", k=pa.int64(), v=pa.float64())

    def timed(
        self, name: str, made: type[MeasurementsWithTime] | type[Visits] = MeasurementsWithTime
    ) -> DataStream:
        fn = made(self.load.key_count)
        return self.of(fn, name, on="at", k=pa.int64(), v=pa.float64(), at=pa.int64())

    def two_sides(self) -> tuple[KeyedStream, KeyedStream]:
        return self.timed("left").key_by("k"), self.timed("right").key_by("k")

    def shop_events(self) -> KeyedStream:
        keys, splits = self.load.key_count, self.load.parallelism
        if keys < splits:
            raise ConfigurationError(
                f"{keys} keys are fewer than the {splits} splits of the source",
                hint="pass more --keys, or a lower --parallelism",
            )
        fn = state_machine.Events(keys, splits)
        return self.of(fn, "events", user=pa.int64(), kind=pa.string()).key_by("user")

    def interval_ms(self) -> int:
        return interval_ms(self.load.key_count, self.load.parallelism)


Write = Callable[[BenchRows], DataStream]
"""Function that builds a program, from its source to the stream that is measured."""


@dataclass(frozen=True)
class BenchProgram:
    """One benchmark."""

    name: str
    about: str
    write: Write
    keys: int | None = None
    """Default number of keys; None for a program without keys."""
    rate_per_core: float | None = None
    counted_at: Literal["sink", "source"] = SINK

    def build(self, env: Environment, load: Load) -> None:
        """Add the program to an environment, with its taps."""
        self.write(BenchRows(env, load, self.counted_at == SOURCE)).sink_to(
            MeasuringSink(load.folder, since=SINCE)
        )


PROGRAMS: dict[str, BenchProgram] = {}


def _program(
    name: str,
    about: str,
    *,
    keys: int | None = None,
    rate_per_core: float | None = None,
    counted_at: Literal["sink", "source"] = SOURCE,
) -> Callable[[Write], Write]:
    def register(write: Write) -> Write:
        program = BenchProgram(name, about, write, keys, rate_per_core, counted_at)
        PROGRAMS[name] = program
        return write

    return register


# --- single rows ------------------------------------------------------------------------------------


@_program("grep", "100-byte lines through a regular expression; one in a hundred matches")
def _grep(rows: BenchRows) -> DataStream:
    return rows.lines().filter(pl.col("line").str.contains(grep.PATTERN)).name("grep")


@_program(
    "latency",
    "grouping at a fixed rate: the latency from when a record is due to its update",
    keys=10_000,
    rate_per_core=30_000,
    counted_at=SINK,
)
@_program(
    "grouping",
    "a running count and sum per key, through a shuffle; an update for every record",
    keys=10_000,
    counted_at=SINK,
)
def _grouping(rows: BenchRows) -> DataStream:
    totals = rows.measurements().key_by("k").running(count=agg.count(), sum=agg.sum("v"))
    return totals.name("running totals")


@_program(
    "table",
    "grouping as an updating table, also with a maximum",
    keys=10_000,
    counted_at=SINK,
)
def _table(rows: BenchRows) -> DataStream:
    totals = rows.measurements().key_by("k")
    changes = totals.table(count=agg.count(), sum=agg.sum("v"), **{SINCE: agg.max(SINCE)})
    return changes.as_rows().name("totals")


@dataclass
class AskedRow:
    k: int
    v: float
    t: int


async def _ask(row: Any) -> AskedRow:
    """Call a system that takes a millisecond to answer."""
    await asyncio.sleep(0.001)
    return AskedRow(row.k, row.v, row.t)


@_program(
    "async",
    "calls that take a millisecond, a thousand at a time in each subtask",
    keys=10_000,
    counted_at=SINK,
)
def _async(rows: BenchRows) -> DataStream:
    return rows.measurements().map_async(_ask, capacity=1000).name("ask")


# --- SQL ------------------------------------------------------------------------------------------


@_program("sql-grep", "the same as grep, in SQL")
def _sql_grep(rows: BenchRows) -> DataStream:
    rows.env.register("lines", rows.lines())
    return rows.env.sql(f"SELECT * FROM lines WHERE line RLIKE '{grep.PATTERN}'".replace("\\", "\\\\"))


@_program("sql-grouping", "the same as table, in SQL", keys=10_000, counted_at=SINK)
def _sql_grouping(rows: BenchRows) -> DataStream:
    rows.env.register("measurements", rows.measurements())
    return rows.env.sql(
        "SELECT k, COUNT(*) AS count, SUM(v) AS sum, MAX(t) AS t FROM measurements GROUP BY k"
    ).as_rows()


def _sql_windows(name: str, windows: str) -> None:
    @_program(f"sql-{name}", f"the same as {name}, in SQL", keys=100_000)
    def write(rows: BenchRows) -> DataStream:
        rows.env.register("visits", rows.timed("visits"))
        return rows.env.sql(
            f"""
            SELECT k, window_start, window_end,
                COUNT(*) AS count, SUM(v) AS sum, MAX(v) AS max, MAX(t) AS t
            FROM TABLE({windows})
            GROUP BY k, window_start, window_end
            """
        )


_sql_windows("tumbling", "TUMBLE(TABLE visits, DESCRIPTOR(at), INTERVAL '10' SECONDS)")
_sql_windows("sliding", "HOP(TABLE visits, DESCRIPTOR(at), INTERVAL '1' SECOND, INTERVAL '10' SECONDS)")


# --- functions with state -------------------------------------------------------------------------


def _validated(rows: BenchRows, function: Any) -> DataStream:
    return rows.shop_events().process(function).name("validate")


@_program(
    "state-machine",
    "a plain Python function with state, called for each record",
    keys=10_000,
)
def _state_machine(rows: BenchRows) -> DataStream:
    return _validated(rows, state_machine.Validate())


@_program("compiled", "the state machine as it is written in plain Python, compiled", keys=10_000)
def _compiled(rows: BenchRows) -> DataStream:
    return _validated(rows, state_machine_forms.CompiledValidate())


@_program(
    "vectorised",
    "the state machine over batches, with the state of all their keys as arrays",
    keys=10_000,
)
def _vectorised(rows: BenchRows) -> DataStream:
    return _validated(rows, state_machine_forms.ValidateBatches())


@_program("broadcast", "the state machine, with its rules in broadcast state", keys=10_000)
def _broadcast(rows: BenchRows) -> DataStream:
    rules = rows.env.from_source(collection(state_machine_forms.rules()), name="rules")
    events = rows.shop_events().connect(rules.broadcast())
    return events.process(state_machine_forms.ValidateByRules()).name("validate")


def three_steps() -> Pattern:
    """Return a pattern of three steps. Three rows in a hundred satisfy a condition."""
    first = begin("first", skip_past_last_event()).where(pl.col("kind") == 0)
    second = first.followed_by("second").where(pl.col("kind") == 1)
    return second.followed_by("third").where(pl.col("kind") == 2).within("10m")


@_program(
    "pattern",
    "sequences of three rows per key; 3 of 100 rows qualify",
    keys=10_000,
)
def _pattern(rows: BenchRows) -> DataStream:
    made = KeysWithKinds(rows.load.key_count)
    events = rows.of(made, "events", on="at", k=pa.int64(), kind=pa.int64(), at=pa.int64())
    found = events.key_by("k").detect(three_steps())
    return found.select("k", **{SINCE: pl.col("third").struct.field(SINCE)}).name("matches")


# --- joins ----------------------------------------------------------------------------------------


@_program(
    "interval-join",
    "two streams by key and distance in time; a row has about one partner",
    keys=100_000,
)
def _interval_join(rows: BenchRows) -> DataStream:
    apart = rows.interval_ms()
    left, right = rows.two_sides()
    pairs = left.interval_join(right, between=(f"-{apart}ms", f"{apart}ms"), suffix="_right")
    return pairs.name("interval join")


@_program(
    "table-join",
    "a stream with an updating table; a row has about one partner at a time",
    keys=100_000,
)
def _table_join(rows: BenchRows) -> DataStream:
    table = rows.timed("right").upserts(key="k", op=None).key_by("k")
    left = rows.timed("left").key_by("k")
    pairs = left.join(table, ttl=f"{2 * rows.interval_ms()}ms", suffix="_right")
    return pairs.as_rows().name("join")


@_program("window-join", "two streams by key and window; a row has about one partner", keys=100_000)
def _window_join(rows: BenchRows) -> DataStream:
    left, right = rows.two_sides()
    window = Tumbling(f"{2 * rows.interval_ms()}ms")
    return left.window_join(right, window, suffix="_right").name("window join")


# --- windows --------------------------------------------------------------------------------------


def _windows(
    name: str, about: str, window: Window, made: type[MeasurementsWithTime] | type[Visits]
) -> None:
    @_program(name, about, keys=100_000)
    def write(rows: BenchRows) -> DataStream:
        found = rows.timed("visits", made).key_by("k").window(window)
        # A window's latency counts from its last row, `t` (SINCE).
        results = found.aggregate(
            count=agg.count(), sum=agg.sum("v"), max=agg.max("v"), t=agg.max(SINCE)
        )
        return results.name("windows")


_windows(
    "tumbling",
    "count, sum and max by key in tumbling windows of 10 s of event time",
    Tumbling("10s"),
    MeasurementsWithTime,
)
_windows(
    "sliding",
    "the same in windows of 10 s that start every second",
    Sliding("10s", every="1s"),
    MeasurementsWithTime,
)
_windows("session", "the same in sessions with a gap of 10 s", Session("10s"), Visits)


@_program("dedup", "the first row of each key within 10 s, of about ten", keys=100_000)
def _dedup(rows: BenchRows) -> DataStream:
    return rows.timed("measurements").key_by("k").dedup(within="10s").name("first")


@_program("top-n", "the three largest rows of each key in windows of 10 s, of about ten", keys=100_000)
def _top_n(rows: BenchRows) -> DataStream:
    tens = rows.timed("measurements").key_by("k").window(Tumbling("10s"))
    top = tens.aggregate(top=agg.top_k("v", 3, of=["v", "at"]), t=agg.max(SINCE))
    return top.explode("top", rank="rank").name("top 3")
