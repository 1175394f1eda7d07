"""The benchmarks: each a program as a user would write it, with taps where it is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import polars as pl
import pyarrow as pa

from rheos.api.environment import Environment
from rheos.api.keyed import KeyedStream
from rheos.api.streams import DataStream
from rheos.cli.benchmarks import (
    asking,
    broadcast,
    compiled,
    grep,
    grouping,
    joins,
    patterns,
    queries,
    state_machine,
    vectorised,
    windows,
)
from rheos.cli.benchmarks.taps import SINK, SOURCE, MeasuredSource, MeasuringSink
from rheos.connectors.collection import collection
from rheos.connectors.generator import GeneratorFunction, GeneratorSource, generator
from rheos.core import aggregates as agg
from rheos.core.errors import ConfigurationError
from rheos.core.graph.windows import Session, Sliding, Tumbling, Watermark, Window

_KINDS = pa.schema(
    [
        pa.field("k", pa.int64(), False),
        pa.field("kind", pa.int64(), False),
        pa.field("at", pa.int64(), False),
    ]
)

_TIMED = pa.schema(
    [
        pa.field("k", pa.int64(), False),
        pa.field("v", pa.float64(), False),
        pa.field("at", pa.int64(), False),
    ]
)

SINCE = "t"
"""The column from which latencies count: when the record was due, or made where there is no rate."""


@dataclass(frozen=True)
class Load:
    """Parameters of a program's run."""

    parallelism: int
    keys: int | None
    rate_per_core: float | None
    """Records per second and core; None is as fast as they are taken."""
    batch_rows: int
    folder: str
    """Folder to which the taps write."""

    def source(self, fn: GeneratorFunction, schema: pa.Schema) -> GeneratorSource:
        """An endless source, of one split per core."""
        rate = None if self.rate_per_core is None else self.rate_per_core * self.parallelism
        return generator(
            fn,
            rate_per_s=rate,
            splits=self.parallelism,
            schema=schema,
            due_column=SINCE,
            block_rows=self.batch_rows,
        )

    def sink(self) -> MeasuringSink:
        return MeasuringSink(self.folder, since=SINCE)


@dataclass(frozen=True)
class BenchProgram:
    """One benchmark. `build` writes it into an environment."""

    name: str
    about: str
    build: Callable[[Environment, Load], None]
    keys: int | None = None
    """Default number of keys; None for a program without keys."""
    rate_per_core: float | None = None
    counted_at: Literal["sink", "source"] = SINK


def _lines(env: Environment, load: Load) -> DataStream:
    source = load.source(grep.Lines(), pa.schema([pa.field("line", pa.string())]))
    return env.from_source(MeasuredSource(source, load.folder), name="lines")


def _grep(env: Environment, load: Load) -> None:
    lines = _lines(env, load)
    lines.filter(pl.col("line").str.contains(grep.PATTERN)).name("grep").sink_to(load.sink())


def _sql_grep(env: Environment, load: Load) -> None:
    env.register("lines", _lines(env, load))
    env.sql(queries.GREP).sink_to(load.sink())


def _measurements(env: Environment, load: Load) -> DataStream:
    assert load.keys is not None
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.float64(), False)])
    return env.from_source(load.source(grouping.Measurements(load.keys), schema), name="measurements")


def _sql_grouping(env: Environment, load: Load) -> None:
    env.register("measurements", _measurements(env, load))
    env.sql(queries.GROUPING).as_rows().sink_to(load.sink())


def _sql_tumbling(env: Environment, load: Load) -> None:
    env.register("visits", _timed_rows(env, load, "visits"))
    env.sql(queries.TUMBLING).sink_to(load.sink())


def _grouping(env: Environment, load: Load) -> None:
    measurements = _measurements(env, load)
    totals = measurements.key_by("k").running(count=agg.count(), sum=agg.sum("v"))
    totals.name("running totals").sink_to(load.sink())


def _table(env: Environment, load: Load) -> None:
    totals = _measurements(env, load).key_by("k")
    changes = totals.table(count=agg.count(), sum=agg.sum("v"), **{SINCE: agg.max(SINCE)})
    changes.as_rows().name("totals").sink_to(load.sink())


def _state_machine(env: Environment, load: Load) -> None:
    validated = _shop_events(env, load).key_by("user").process(state_machine.Validate())
    validated.name("validate").sink_to(load.sink())


def _compiled(env: Environment, load: Load) -> None:
    validated = _shop_events(env, load).key_by("user").process(compiled.ValidateCompiled())
    validated.name("validate").sink_to(load.sink())


def _vectorised(env: Environment, load: Load) -> None:
    validated = _shop_events(env, load).key_by("user").process(vectorised.ValidateBatches())
    validated.name("validate").sink_to(load.sink())


def _broadcast(env: Environment, load: Load) -> None:
    rules = env.from_source(collection(broadcast.rules()), name="rules")
    events = _shop_events(env, load).key_by("user")
    validated = events.connect(rules.broadcast()).process(broadcast.ValidateByRules())
    validated.name("validate").sink_to(load.sink())


def _interval_join(env: Environment, load: Load) -> None:
    assert load.keys is not None
    apart = joins.interval_ms(load.keys, load.parallelism)
    left, right = _two_sides(env, load)
    pairs = left.interval_join(right, between=(f"-{apart}ms", f"{apart}ms"), suffix="_right")
    pairs.name("interval join").sink_to(load.sink())


def _pattern(env: Environment, load: Load) -> None:
    assert load.keys is not None
    source = MeasuredSource(load.source(patterns.Kinds(load.keys), _KINDS), load.folder)
    events = env.from_source(source, watermark=Watermark.monotonic(on="at"), name="events")
    found = events.key_by("k").detect(patterns.three_steps())
    matches = found.select("k", **{SINCE: pl.col("third").struct.field(SINCE)})
    matches.name("matches").sink_to(load.sink())


def _async(env: Environment, load: Load) -> None:
    assert load.keys is not None
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.float64(), False)])
    source = load.source(grouping.Measurements(load.keys), schema)
    measurements = env.from_source(MeasuredSource(source, load.folder), name="measurements")
    answers = measurements.map_async(asking.ask, capacity=asking.CAPACITY)
    answers.name("ask").sink_to(load.sink())


def _window_join(env: Environment, load: Load) -> None:
    assert load.keys is not None
    size = 2 * joins.interval_ms(load.keys, load.parallelism)
    left, right = _two_sides(env, load)
    pairs = left.window_join(right, Tumbling(f"{size}ms"), suffix="_right")
    pairs.name("window join").sink_to(load.sink())


def _table_join(env: Environment, load: Load) -> None:
    assert load.keys is not None
    lives = 2 * joins.interval_ms(load.keys, load.parallelism)
    table = _timed_rows(env, load, "right").upserts(key="k", op=None).key_by("k")
    pairs = _timed(env, load, "left").join(table, ttl=f"{lives}ms", suffix="_right")
    pairs.as_rows().name("join").sink_to(load.sink())


def _two_sides(env: Environment, load: Load) -> tuple[KeyedStream, KeyedStream]:
    return _timed(env, load, "left"), _timed(env, load, "right")


def _timed(env: Environment, load: Load, name: str) -> KeyedStream:
    return _timed_rows(env, load, name).key_by("k")


def _timed_rows(
    env: Environment,
    load: Load,
    name: str,
    made: type[joins.Timed] | type[windows.Visits] = joins.Timed,
) -> DataStream:
    assert load.keys is not None
    source = MeasuredSource(load.source(made(load.keys), _TIMED), load.folder)
    return env.from_source(source, watermark=Watermark.monotonic(on="at"), name=name)


def _dedup(env: Environment, load: Load) -> None:
    first = _timed(env, load, "measurements").dedup(within="10s")
    first.name("first").sink_to(load.sink())


def _top_n(env: Environment, load: Load) -> None:
    tens = _timed(env, load, "measurements").window(Tumbling("10s"))
    top = tens.aggregate(top=agg.top_k("v", 3, of=["v", "at"]), t=agg.max(SINCE))
    top.explode("top", rank="rank").name("top 3").sink_to(load.sink())


def _windows(
    window: Window, made: type[joins.Timed] | type[windows.Visits]
) -> Callable[[Environment, Load], None]:
    def build(env: Environment, load: Load) -> None:
        found = _timed_rows(env, load, "visits", made).key_by("k").window(window)
        # Latencies count from the last row of a window, `t` (SINCE).
        results = found.aggregate(
            count=agg.count(), sum=agg.sum("v"), max=agg.max("v"), t=agg.max(SINCE)
        )
        results.name("windows").sink_to(load.sink())

    return build


def _shop_events(env: Environment, load: Load) -> DataStream:
    assert load.keys is not None
    if load.keys < load.parallelism:
        raise ConfigurationError(
            f"{load.keys} keys are fewer than the {load.parallelism} splits of the source",
            hint="give more --keys, or less --parallelism",
        )
    schema = pa.schema([pa.field("user", pa.int64(), False), pa.field("kind", pa.string(), False)])
    source = load.source(state_machine.Events(load.keys, load.parallelism), schema)
    return env.from_source(MeasuredSource(source, load.folder), name="events")


PROGRAMS = {
    program.name: program
    for program in (
        BenchProgram(
            "grep",
            "100-byte lines through a regular expression; one in a hundred matches",
            _grep,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "grouping",
            "a running count and sum per key, through a shuffle; an update for every record",
            _grouping,
            keys=10_000,
        ),
        BenchProgram(
            "table",
            "grouping as a table that changes, with a maximum besides",
            _table,
            keys=10_000,
        ),
        BenchProgram("sql-grep", "the same as grep, in SQL", _sql_grep, counted_at=SOURCE),
        BenchProgram(
            "sql-grouping",
            "the same as table, in SQL",
            _sql_grouping,
            keys=10_000,
        ),
        BenchProgram(
            "sql-tumbling",
            "the same as tumbling, in SQL",
            _sql_tumbling,
            keys=100_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "state-machine",
            "a plain Python function with state, called for each record",
            _state_machine,
            keys=10_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "broadcast",
            "the state machine, with its rules in broadcast state",
            _broadcast,
            keys=10_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "compiled",
            "the state machine as it is written in plain Python, compiled",
            _compiled,
            keys=10_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "vectorised",
            "the state machine over batches, with the state of all their keys as arrays",
            _vectorised,
            keys=10_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "interval-join",
            "two streams by key and distance in time; a row has about one partner",
            _interval_join,
            keys=100_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "pattern",
            "three rows of a key that follow each other; of a hundred rows three are such as count",
            _pattern,
            keys=10_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "async",
            "calls that take a millisecond, a thousand at a time in each subtask",
            _async,
            keys=10_000,
        ),
        BenchProgram(
            "table-join",
            "a stream with a table that is updated; a row has about one partner at a time",
            _table_join,
            keys=100_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "window-join",
            "two streams by key and window; a row has about one partner",
            _window_join,
            keys=100_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "tumbling",
            "count, sum and max by key in tumbling windows of 10 s of event time",
            _windows(Tumbling("10s"), joins.Timed),
            keys=100_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "sliding",
            "the same in windows of 10 s that start every second",
            _windows(Sliding("10s", every="1s"), joins.Timed),
            keys=100_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "session",
            "the same in sessions with a gap of 10 s",
            _windows(Session("10s"), windows.Visits),
            keys=100_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "dedup",
            "the first row of each key within 10 s, of about ten",
            _dedup,
            keys=100_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "top-n",
            "the three largest rows of each key in windows of 10 s, of about ten",
            _top_n,
            keys=100_000,
            counted_at=SOURCE,
        ),
        BenchProgram(
            "latency",
            "grouping at a fixed rate: the time from when a record is due to its update",
            _grouping,
            keys=10_000,
            rate_per_core=30_000,
        ),
    )
}
