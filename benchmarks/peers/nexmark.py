"""Compares Nexmark in Rheos and in Flink's SQL: the same statements over the same events, in turns.

usage: python -m benchmarks.peers.nexmark [q0 q1 ...] [--rounds N] [--seconds S] [--unchecked]

First, both systems run the query over 20,000 events: the numbers of results, the sums of their
columns and their checksums must agree. Then each round runs the query in both systems, which take
turns at going first. Each system has one process for the runs of a query. A run reads a fixed number of
events and ends with the last result. Measurements are those of the second half of the events, because
Flink compiles each query anew. Runs of both systems in advance determine the number, so that the
second half lasts the given seconds in the faster system, and at most three times that in the other.

Both systems create the events themselves and drop the results. Flink runs as its documentation
recommends: mini-batches of 2 s, split distinct aggregates, objects reused, state on the heap. So it
emits fewer changes of a key than Rheos. Flink's SQL cannot express query 6, and query 10 drops its
results, too. Repeated and disturbed runs, and brackets, are those of `python -m benchmarks.peers`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.disturbance import QuietRuns, summary
from benchmarks.nexmark.measure import SPAN_S
from benchmarks.nexmark.published import FLINK_2_0
from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.statements import STATEMENTS
from benchmarks.peers.flink import Flink
from benchmarks.peers.lasting import LastingSystem
from benchmarks.peers.nexmark_check import (
    BY_CLOCK,
    PARALLELISM,
    by_rheos,
    check_command,
    command,
    totals_of,
    write_folder,
)
from benchmarks.peers.quiet_cells import Metric, Run, median_cell, quiet_ratio_cell
from rheos.cli.benchmarks.intervals import MIN_ROUNDS

HEADER = (
    "| query | M events | Rheos: M events/s | µs | Flink: M events/s | µs | ratio of rates "
    "| ratio of µs |",
    "|---|---:|---:|---:|---:|---:|---:|---:|",
)
_RATE: Metric = lambda run: run["records_per_s"] / 1e6  # noqa: E731
_PROCESSOR_US: Metric = lambda run: run["processor_us_per_record"]  # noqa: E731
_LONGEST = 3.0
"""Maximum duration of the slower system, in durations of the faster one."""
_TRIALS = 3
"""Maximum number of runs in advance."""
_STEP = 10_000
"""Numbers of events are multiples of it."""
_FIRST_S = 1.5
"""Length of the first run of Flink at the published rate, in seconds."""


def events_of(seconds: float, rates: Sequence[float]) -> int:
    """Return the number of events of a run, of which the second half is measured.

    >>> events_of(1.0, [200_000, 1_000_000])
    1200000
    """
    half = seconds * min(max(rates), _LONGEST * min(rates))
    return max(round(2 * half / _STEP) * _STEP, 2 * _STEP)


def calibrate(seconds: float, first: int, rates_of: Callable[[int], Sequence[float]]) -> int:
    """Return the number of events of a run, as `events_of` does, from runs in advance.

    A short run is slower than a long one: batches are still small, and Java is still interpreted. So a
    run in advance is repeated if it had less than half of the events.

    Args:
        seconds: How long the second half of the events lasts in the faster system.
        first: Number of events of the first run.
        rates_of: Function that makes a run in each system, and returns the rates.
    """
    events = first
    for _ in range(_TRIALS):
        tried, events = events, events_of(seconds, rates_of(events))
        if events <= 2 * tried:
            break
    return events


def line(name: str, events: int, ours: Sequence[Run], theirs: Sequence[Run]) -> str:
    """Return a line of the table."""
    columns = [f"{name}, {QUERIES[name].about}", f"{events / 1e6:.2f}"]
    for runs in (ours, theirs):
        columns += [median_cell(runs, _RATE, ".3f"), median_cell(runs, _PROCESSOR_US, ".2f")]
    columns += [quiet_ratio_cell(ours, theirs, metric) for metric in (_RATE, _PROCESSOR_US)]
    return f"| {' | '.join(columns)} |"


class Comparison:
    """Runs queries in both systems. The creator must close it."""

    def __init__(self, rounds: int, seconds: float) -> None:
        self._rounds = rounds
        self._seconds = seconds
        self._flink = Flink()
        self._folder = tempfile.TemporaryDirectory(prefix="rheos-nexmark-")
        write_folder(Path(self._folder.name))
        self._rheos = LastingSystem([sys.executable, "-m", "benchmarks.peers.rheos_nexmark"])
        self._quiet = QuietRuns(os.cpu_count() or 1)
        self.runs: list[Run] = []

    def close(self) -> None:
        self._rheos.close()
        self._flink.close()
        self._folder.cleanup()

    def differences(self, names: Sequence[str]) -> list[str]:
        """Return a sentence for each query whose results differ."""
        checked = [name for name in names if name not in BY_CLOCK]
        ours = by_rheos(checked)
        found = []
        flink = self._flink.lasting()
        try:
            for name in checked:
                theirs = totals_of(flink.measure(check_command(name, Path(self._folder.name)), 0))
                if ours[name].agrees(theirs):
                    _report(f"{name}: {theirs.results:,} results are the same")
                else:
                    found.append(f"{name} differs: Rheos {ours[name]}, Flink {theirs}")
        finally:
            flink.close()
        return found

    def compare(self, name: str) -> str:
        """Run a query in turns, and return its line of the table."""
        flink = self._flink.lasting()
        systems = {"Rheos": self._rheos, "Flink": flink}

        def rates_of(events: int) -> list[float]:
            return [self._run(system, name, events)["records_per_s"] for system in systems.values()]

        try:
            first = round(FLINK_2_0[name] * PARALLELISM * _FIRST_S)
            events = calibrate(self._seconds, first, rates_of)
            runs: dict[str, list[Run]] = {system: [] for system in systems}
            for number in range(self._rounds):
                for of in systems if number % 2 else reversed(systems):
                    _report(f"{name}, round {number + 1}: {of}")
                    runs[of].append(self._quiet(partial(self._run, systems[of], name, events)))
            self.runs += [run for of in runs.values() for run in of]
            return line(name, events, runs["Rheos"], runs["Flink"])
        finally:
            flink.close()

    def _run(self, system: LastingSystem, name: str, events: int) -> Run:
        of = command(name, Path(self._folder.name), events, events // 2)
        return system.measure(f"{of} --per-second {events / SPAN_S}", 0)


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(argv: Sequence[str]) -> int:
    """Return the number of queries whose results differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="QUERY", help="all queries if left out")
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS, help="0 only compares the results")
    parser.add_argument("--seconds", type=float, default=1.0, help="measured in the faster system")
    parser.add_argument("--unchecked", action="store_true", help="do not compare the results")
    given = parser.parse_args(argv)
    names = given.names or list(STATEMENTS)
    if unknown := [name for name in names if name not in STATEMENTS]:
        parser.error(f"there is no query {unknown[0]}")
    comparison = Comparison(given.rounds, given.seconds)
    try:
        differences = [] if given.unchecked else comparison.differences(names)
        print(*differences, sep="\n", end="\n" if differences else "")
        if given.rounds:
            print(*HEADER, sep="\n", flush=True)
            for name in names:
                print(comparison.compare(name), flush=True)
            print(f"\n{summary(comparison.runs)}")
    finally:
        comparison.close()
    return len(differences)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
