"""Measures the cost of buffer timeouts by rate, with one slot and with two, in Rheos and in Flink.

usage: python -m benchmarks.peers.buffer_timeouts [--rounds N] [--seconds S] [--rates N ...]

Grouping with 10,000 keys at low rates, with the buffer timeout of Flink's default (100 ms), that of
Rheos (10 ms), and none. Each system has one process for all runs (`lasting.py`): Rheos one Spark
session, Flink one JVM, whose code is then compiled. They run every cell in turns; each second round
goes backwards. Five rounds take less than 20 minutes on a quiet machine.

Cores are those of all processes of a system, an idle JVM included. A ratio is that of pairs of the same
round. Brackets contain the interval of the median (`cli/benchmarks/intervals.py`).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.disturbance import QuietRuns, naps_ms, summary
from benchmarks.peers.flink import Flink
from benchmarks.peers.lasting import LastingSystem, rheos
from benchmarks.peers.quiet_cells import Run, median_cell, quiet_ratio_cell
from rheos.cli.benchmarks.intervals import MIN_ROUNDS

RATES = (1_000, 10_000, 60_000)
"""Records per second of the whole job."""
TIMEOUTS = ("100ms", "10ms", "0")
SLOTS = (1, 2)
HEADER = (
    "| records/s | buffer timeout | slots | cores, Rheos | cores, Flink | ratio "
    "| Rheos, cores of one slot to two | p50 ms, Rheos | p50 ms, Flink | p99 ms, Rheos "
    "| p99 ms, Flink |",
    "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
)
_WARMUP = {"100ms": 2.0, "10ms": 1.5, "0": 1.5}
_COMPILING = "grouping --parallelism 2 --rate 30000 --buffer-timeout 10ms --warmup 8"
"""A run before the first round, in which Java compiles the programs."""
_NAPS_S = 0.1


@dataclass(frozen=True)
class Cell:
    """The settings of one run."""

    rate: int
    timeout: str
    slots: int

    @property
    def command(self) -> str:
        """Return the arguments of `rheos bench`, whose rate is that of one subtask."""
        return (
            f"grouping --parallelism {self.slots} --rate {self.rate / self.slots:g} "
            f"--buffer-timeout {self.timeout} --warmup {_WARMUP[self.timeout]:g}"
        )


Runs = Mapping[tuple[Cell, str], Sequence[Run]]


def _cores(run: Run) -> float:
    cores: float = run["cores"]
    return cores


def line(cell: Cell, runs: Runs) -> str:
    """Return a line of the table."""
    ours, theirs = runs[cell, "Rheos"], runs[cell, "Flink"]
    wide = runs.get((Cell(cell.rate, cell.timeout, 2), "Rheos")) if cell.slots == 1 else None
    columns = [
        f"{cell.rate:,}",
        cell.timeout,
        str(cell.slots),
        *(median_cell(of, _cores, ".2f") for of in (ours, theirs)),
        quiet_ratio_cell(ours, theirs, _cores),
        "" if wide is None else quiet_ratio_cell(ours, wide, _cores),
        *(median_cell(of, lambda run: run["latency_ms"]["p50"], ".2f") for of in (ours, theirs)),
        *(median_cell(of, lambda run: run["latency_ms"]["p99"], ".2f") for of in (ours, theirs)),
    ]
    return f"| {' | '.join(columns)} |"


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rates", type=int, nargs="+", default=list(RATES), metavar="N")
    given = parser.parse_args(argv)
    cells = [
        Cell(rate, timeout, slots) for rate in given.rates for timeout in TIMEOUTS for slots in SLOTS
    ]
    flink = Flink()
    systems: dict[str, LastingSystem] = {}
    runs: dict[tuple[Cell, str], list[Run]] = {}
    quiet = QuietRuns(os.cpu_count() or 1, repeats=1, naps=lambda seconds: naps_ms(_NAPS_S))
    try:
        systems |= {"Rheos": rheos(max(SLOTS)), "Flink": flink.lasting()}
        systems["Flink"].measure(_COMPILING, 1.0)
        for number in range(given.rounds):
            for cell in cells if number % 2 == 0 else reversed(cells):
                for name in sorted(systems, reverse=number % 2 == 0):
                    print(f"round {number + 1}: {name} {cell.command}", file=sys.stderr, flush=True)
                    run = quiet(partial(systems[name].measure, cell.command, given.seconds))
                    runs.setdefault((cell, name), []).append(run)
    finally:
        for system in systems.values():
            system.close()
        flink.close()
    print(*HEADER, sep="\n")
    for cell in cells:
        print(line(cell, runs))
    if said := summary([run for of in runs.values() for run in of]):
        print(f"\n{said}")


if __name__ == "__main__":
    main(sys.argv[1:])
