"""The operator of patterns alone: three steps over uniform keys, conditions as expressions; and prices
that fall and then rise, by MATCH_RECOGNIZE, where each row is held against the one before.

Rates are per second of CPU time, so that a busy machine shows less: the best of some rounds. Of a
hundred rows as many as the table says fulfil a condition; the others change nothing. Batches are those
of one of two subtasks.

usage: python benchmarks/pattern_kernel.py [BATCHES] [--profile] [--before, for the prices alone]
"""

from __future__ import annotations

import cProfile
import gc
import os
import pstats
import sys
import time

# As in a worker.
os.environ["POLARS_MAX_THREADS"] = "1"

import numpy as np
import pyarrow as pa
from one_operator import opened

import rheos as rh
from rheos.cli.benchmarks.generated_rows import KINDS
from rheos.cli.benchmarks.programs import three_steps
from rheos.core.operators.contract import Operator
from rheos.core.operators.pattern.operator import PatternSpec
from rheos.core.protocol.elements import TS, WM
from rheos.runtimes.host.memory_tuning import collect_seldom

ROWS = 8_192
ROWS_PER_MS = 100
ROUNDS = 3
SCHEMA = pa.schema([("k", pa.int64()), ("kind", pa.int64()), ("at", pa.int64()), ("t", pa.int64())])


def detect() -> Operator:
    env = rh.Environment(1)
    watermark = rh.Watermark.monotonic(on="at")
    events = env.from_source(rh.collection(SCHEMA.empty_table()), watermark, name="events")
    events.key_by("k").detect(three_steps()).collect("out")
    return opened(env, PatternSpec, ROWS)


PRICES = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("price", pa.int64()),
        ("at", pa.timestamp("ms", "UTC")),
    ]
)


def dips() -> Operator:
    env = rh.Environment(1)
    watermark = rh.Watermark.monotonic(on="at")
    env.register("ticks", env.from_source(rh.collection(PRICES.empty_table()), watermark, name="ticks"))
    env.sql("""
        SELECT * FROM ticks MATCH_RECOGNIZE (
            PARTITION BY k ORDER BY at
            MEASURES FIRST(A.price) AS a, LAST(B.price) AS b, LAST(C.price) AS c
            PATTERN (A B+ C+) WITHIN INTERVAL '1' HOUR
            DEFINE B AS B.price < PREV(B.price), C AS C.price > PREV(C.price))
    """).collect("out")
    return opened(env, PatternSpec, ROWS)


def priced(keys: int, count: int) -> list[tuple[pa.RecordBatch, int]]:
    rng = np.random.default_rng(1)
    schema = pa.schema([*list(PRICES)[:2], (TS, pa.int64()), (WM, pa.int64())])
    made = []
    for number in range(count):
        at = number * ROWS + np.arange(ROWS)
        columns = [rng.integers(0, keys, ROWS), rng.integers(0, 100, ROWS), at, np.maximum(at - 1, -1)]
        made.append(
            (pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=schema), int(at[-1]))
        )
    return made


def batches(keys: int, count: int, of_hundred: int) -> list[tuple[pa.RecordBatch, int]]:
    rng = np.random.default_rng(1)
    made = []
    schema = pa.schema([*SCHEMA, (TS, pa.int64()), (WM, pa.int64())])
    for number in range(count):
        at = (number * ROWS + np.arange(ROWS)) // ROWS_PER_MS
        relevant = rng.integers(0, KINDS, ROWS) < of_hundred
        kinds = np.where(relevant, rng.integers(0, 3, ROWS), KINDS - 1)
        columns = [rng.integers(0, keys, ROWS), kinds, at, at, at, np.maximum(at - 1, -1)]
        made.append(
            (pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=schema), int(at[-1]))
        )
    return made


def rate(keys: int, of_hundred: int, count: int) -> tuple[float, float]:
    return timed(detect(), batches(keys, count, of_hundred))


def timed(operator: Operator, rows: list[tuple[pa.RecordBatch, int]]) -> tuple[float, float]:
    """Rows per second, and matches for each."""
    given = 0
    gc.collect()
    began = time.process_time()
    for batch, at in rows:
        given += sum(out.batch.num_rows for out in operator.on_batch(0, batch))
        given += sum(out.batch.num_rows for out in operator.on_watermark(at - 1))
    took = time.process_time() - began
    return len(rows) * ROWS / took, given / (len(rows) * ROWS)


def main() -> None:
    collect_seldom()
    numbers = [int(arg) for arg in sys.argv[1:] if arg.isdigit()]
    count = numbers[0] if numbers else 60
    profile = cProfile.Profile() if "--profile" in sys.argv else None
    for keys in () if "--before" in sys.argv else (100, 10_000, 100_000):
        for of_hundred in (3, 30, 100):
            if profile and keys == 10_000:
                profile.enable()
            rows_per_s, each = max(rate(keys, of_hundred, count) for _ in range(ROUNDS))
            if profile:
                profile.disable()
            print(
                f"{keys:>9,} keys, {of_hundred:3} of 100: {rows_per_s / 1e6:5.2f} M rows/s, "
                f"{each:.4f} matches for each"
            )
    rows_per_s, each = max(timed(dips(), priced(100, max(count // 20, 1))) for _ in range(ROUNDS))
    print(f"rows before, 100 keys: {rows_per_s / 1e6:5.3f} M rows/s, {each:.4f} matches for each")
    if profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
