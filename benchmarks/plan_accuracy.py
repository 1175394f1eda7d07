"""Predictions of `rheos plan`, compared with real runs at 2, 4 and 8 slots.

usage: python -m benchmarks.plan_accuracy [--rounds N] [--seconds S] [--sample S] [--only NAME ...]

Each round takes a sample of each job of `plan_jobs.py`, as the command does. Then it runs the job at
full load at 2, 4 and 8 slots: with as many keys as in the sample, and with four times as many keys and
as much state. The table has the processor time of a row, predicted and measured. The ratio of the two
is the median of all rounds, with the smallest and the largest one. A machine may have fewer cores than
slots, so the rate is that of a core: rows per second of processor time.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from rheos.api.overrides import Overrides
from rheos.ops.planning.cost_model import CostModel, fit
from rheos.ops.planning.load import load_at
from rheos.ops.planning.sample_run import measure_phase, measure_sample

JOBS = ("grouping", "windows", "function")
SLOTS = (8, 4, 2)
KEYS = 10_000
GROWTH = (1, 4)
PROGRAM = Path(__file__).with_name("plan_jobs.py")


def predicted_us(model: CostModel, slots: int) -> float:
    """Return the predicted processor time of a source's row in µs, at full load."""
    return load_at(model, slots, 1.0, None).total_us


def measured_us(job: str, keys: int, slots: int, seconds: float) -> float:
    """Return the measured processor time of a source's row in µs."""
    phase = measure_phase(PROGRAM, [job, str(keys)], Overrides(), slots, seconds)
    return sum(chain.cpu_us for chain in phase.chains) / phase.source_rows


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--sample", type=float, default=30.0)
    parser.add_argument("--only", nargs="+", choices=JOBS, default=JOBS)
    given = parser.parse_args(argv)
    found: dict[tuple[str, int, int], list[tuple[float, float]]] = defaultdict(list)
    # The largest job is first, so that all of them share one Spark context.
    measured_us(given.only[0], KEYS, max(SLOTS), 2.0)
    try:
        for round_ in range(given.rounds):
            for job in given.only:
                for at, pair in compared(job, given.sample, given.seconds):
                    found[at].append(pair)
                print(f"round {round_ + 1}: {job}", file=sys.stderr, flush=True)
    finally:
        print_table(found)


def compared(
    job: str, sample_s: float, seconds: float
) -> Iterator[tuple[tuple[str, int, int], tuple[float, float]]]:
    """Yield the job, the growth and the slots of each cell, with its predicted and measured time."""
    model = fit(
        measure_sample(PROGRAM, [job, str(KEYS)], Overrides(), sample_s, lambda what: None).measurement
    )
    for growth in GROWTH:
        for slots in SLOTS:
            us = measured_us(job, KEYS * growth, slots, seconds)
            yield (job, growth, slots), (predicted_us(model, slots), us)


def print_table(found: Mapping[tuple[str, int, int], Sequence[tuple[float, float]]]) -> None:
    print("| job | keys | slots | predicted µs | measured µs | ratio | rows per core second |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for (job, growth, slots), pairs in sorted(found.items()):
        ratios = [predicted / us for predicted, us in pairs]
        predicted, us = (median(side) for side in zip(*pairs, strict=True))
        print(
            f"| {job} | {KEYS * growth:,} | {slots} | {predicted:.3f} | {us:.3f} "
            f"| {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | {1e6 / us:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
