"""What grouping would do with many slots: a model of its processor time, fitted to measurements.

usage: python -m benchmarks.slots [--rounds N] [--seconds S] [--at P ...] [--one-thread]

Grouping runs at full load with 2 to 32 slots on the cores that there are. A record costs

    a + b / rows of an element + c * slots / rows of a batch

of processor time: `a` for the row itself, `b` for each element, which is what a channel sends at once,
and `c` for each piece that a batch is cut into. The three are fitted (least squares of the relative
error, none below zero), and printed beside what they leave over. The rows of an element follow from the
settings (`TaskConfig.full_rows`). For 100 and 1,000 slots (or those of `--at`) the model says the rate
of a core, and what the exchange of a slot holds at the most: its buffers, and what its channels may
have under way.

It takes for granted that each slot has a core of its own with the caches of one here, that keys are
spread evenly, and that a network carries the rows, which there is none of here. What is measured with
many slots on few cores also pays for their taking turns, so the model is on the dear side.

With `--one-thread`, the engines of 2, 8 and 32 slots run in this process at full load, over real Unix
sockets. Each slot runs until it waits, for at most a number of steps, as on a core that slots share. So
the result has the cost of smaller pieces, and none of the switches between processes. It is printed as
the rate per processor time, compared with two slots in the same round.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.compare import RHEOS, measure
from benchmarks.turn import TURN_US, Slots
from rheos.cli.benchmarks.intervals import MIN_ROUNDS, cell, ratio_cell
from rheos.core.task.config import TaskConfig

MEASURED = (2, 4, 8, 16, 32)
IN_ONE_THREAD = (2, 8, 32)
STEPS_AT_ONCE = (1, 16)
"""Most steps of a slot before the next one runs."""
ROWS_OF_A_ROUND = 2_500_000
WARM_UP_STEPS = 800
"""Steps of all slots together within which they have reached their largest batches."""
_ROW_BYTES = 32
"""A row of grouping: a key, a value, when it was due, and the place of its split."""


def element_rows(slots: int, config: TaskConfig) -> int:
    """So many rows a channel sends at once, at full load: the piece of a batch, or a full buffer."""
    return max(config.batch_rows // slots, config.full_rows(slots))


def features(slots: int, config: TaskConfig) -> list[float]:
    """What the costs are multiplied with."""
    return [1.0, 1 / element_rows(slots, config), slots / config.batch_rows]


@dataclass(frozen=True)
class Model:
    """Microseconds of processor time."""

    row_us: float
    element_us: float
    piece_us: float

    @classmethod
    def fitted(cls, measured_us: Mapping[int, float], config: TaskConfig) -> Model:
        """To the processor time of a record, by number of slots."""
        made = np.array([features(slots, config) for slots in measured_us])
        us = np.array(list(measured_us.values()))
        return cls(*_fitted(made / us[:, None]))

    def record_us(self, slots: int, config: TaskConfig) -> float:
        costs = (self.row_us, self.element_us, self.piece_us)
        return sum(cost * of for cost, of in zip(costs, features(slots, config), strict=True))


def _fitted(shares: npt.NDArray[np.float64]) -> list[float]:
    """The costs, none below zero, whose shares of each measurement add up to nearly one: the best of
    what fits where some of them are nothing."""
    count = shares.shape[1]
    best, best_left = [0.0] * count, float("inf")
    for some in (
        list(each) for size in range(1, count + 1) for each in combinations(range(count), size)
    ):
        costs = np.linalg.lstsq(shares[:, some], np.ones(len(shares)))[0]
        left = float(np.square(shares[:, some] @ costs - 1).sum())
        if costs.min() >= 0 and left < best_left:
            best, best_left = [0.0] * count, left
            for at, cost in zip(some, costs.tolist(), strict=True):
                best[at] = cost
    return best


def exchange_mib(slots: int, config: TaskConfig) -> float:
    """What buffers and channels of one slot hold at the most: all that it has not sent, and all that it
    has been sent and has not processed."""
    rows = slots * (config.full_rows(slots) + config.credits * element_rows(slots, config))
    return rows * _ROW_BYTES / 2**20


class FullLoad:
    """The engines of a job's slots, which one thread runs at full load."""

    def __init__(self, slots: int, folder: str) -> None:
        self.slots = Slots(TaskConfig.batch_rows, slots, folder)
        self.run(1, WARM_UP_STEPS // slots)

    def run(self, at_once: int, rounds: int) -> int:
        """Let each slot run `rounds` times. Return the number of rows that have reached the sinks."""
        before = self.slots.sink.came
        for _ in range(rounds):
            for engine, transport in zip(self.slots.engines, self.slots.transports, strict=True):
                for _ in range(at_once):
                    self.slots.clock.advance(TURN_US)
                    step = engine.step()
                    if step.wake_after_us is not None:
                        transport.wait(0)
                    if not step.worked:
                        break
        return self.slots.sink.came - before

    def row_us(self, at_once: int) -> float:
        """Return the processor time of a row, over about `ROWS_OF_A_ROUND` rows."""
        rows, began_s = 0, time.process_time()
        while rows < ROWS_OF_A_ROUND:
            rows += self.run(at_once, 1)
        return (time.process_time() - began_s) * 1e6 / rows


def in_one_thread(rounds: int) -> None:
    """Print the processor time of a row by the number of slots, and the rate compared with two."""
    pa.set_cpu_count(1)
    spent: dict[tuple[int, int], list[float]] = {
        (at_once, slots): [] for at_once in STEPS_AT_ONCE for slots in IN_ONE_THREAD
    }
    with ExitStack() as folders:
        jobs: dict[int, FullLoad] = {}
        for slots in IN_ONE_THREAD:
            folder = folders.enter_context(tempfile.TemporaryDirectory(prefix="rheos-slots-"))
            jobs[slots] = FullLoad(slots, folder)
            folders.callback(jobs[slots].slots.close)
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for (at_once, slots), times in list(spent.items())[:: 1 if number % 2 == 0 else -1]:
                times.append(jobs[slots].row_us(at_once))
    print("| steps at once | slots | µs per record | rate, compared with two slots |")
    print("|---:|---:|---:|---:|")
    for (at_once, slots), times in spent.items():
        ratio = ratio_cell(list(zip(spent[at_once, IN_ONE_THREAD[0]], times, strict=True)))
        print(f"| {at_once} | {slots} | {cell(times, '{:.4f}'.format)} | {ratio} |")


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--at", type=int, nargs="+", default=[100, 1000], metavar="P")
    parser.add_argument("--one-thread", action="store_true", help="without Spark and processes")
    given = parser.parse_args(argv)
    if given.one_thread:
        in_one_thread(max(given.rounds, MIN_ROUNDS))
        return
    runs: dict[int, list[dict[str, Any]]] = {slots: [] for slots in MEASURED}
    for _ in range(given.rounds):
        for slots in MEASURED:
            runs[slots].append(measure(RHEOS, f"grouping --parallelism {slots}", given.seconds))
            print(f"measured {slots} slots", file=sys.stderr, flush=True)
    config = TaskConfig()
    us = {slots: median(run["processor_us_per_record"] for run in runs[slots]) for slots in MEASURED}
    model = Model.fitted(us, config)
    print("| slots | rows of an element | µs per record | the model | off by |")
    print("|---:|---:|---:|---:|---:|")
    for slots in MEASURED:
        fitted_us = model.record_us(slots, config)
        print(
            f"| {slots} | {element_rows(slots, config):,} | {us[slots]:.4f} | {fitted_us:.4f} "
            f"| {fitted_us / us[slots] - 1:+.0%} |"
        )
    print(
        f"\na row {model.row_us:.4f} µs, an element {model.element_us:.0f} µs, "
        f"a piece {model.piece_us:.1f} µs\n"
    )
    print("| slots | rows of an element | M records/s of a core | in all | exchange of a slot |")
    print("|---:|---:|---:|---:|---:|")
    for slots in given.at:
        rate = 1 / model.record_us(slots, config)
        print(
            f"| {slots:,} | {element_rows(slots, config):,} | {rate:.2f} | {rate * slots:,.0f} "
            f"| {exchange_mib(slots, config):.1f} MiB |"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
