"""What each kind of work costs beside the simplest of its family, as a Markdown table.

usage: python -m benchmarks.kinds_of_work [--rounds N] [--seconds S] [--only NAME ...]

Each round runs `grouping` and `state-machine`, and then every other kind of work, one after the other,
each as a process of its own. A ratio is that of the rates within one round, and that of processor time,
which suffers less where the machine has other work. What is printed are medians over the rounds, and
in brackets the least and the largest.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.compare import RHEOS, measure
from benchmarks.disturbance import QuietRuns, is_quiet, summary
from rheos.cli.benchmarks.intervals import MIN_ROUNDS, cell, ratio_cell

GROUPING = "grouping --keys 100000"
STATE_MACHINE = "state-machine"


@dataclass(frozen=True)
class Kind:
    """`beside` is what it is held against; it is to reach `target` of that one's rate."""

    cell: str
    beside: str
    target: float


KINDS = (
    Kind("tumbling", GROUPING, 0.6),
    Kind("sliding", GROUPING, 0.3),
    Kind("session", GROUPING, 0.3),
    Kind("interval-join", GROUPING, 0.2),
    Kind("window-join", GROUPING, 0.2),
    Kind("dedup", GROUPING, 0.3),
    Kind("top-n", GROUPING, 0.2),
    Kind("broadcast", STATE_MACHINE, 0.8),
    Kind("vectorised", STATE_MACHINE, 8),
    Kind("compiled", STATE_MACHINE, 7),
)

HEADER = (
    "| work | beside | target | of its rate | of its processor time | M records/s | µs per record |",
    "|---|---|---:|---:|---:|---:|---:|",
)


def row(kind: Kind, runs: Sequence[Any], beside: Sequence[Any]) -> str:
    """A line of the table; the runs of a round stand at the same place."""
    pairs = [(a, b) for a, b in zip(runs, beside, strict=True) if is_quiet(a) and is_quiet(b)]
    rates = [(one["records_per_s"], other["records_per_s"]) for one, other in pairs]
    time = "processor_us_per_record"
    times = [(other[time], one[time]) for one, other in pairs]
    quiet = [run for run in runs if is_quiet(run)]
    cells = [
        f"`rheos bench {kind.cell}`",
        f"`{kind.beside}`",
        f"{kind.target:g}",
        ratio_cell(rates),
        ratio_cell(times),
        cell([run["records_per_s"] / 1e6 for run in quiet], "{:.2f}".format),
        cell([run[time] for run in quiet], "{:.2f}".format),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="kinds of work, such as: session dedup"
    )
    given = parser.parse_args()
    kinds = [kind for kind in KINDS if given.only is None or kind.cell in given.only]
    if not kinds or given.rounds < 1:
        parser.error("there is nothing to run")
    cells = [*dict.fromkeys(kind.beside for kind in kinds), *(kind.cell for kind in kinds)]
    runs: dict[str, list[dict[str, Any]]] = {cell: [] for cell in cells}
    quiet = QuietRuns(os.cpu_count() or 1)
    for number in range(given.rounds):
        for name in cells:
            print(f"round {number + 1} of {given.rounds}: {name}", file=sys.stderr)
            runs[name].append(quiet(partial(measure, RHEOS, name, given.seconds)))
    print(*HEADER, sep="\n")
    for kind in kinds:
        print(row(kind, runs[kind.cell], runs[kind.beside]))
    if said := summary([run for of in runs.values() for run in of]):
        print(f"\n{said}")


if __name__ == "__main__":
    main()
