"""The interval join's operator alone: two sides of uniform keys, each row with a pair or so.

Rates are rows of both sides per second of CPU time, so that a busy machine does not show.

usage: python benchmarks/join_kernel.py [BATCHES] [--profile]
"""

from __future__ import annotations

import cProfile
import gc
import pstats
import sys
import time

import numpy as np
import pyarrow as pa
from one_operator import opened

import rheos as rh
from rheos.core.operators.contract import Operator
from rheos.core.operators.joins.interval_join import IntervalJoinSpec
from rheos.core.protocol.elements import TS, WM

ROWS = 16_384
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64()), ("at", pa.int64())])


def join(keys: int, how: str, each_ms: int) -> Operator:
    """A row has about one partner: so many of its key lie in its interval."""
    env = rh.Environment(1)
    watermark = rh.Watermark.monotonic(on="at")
    left, right = (
        env.from_source(rh.collection(SCHEMA.empty_table()), watermark, name=name).key_by("k")
        for name in ("left", "right")
    )
    half = f"{keys // each_ms // 2}ms"
    left.interval_join(right, between=(f"-{half}", half), how=how, suffix="_r").collect("out")  # type: ignore[arg-type]
    return opened(env, IntervalJoinSpec, ROWS)


def batches(keys: int, count: int, each_ms: int) -> list[tuple[pa.RecordBatch, int]]:
    rng = np.random.default_rng(1)
    made = []
    schema = pa.schema([*SCHEMA, (TS, pa.int64()), (WM, pa.int64())])
    for number in range(count):
        at = (number * ROWS + np.arange(ROWS)) // each_ms
        columns = [rng.integers(0, keys, ROWS), rng.random(ROWS), at, at, np.maximum(at - 1, -1)]
        made.append(
            (pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=schema), int(at[-1]))
        )
    return made


def rate(keys: int, how: str, count: int, each_ms: int = 100) -> tuple[float, float]:
    """Rows of both sides per second, and rows given for each."""
    operator = join(keys, how, each_ms)
    left = batches(keys, count, each_ms)
    right = [
        (rows.set_column(0, "k", pa.array(np.random.default_rng(n + 7).integers(0, keys, ROWS))), at)
        for n, (rows, at) in enumerate(left)
    ]
    given = 0
    gc.collect()
    began = time.process_time()
    for (one, at), (other, _) in zip(left, right, strict=True):
        for port, rows in ((0, one), (1, other)):
            given += sum(out.batch.num_rows for out in operator.on_batch(port, rows))
        given += sum(out.batch.num_rows for out in operator.on_watermark(at - 1))
    took = time.process_time() - began
    return 2 * count * ROWS / took, given / (2 * count * ROWS)


def main() -> None:
    numbers = [int(arg) for arg in sys.argv[1:] if arg.isdigit()]
    count = numbers[0] if numbers else 60
    profile = cProfile.Profile() if "--profile" in sys.argv else None
    for keys in (10_000, 100_000, 1_000_000):
        for how in ("inner", "full"):
            if profile and keys == 100_000:
                profile.enable()
            rows_per_s, each = rate(keys, how, count)
            if profile:
                profile.disable()
            print(
                f"{how:6} {keys:>9,} keys: {rows_per_s / 1e6:5.2f} M rows/s, {each:.2f} given for each"
            )
    if profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
