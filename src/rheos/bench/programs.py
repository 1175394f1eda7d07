"""The benchmarks: each a program as a user would write it, with taps where it is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import polars as pl
import pyarrow as pa

from rheos import aggregates as agg
from rheos.api.environment import Environment
from rheos.bench import grep, grouping, state_machine
from rheos.bench.taps import SINK, SOURCE, MeasuredSource, MeasuringSink
from rheos.connectors.generator import GeneratorFunction, GeneratorSource, generator
from rheos.errors import ConfigurationError

SINCE = "t"
"""The column from which latencies count: when the record was due, or made where there is no rate."""


@dataclass(frozen=True)
class Load:
    """What a program is run with."""

    parallelism: int
    keys: int | None
    rate_per_core: float | None
    """Records per second and core; None is as fast as they are taken."""
    batch_rows: int
    folder: str
    """Where the taps write."""

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
    """How many keys it has unless said otherwise; None for one without keys."""
    rate_per_core: float | None = None
    counted_at: Literal["sink", "source"] = SINK


def _grep(env: Environment, load: Load) -> None:
    source = load.source(grep.Lines(), pa.schema([pa.field("line", pa.string())]))
    lines = env.from_source(MeasuredSource(source, load.folder), name="lines")
    lines.filter(pl.col("line").str.contains(grep.PATTERN)).name("grep").sink_to(load.sink())


def _grouping(env: Environment, load: Load) -> None:
    assert load.keys is not None
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.float64(), False)])
    measurements = env.from_source(
        load.source(grouping.Measurements(load.keys), schema), name="measurements"
    )
    totals = measurements.key_by("k").running(count=agg.count(), sum=agg.sum("v"))
    totals.name("running totals").sink_to(load.sink())


def _state_machine(env: Environment, load: Load) -> None:
    assert load.keys is not None
    if load.keys < load.parallelism:
        raise ConfigurationError(
            f"{load.keys} keys are fewer than the {load.parallelism} splits of the source",
            hint="give more --keys, or less --parallelism",
        )
    schema = pa.schema([pa.field("user", pa.int64(), False), pa.field("kind", pa.string(), False)])
    source = load.source(state_machine.Events(load.keys, load.parallelism), schema)
    events = env.from_source(MeasuredSource(source, load.folder), name="events")
    events.key_by("user").process(state_machine.Validate()).name("validate").sink_to(load.sink())


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
            "state-machine",
            "a plain Python function with state, called for each record",
            _state_machine,
            keys=10_000,
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
