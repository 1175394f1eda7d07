"""Runs queries on the continuous runtime, and measures events a second and core.

As in the published runs a query takes so many events from the generator, which is part of the job, and
drops what it finds. A core is a second of processor time of all that runs: here the program, Spark's
JVM and the workers.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rheos as rh
from benchmarks.nexmark.events import SCHEMA, Events
from benchmarks.nexmark.market import Market, market
from benchmarks.nexmark.published import FLINK_1_13, FLINK_2_0
from benchmarks.nexmark.queries import QUERIES
from benchmarks.paper.experiment import Cell, Options, in_turns, where
from benchmarks.paper.plots import Plots
from benchmarks.paper.sampling import Sampler
from benchmarks.paper.tables import millions, spread, table
from rheos.cli.benchmarks.measured_connectors import SOURCE, MeasuredSource
from rheos.cli.benchmarks.recorder import SLICE_NS, Slice, read_slices
from rheos.connectors import CheckpointId, Sink, SinkContext, SinkWriter
from rheos.core.protocol.elements import Batch

SPAN_S = 10
"""The event time of a run: 100 million events at 10 million a second, as published."""
CHECKPOINTS = "3m"
"""As published."""

Build = Callable[[rh.Environment, Market], rh.DataStream]
"""Returns the stream of a query's results."""


@dataclass(frozen=True)
class Dropped(Sink):
    """Drops its rows. If `folder` is set, each subtask writes the time of its last rows there."""

    folder: str | None = None

    def open(self, ctx: SinkContext) -> SinkWriter:
        return _DroppingWriter(self.folder)

    def describe(self) -> str:
        return "drop"


class _DroppingWriter(SinkWriter):
    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._last_ns = 0

    def write(self, batch: Batch) -> None:
        self._last_ns = time.time_ns()

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        return []

    def close(self) -> None:
        if self._folder is not None:
            Path(self._folder, str(self._last_ns)).touch()


def run(names: Sequence[str], events: int, cores: int, options: Options) -> dict[str, Any]:
    """Runs each query in each round. What it gives is written as JSON."""

    def measure_cell(cell: Cell) -> dict[str, Any]:
        query = QUERIES[cell["query"]]
        return measured(
            query.name, lambda _, house: query.program(house), events, cores, query.writes_files
        )

    cells = [{"query": name} for name in names]
    return {"events": events, "cores": cores, "runs": in_turns(options, cells, measure_cell)}


def measured(
    name: str,
    build: Build,
    events: int,
    cores: int,
    writes_files: bool = False,
    warm_up: int = 0,
) -> dict[str, Any]:
    """Return the measurements of a query, from the first events to the last results.

    Args:
        name: Name of the query.
        build: Returns the stream of its results.
        events: Number of events.
        cores: Number of subtasks.
        writes_files: Whether results are written to files. Otherwise, they are dropped.
        warm_up: Number of events that are read before the measurement begins.
    """
    with tempfile.TemporaryDirectory(prefix="nexmark-") as folder, Sampler(every_s=0.1) as sampler:
        taps, ends = Path(folder, "taps"), Path(folder, "ends")
        taps.mkdir()
        ends.mkdir()
        env = rh.Environment(
            parallelism=cores,
            runtime="continuous",
            checkpoint_dir=str(Path(folder, "checkpoints")),
            checkpoint_interval=CHECKPOINTS,
        )
        source = rh.generator(Events(events / SPAN_S), count=events, splits=cores, schema=SCHEMA)
        found = build(env, market(env, MeasuredSource(source, str(taps)))).as_rows()
        found.sink_to(
            rh.files.sink(f"{folder}/out", format="csv") if writes_files else Dropped(str(ends))
        )
        env.execute_async(f"nexmark {name}").wait()
        ended_ns = time.time_ns()
        slices = [part for read in read_slices(str(taps), SOURCE) for part in read]
        last_ns = [int(path.name) for path in ends.iterdir()]
    begins_ns = _begins_ns(slices, warm_up)
    # Ending the processes of a job is not part of the query.
    ends_ns = max([*last_ns, max(part.number for part in slices) * SLICE_NS])
    ends_ns = ended_ns if writes_files else ends_ns
    seconds, cpu_s = (ends_ns - begins_ns) / 1e9, sampler.cpu_between(begins_ns, ends_ns)
    return {
        "events_per_s": round((events - warm_up) / seconds),
        "events_per_core_s": round((events - warm_up) / cpu_s),
        "seconds": round(seconds, 2),
        "busy_cores": round(cpu_s / seconds, 2),
    }


def _begins_ns(slices: Sequence[Slice], warm_up: int) -> int:
    """Return when the sources had read the events of the warm-up, since the epoch."""
    read = 0
    for part in sorted(slices, key=lambda part: part.number):
        if read + part.rows > warm_up:
            return int((part.number + (warm_up - read) / part.rows) * SLICE_NS)
        read += part.rows
    raise AssertionError(f"the sources have read {read} events")


def _times(published: float) -> Callable[[float], str]:
    """Return what formats a rate as its ratio to a published one."""
    return lambda rate: f"{rate / published:.1f}"


def show(results: dict[str, Any], plots: Plots | None = None) -> str:
    """As a table of Markdown."""
    runs = results["runs"]
    rows = []
    for query in QUERIES.values():
        of = where(runs, query=query.name)
        if of:
            theirs = FLINK_2_0.get(query.name)
            rows.append(
                [
                    f"{query.name}, {query.about}",
                    spread(of, "events_per_s", millions),
                    spread(of, "events_per_core_s", millions),
                    millions(FLINK_1_13.get(query.name)) or "none",
                    millions(theirs) or "none",
                    spread(of, "events_per_core_s", _times(theirs)) if theirs else "",
                ]
            )
    heads = ["query", "events/s", "events/s per core", "Flink 1.13", "Flink 2.0", "to Flink 2.0"]
    return table(heads, rows)
