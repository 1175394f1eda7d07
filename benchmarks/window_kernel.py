"""What windows cost: a batch, and a firing, by aggregates, keys and batch size.

usage: window_kernel.py [SECONDS_PER_CASE]
       window_kernel.py --profile CASE

Times are medians of CPU time, in ms. A batch is of rows that move on through event time, so that a
one-minute window takes some fifty batches and then fires; "fire" is the watermark that does it.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

# One thread, as in a slot; Polars reads it when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import pyarrow as pa

from rheos.core import aggregates as agg
from rheos.core.errors import Site
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.graph.windows import Session, Sliding, Tumbling, Window
from rheos.core.operators.contract import OperatorContext, OutputType, PortType
from rheos.core.operators.window.operator import WindowAggregateOperator
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.protocol.elements import TS, WM
from rheos.core.protocol.ids import Attempt, JobId, OperatorId
from rheos.core.protocol.ports import Immediate

HIDDEN = [pa.field(TS, pa.int64()), pa.field(WM, pa.int64())]
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.float64()), ("n", pa.int64())])
WINDOW_MS = 60_000
TUMBLING = Tumbling("1m")
BATCHES_PER_WINDOW = 50

ONE_COUNT = {"rows": agg.count()}
INTEGERS = {"rows": agg.count(), "total": agg.sum("n"), "low": agg.min("n"), "high": agg.max("n")}
FLOATS = {"rows": agg.count(), "total": agg.sum("v"), "mean": agg.mean("v"), "high": agg.max("v")}
VALUES = {"median": agg.quantile("v", 0.5), "different": agg.count_distinct("n")}


@dataclass(frozen=True)
class Case:
    name: str
    aggregates: Mapping[str, agg.Agg]
    window: Window = TUMBLING
    keys: int = 3
    batch_rows: int = 16_384
    spread_ms: int = 0
    """How far rows are out of order."""


CASES = [
    replace(case, name=f"{case.name}, {keys} keys", keys=keys)
    for keys in (3, 10_000)
    for case in (
        Case("count", ONE_COUNT),
        Case("integers", INTEGERS),
        Case("floats", FLOATS),
        Case("floats, out of order", FLOATS, spread_ms=3 * WINDOW_MS),
        Case("floats, 1m every 10s", FLOATS, window=Sliding("1m", every="10s")),
        Case("integers, sessions of a gap of 10s", INTEGERS, window=Session("10s")),
        Case("integers, sessions of a gap of 1s", INTEGERS, window=Session("1s")),
        Case("quantile and distinct", VALUES),
        Case("floats, small batches", FLOATS, batch_rows=100),
    )
]


class StillClock:
    def now_ms(self) -> int:
        return 0

    def now_ns(self) -> int:
        return 0

    def monotonic_us(self) -> int:
        return 0


class AtOnce:
    def submit(self, work):  # type: ignore[no-untyped-def]
        return Immediate(work())


def window_context(case: Case) -> OperatorContext:
    time_type = pa.timestamp("ms", "UTC")
    visible = pa.schema(
        [SCHEMA.field("k"), pa.field("window_start", time_type), pa.field("window_end", time_type)]
        + [pa.field(name, spec.result_type(SCHEMA)) for name, spec in case.aggregates.items()]
    )
    return OperatorContext(
        job=JobId("bench"),
        attempt=Attempt(1),
        operator=OperatorId("window"),
        name="window",
        site=Site(__file__, 1),
        subtask=0,
        parallelism=1,
        max_parallelism=128,
        ports=(PortType(StreamType(SCHEMA, True), ("k",), pa.schema([*SCHEMA, *HIDDEN])),),
        outputs={MAIN: OutputType(StreamType(visible, True), pa.schema([*visible, *HIDDEN]))},
        clock=StillClock(),
        io=AtOnce(),
        batch_rows=16_384,
    )


def operator(case: Case) -> WindowAggregateOperator:
    running = WindowAggregateOperator(window_context(case), WindowSpec(case.window, 0, case.aggregates))
    running.open({})
    return running


def batches(case: Case) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches without end, each with the watermark after it."""
    rng = np.random.default_rng(1)
    rows, step = case.batch_rows, WINDOW_MS // BATCHES_PER_WINDOW
    columns = [
        pa.array([f"airport-{key}" for key in rng.integers(0, case.keys, rows)]),
        pa.array(np.round(rng.gamma(2.0, 40.0, rows), 2)),
        pa.array(rng.integers(-30, 600, rows)),
    ]
    within = np.sort(rng.integers(0, step, rows)) - rng.integers(0, case.spread_ms + 1, rows)
    schema = pa.schema([*SCHEMA, *HIDDEN])
    start = 0
    while True:
        watermark = start - case.spread_ms - 1
        hidden = [pa.array(start + within), pa.array(np.full(rows, watermark))]
        yield pa.RecordBatch.from_arrays([*columns, *hidden], schema=schema), watermark + step
        start += step


def run(case: Case, seconds: float) -> tuple[list[float], list[float]]:
    """The times of batches and of firings, in ms."""
    running = operator(case)
    of_batches: list[float] = []
    of_firings: list[float] = []
    until = time.process_time() + seconds
    for batch, watermark in batches(case):
        begin = time.process_time()
        for _ in running.on_batch(0, batch):
            pass
        middle = time.process_time()
        fired = sum(1 for _ in running.on_watermark(watermark))
        end = time.process_time()
        of_batches.append((middle - begin) * 1000)
        if fired:
            of_firings.append((end - middle) * 1000)
        if end > until:
            return of_batches[3:], of_firings


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--profile"]:
        case = next(case for case in CASES if arguments[1] in case.name)
        profile = cProfile.Profile()
        profile.runcall(run, case, 5.0)
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return
    seconds = float(arguments[0]) if arguments else 3.0
    print(f"{'case':<48}{'batch':>9}{'p99':>9}{'fire':>9}{'M rows/s':>10}")
    for case in CASES:
        of_batches, of_firings = run(case, seconds)
        total = sum(of_batches) + sum(of_firings)
        print(
            f"{case.name:<48}{statistics.median(of_batches):>9.2f}"
            f"{np.percentile(of_batches, 99):>9.2f}"
            f"{statistics.median(of_firings) if of_firings else float('nan'):>9.2f}"
            f"{len(of_batches) * case.batch_rows / total / 1000:>10.2f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
