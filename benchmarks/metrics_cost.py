"""Cost of a job's metrics in a turn of a slot: with them, and without the calls that count and report.

usage: python -m benchmarks.metrics_cost [ROWS ...]

The slots and the turns are those of `turn.py`, with so many rows from each source (1, 64 and 512 where
none are given; fewer than 1,024, or a source is asked on and on). Short pieces with and without take
turns, so that a busy machine meets both alike; processor time in microseconds, medians of pieces. What
stays in both: a call that does nothing in place of each that counts, and one reading of the clock for
each chain.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from statistics import median
from unittest.mock import patch

import pyarrow as pa

from benchmarks.turn import Slots
from rheos.core.task.engine import SubtaskEngine
from rheos.core.task.latency import GateLatency
from rheos.core.task.traffic import SpentTime, Traffic

SLOTS = 2
PIECE = 40
PIECES = 80
COUNTING = (
    (Traffic, "add"),
    (SpentTime, "turn"),
    (GateLatency, "arrived"),
    (GateLatency, "took"),
    (GateLatency, "processed"),
    (SubtaskEngine, "report_progress"),
)


def nothing(*_: object) -> None:
    pass


@contextlib.contextmanager
def without_metrics() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for kind, method in COUNTING:
            stack.enter_context(patch.object(kind, method, nothing))
        yield


def piece_us(slots: Slots) -> float:
    began = time.process_time_ns()
    for _ in range(PIECE):
        slots.turn()
    return (time.process_time_ns() - began) / 1000 / PIECE / SLOTS


def measured(rows: int) -> tuple[float, float]:
    """Microseconds of a turn of one slot: with metrics, and without."""
    with_them, without = [], []
    with tempfile.TemporaryDirectory(prefix="rheos-metrics-") as folder:
        slots = Slots(rows, SLOTS, folder)
        for _ in range(5 * PIECE):
            slots.turn()
        for _ in range(PIECES):
            with_them.append(piece_us(slots))
            with without_metrics():
                without.append(piece_us(slots))
        slots.close()
    return median(with_them), median(without)


def main(sizes: Sequence[int]) -> None:
    pa.set_cpu_count(1)
    print(f"{'rows':>7} {'with us':>9} {'without us':>11} {'cost':>8}")
    for rows in sizes:
        counted, bare = measured(rows)
        print(f"{rows:>7,} {counted:>9.1f} {bare:>11.1f} {counted / bare - 1:>8.1%}", flush=True)


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or [1, 64, 512])
