"""Compares Rheos with other systems: the same work on one machine in turns, as a Markdown table.

usage: python -m benchmarks.peers [--rounds N] [--seconds S] [--only TEXT ...] [--systems NAME ...]

Each round runs every cell with Rheos and with Flink, one after the other, each in processes of its own;
they take turns at going first. The ratio is that of Rheos to the other system in the same round.
Brackets contain the interval of the median (`cli/benchmarks/intervals.py`). The cores are those of all
processes of the job: of Rheos the driver, Spark's JVM and the workers, of Flink its one process.
Between runs, naps of 100 µs show how long the machine itself holds a process up. A run that it
disturbed is repeated.

The programs of Flink are in `java/`: objects are reused, state is on the heap, and latencies are those
of every sixteenth result, from when its row was due, or made if there is no rate. The program
`benchmarks.peers.check` compares the results of both systems. Sliding windows of Flink's DataStream API
do not share totals, which is unfair to Flink. Those of its SQL share them: compare `sql-sliding`.

The state machine also runs in systems that call a Python function for each event: PyFlink with its
functions in processes or in threads of its JVM, and Bytewax (`python_peer.py`).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial

from benchmarks.disturbance import QuietRuns, naps_ms, percentile, summary
from benchmarks.peers.flink import Flink
from benchmarks.peers.quiet_cells import Metric, Run, median_cell, quiet_ratio_cell
from benchmarks.peers.systems import systems
from rheos.cli.benchmarks.intervals import MIN_ROUNDS

CELLS = (
    "grouping --parallelism 2",
    "grouping --parallelism 8",
    "grouping --parallelism 32",
    "grouping --parallelism 2 --rate 30000 --buffer-timeout 10ms",
    "grouping --parallelism 2 --rate 5000 --buffer-timeout 10ms",
    "grouping --parallelism 2 --rate 30000 --buffer-timeout 0",
    "grouping --parallelism 2 --rate 5000 --buffer-timeout 0",
    "state-machine --parallelism 2",
    "pattern --parallelism 2",
    "tumbling --parallelism 2",
    "session --parallelism 2",
    "sliding --parallelism 2",
    "sql-tumbling --parallelism 2",
    "sql-sliding --parallelism 2",
    "dedup --parallelism 2",
    "top-n --parallelism 2",
    "interval-join --parallelism 2",
    "window-join --parallelism 2",
)

HEADER = (
    "| work | system | M records/s | cores | µs per record | p50 ms | p99 ms |",
    "|---|---|---:|---:|---:|---:|---:|",
)

_WARMUP = " --warmup 8"
"""Java compiles while it runs."""

_MEASURED: tuple[tuple[Metric, str], ...] = (
    (lambda run: run["records_per_s"] / 1e6, ".3f"),
    (lambda run: run["cores"], ".2f"),
    (lambda run: run["processor_us_per_record"], ".3f"),
    (lambda run: run["latency_ms"]["p50"], ".2f"),
    (lambda run: run["latency_ms"]["p99"], ".2f"),
)
"""Reads the metric of a column, and how it is formatted."""


def measurements(runs: Sequence[Run]) -> list[str]:
    """Return the columns of a system, from its quiet runs."""
    return [median_cell(runs, metric, form) for metric, form in _MEASURED]


def ratios(ours: Sequence[Run], theirs: Sequence[Run]) -> list[str]:
    """Return the columns of a comparison; empty ones if there are too few quiet rounds."""
    return [quiet_ratio_cell(ours, theirs, metric) for metric, _ in _MEASURED]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="only cells in which one of these is")
    parser.add_argument(
        "--systems", nargs="+", metavar="NAME", help="compare Rheos only with these systems"
    )
    given = parser.parse_args(argv)
    cells = [cell for cell in CELLS if not given.only or any(text in cell for text in given.only)]
    flink = Flink()
    rheos, *peers = systems(flink)
    compared = [rheos, *(each for each in peers if not given.systems or each.name in given.systems)]
    runs: dict[tuple[str, str], list[Run]] = {}
    naps: list[float] = []

    def take_naps(seconds: float) -> list[float]:
        took = naps_ms(seconds)
        naps.extend(took)
        return took

    quiet = QuietRuns(os.cpu_count() or 1, naps=take_naps)
    try:
        for number in range(given.rounds):
            for cell in cells:
                taking_part = [each for each in compared if each.only in (None, cell)]
                for system in taking_part if number % 2 else reversed(taking_part):
                    print(f"round {number + 1}: {system.name} {cell}", file=sys.stderr, flush=True)
                    run = quiet(partial(system.measure, cell + _WARMUP, given.seconds))
                    runs.setdefault((cell, system.name), []).append(run)
    finally:
        flink.close()
    print(*HEADER, sep="\n")
    for cell in cells:
        ours, *others = (each.name for each in compared if (cell, each.name) in runs)
        for name in (ours, *others):
            print(f"| `{cell}` | {name} | {' | '.join(measurements(runs[cell, name]))} |")
        for name in others:
            columns = ratios(runs[cell, ours], runs[cell, name])
            if any(columns):
                print(f"| `{cell}` | ratio to {name} | {' | '.join(columns)} |")
    shares = ", ".join(f"{share:.1%} {percentile(naps, share):.2f} ms" for share in (0.5, 0.99, 0.999))
    print(f"\nnaps of 0.1 ms took: {shares}, the longest {max(naps):.1f} ms")
    if said := summary([run for of in runs.values() for run in of]):
        print(said)


if __name__ == "__main__":
    main(sys.argv[1:])
