"""Cost of a row of OVER, by the length of its frame.

Prints microseconds per row: for each function alone, over a frame by rows and over one by distance; and
for a whole query in the simulated runtime. A row costs the same whatever the length, so columns agree.

usage: python benchmarks/over_frames.py [ROWS]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pyarrow as pa

import rheos as rh
from rheos.core.aggregates import KINDS
from rheos.core.aggregates.frames import FrameState
from rheos.core.operators.over.moving_frames import FrameRow, FrameSpec, MovingFrames
from rheos.core.operators.over.positions import FramePosition, PositionFunction

LENGTHS = (10, 100, 1_000, 10_000)
SCHEMA = pa.schema({"v": pa.float64()})
QUERY = """
    SELECT k, SUM(v) OVER w AS total, AVG(v) OVER w AS mean, MIN(v) OVER w AS least
    FROM t WINDOW w AS (PARTITION BY k ORDER BY at ROWS {} PRECEDING)
"""


def states() -> dict[str, Callable[[], FrameState]]:
    """Return what makes the state of each function."""
    made = {name: kind("v").frame(SCHEMA) for name, kind in KINDS.items()}
    found = {name: make for name, make in made.items() if make is not None}
    first, lag = PositionFunction(FramePosition.FIRST), PositionFunction(FramePosition.BEFORE)
    return found | {"first_value": first.frame(1), "lag": lag.frame(1)}


def function_us(make: Callable[[], FrameState], frame: FrameSpec, rows: int) -> float:
    """Return what a row costs once its frame is full."""
    frames = MovingFrames([make], frame)
    given = [FrameRow(at, (float(at * 7_919 % 10_007),)) for at in range(rows + max(LENGTHS))]
    for row in given[: max(LENGTHS)]:
        frames.add([row])
    begin = time.process_time()
    for row in given[max(LENGTHS) :]:
        frames.add([row])
    return (time.process_time() - begin) / rows * 1e6


def query_us(length: int, rows: int) -> float:
    """Return what a row of a whole query costs."""
    env = rh.Environment(1, runtime="simulated")
    at = pa.array([n * 1_000 for n in range(rows)]).cast(pa.timestamp("us", "UTC"))
    table = pa.table({"k": [0] * rows, "v": [n * 7_919 % 10_007 / 4 for n in range(rows)], "at": at})
    watermark = rh.Watermark.monotonic(on="at")
    env.register("t", env.from_source(rh.collection(table), watermark=watermark))
    env.sql(QUERY.format(length)).collect("found")
    begin = time.process_time()
    env.execute("over frames")
    return (time.process_time() - begin) / rows * 1e6


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print(f"{'us per row, frames of':<36}" + "".join(f"{length:>10,}" for length in LENGTHS))
    for name, make in states().items():
        for by_rows in (True, False):
            told = [function_us(make, FrameSpec(by_rows, length), rows) for length in LENGTHS]
            called = f"{name}, {'rows' if by_rows else 'range'}"
            print(f"{called:<36}" + "".join(f"{us:>10.2f}" for us in told))
    told = [query_us(length, rows) for length in LENGTHS]
    print(f"{'a query: SUM, AVG and MIN':<36}" + "".join(f"{us:>10.2f}" for us in told))


if __name__ == "__main__":
    main()
