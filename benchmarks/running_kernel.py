"""The running aggregate operator against the bare numpy kernel that the design was measured with.

usage: running_kernel.py [SECONDS_PER_CASE]

Both take the same batches, in turns, so that what else the machine does falls on both. The bare kernel
knows dense integer keys below a given number, adds up across keys and subtracts, and emits nothing; the
operator takes any int64, keeps each key's sums apart and makes the output batch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from rheos.core import aggregates as agg
from rheos.core.errors import Site
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.operators.contract import OperatorContext, OutputType, PortType
from rheos.core.operators.running import RunningOperator, RunningSpec, running_schema
from rheos.core.protocol.elements import TS, visible
from rheos.core.protocol.ids import Attempt, JobId, OperatorId

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64()), (TS, pa.int64())])
SPEC = RunningSpec({"count": agg.count(), "total": agg.sum("v")})

Kernel = Callable[[pa.RecordBatch], None]


def bare_kernel(keys: int) -> Kernel:
    counts, sums = np.zeros(keys, dtype=np.int64), np.zeros(keys)

    def process(batch: pa.RecordBatch) -> None:
        k, v = batch.column(0).to_numpy(), batch.column(1).to_numpy()
        order = np.argsort(k, kind="stable")
        ks, vs = k[order], v[order]
        starts = np.flatnonzero(np.r_[True, ks[1:] != ks[:-1]])
        lengths = np.diff(np.r_[starts, len(ks)])
        rank = np.arange(len(ks)) - np.repeat(starts, lengths)
        added = np.cumsum(vs)
        base = np.repeat(added[starts] - vs[starts], lengths)
        counts[ks] + rank + 1, sums[ks] + added - base
        distinct = ks[starts]
        counts[distinct] += lengths
        sums[distinct] += np.add.reduceat(vs, starts)

    return process


def running_context() -> OperatorContext:
    output = pa.schema([*running_schema(visible(SCHEMA), SPEC.aggregates), SCHEMA.field(TS)])
    return OperatorContext(
        job=JobId("bench"),
        attempt=Attempt(1),
        operator=OperatorId("running"),
        name="running",
        site=Site(__file__, 1),
        subtask=0,
        parallelism=1,
        max_parallelism=128,
        ports=(PortType(StreamType(visible(SCHEMA), True), ("k",), SCHEMA),),
        outputs={MAIN: OutputType(StreamType(visible(output), True), output)},
        clock=None,  # type: ignore[arg-type]
        io=None,  # type: ignore[arg-type]
        batch_rows=16_384,
    )


def operator() -> Kernel:
    running = RunningOperator(running_context(), SPEC)

    def process(batch: pa.RecordBatch) -> None:
        for _ in running.on_batch(0, batch):
            pass

    return process


def measure(keys: int, rows: int, spread: bool, whole: bool, seconds: float) -> tuple[float, float]:
    rng = np.random.default_rng(7)
    dense, general = [], []
    for _ in range(16):
        k = rng.integers(0, keys, rows)
        v = np.ones(rows) if whole else rng.random(rows)
        t = np.arange(rows)
        spread_k = k * 0x5851F42D4C957F2D if spread else k
        dense.append(pa.record_batch([pa.array(k), pa.array(v), pa.array(t)], schema=SCHEMA))
        general.append(pa.record_batch([pa.array(spread_k), pa.array(v), pa.array(t)], schema=SCHEMA))
    kernels = [(bare_kernel(keys), dense), (operator(), general)]
    for kernel, batches in kernels:
        for batch in batches * (1 + keys // (rows * 4)):
            kernel(batch)
    best = [float("inf")] * 2
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for which, (kernel, batches) in enumerate(kernels):
            started = time.perf_counter()
            for batch in batches:
                kernel(batch)
            best[which] = min(best[which], (time.perf_counter() - started) / (16 * rows))
    return best[0] * 1e9, best[1] * 1e9


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    print(
        f"{'keys':>8} {'rows':>6} {'keys are':>9} {'values':>7} {'bare':>11} {'ours':>11} {'speed':>6}"
    )
    with np.errstate(over="ignore"):
        for keys in (1, 100, 1_000, 100_000):
            for rows in (16_384, 8_192, 300):
                for spread, whole in ((False, True), (True, True), (True, False)):
                    bare, ours = measure(keys, rows, spread, whole, seconds)
                    kind, values = "any int64" if spread else "dense", "whole" if whole else "any"
                    measurements = f"{bare:5.1f} ns/row {ours:5.1f} ns/row {bare / ours:5.2f}x"
                    print(f"{keys:>8} {rows:>6} {kind:>9} {values:>7} {measurements}")


if __name__ == "__main__":
    main()
