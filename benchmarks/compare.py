"""Runs the benchmarks of docs/benchmarks.md in turns, and prints the medians as a Markdown table.

usage: python -m benchmarks.compare [--rounds N] [--seconds S] [--only NAME ...] [--raw FILE]
                                   [--against RHEOS]

Each round runs every cell once, one after the other: what else the machine does, and its heat, then
falls on all of them. A cell is a process of its own, and its command stands in the table. Brackets
contain the interval of the median (`cli/benchmarks/intervals.py`). A value after ~ has too few rounds.
A run is repeated if workers at full load did not have their cores for themselves, or if the machine
paused. The rate per CPU second counts the workers' own time alone, and suffers less.

With `--against` each cell also runs with another `rheos`, of another version's virtual environment: the
two take turns at going first. The table then contains the ratios of this version to the other one in
the same round, and nothing for fewer than five rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.disturbance import QuietRuns, is_quiet, summary
from rheos.cli.benchmarks.intervals import MIN_ROUNDS, cell, ratio_cell

CELLS = (
    "grep",
    "grouping --keys 1000",
    "grouping --keys 10000",
    "grouping --keys 100000",
    "state-machine",
    "latency",
    "latency --buffer-timeout 0",
    "grouping --checkpoint-interval 5s",
    "state-machine --checkpoint-interval 5s",
    "grep --checkpoint-interval 5s",
)

RHEOS = Path(sys.executable).parent / "rheos"
"""That of this virtual environment."""

HEADER = (
    "| command | records/s/core | CPU share | records per CPU s | p50 ms | p99 ms "
    "| checkpoints | memory MiB |",
    "|---|---:|---:|---:|---:|---:|---:|---:|",
)


def command(cell: str, seconds: float) -> list[str]:
    return ["bench", *cell.split(), "--seconds", f"{seconds:g}"]


RATIOS = (
    "| command | records/s | records per CPU s | p50 | p99 | CPU shares |",
    "|---|---:|---:|---:|---:|---:|",
)


def measure(rheos: Path, cell: str, seconds: float) -> dict[str, Any]:
    """Return the measurements of one run. Raises CalledProcessError."""
    done = subprocess.run(
        [rheos, *command(cell, seconds), "--json"], stdout=subprocess.PIPE, text=True, check=True
    )
    measurements: dict[str, Any] = json.loads(done.stdout)
    return measurements


Metric = Callable[[dict[str, Any]], float | None]


def row(command: str, runs: Sequence[dict[str, Any]]) -> str:
    """Return a line of the table."""

    def of(metric: Metric, form: Callable[[float], str]) -> str:
        known = [value for run in runs if is_quiet(run) and (value := metric(run)) is not None]
        return cell(known, form)

    cells = [
        f"`{command}`",
        of(lambda run: run["records_per_s_per_core"], "{:,.0f}".format),
        of(lambda run: run["cpu_share"], "{:.0%}".format),
        of(_per_cpu_s, "{:,.0f}".format),
        of(lambda run: run["latency_ms"]["p50"], "{:.2f}".format),
        of(lambda run: run["latency_ms"]["p99"], "{:.2f}".format),
        of(lambda run: run["checkpoints_completed"], "{:g}".format),
        of(lambda run: run["rss_mib"]["end"], "{:.0f}".format),
    ]
    return f"| {' | '.join(cells)} |"


def ratios(command: str, ours: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> str:
    """Return a line of the table that compares: ratios of the rounds in which both runs were quiet."""
    pairs = [(a, b) for a, b in zip(ours, others, strict=True) if is_quiet(a) and is_quiet(b)]

    def of(metric: Metric) -> str:
        return ratio_cell([(metric(a) or 0.0, metric(b) or 0.0) for a, b in pairs])

    shares = [
        cell([run["cpu_share"] for run in runs if is_quiet(run)], "{:.0%}".format)
        for runs in (ours, others)
    ]
    cells = [
        f"`{command}`",
        of(lambda run: run["records_per_s_per_core"]),
        of(_per_cpu_s),
        of(lambda run: run["latency_ms"]["p50"]),
        of(lambda run: run["latency_ms"]["p99"]),
        ", ".join(shares),
    ]
    return f"| {' | '.join(cells)} |"


def _per_cpu_s(run: dict[str, Any]) -> float:
    share = run["cpu_share"]
    return float(run["records_per_s_per_core"] / share) if share else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="benchmarks, such as: grep latency")
    parser.add_argument("--raw", type=Path, help="a file that each run's JSON object is added to")
    parser.add_argument("--against", type=Path, metavar="RHEOS", help="the command of another version")
    given = parser.parse_args()
    cells = [
        name
        for name in CELLS
        if given.only is None or name.split()[0] in given.only or name in given.only
    ]
    if not cells or given.rounds < 1:
        parser.error("there is nothing to run")
    sides = [RHEOS, *([given.against] if given.against else [])]
    runs: dict[tuple[Path, str], list[dict[str, Any]]] = {(s, c): [] for s in sides for c in cells}
    quiet = QuietRuns(os.cpu_count() or 1)
    for round_ in range(given.rounds):
        for name in cells:
            print(f"round {round_ + 1} of {given.rounds}: {name}", file=sys.stderr)
            for side in sides if round_ % 2 == 0 else reversed(sides):
                try:
                    measurements = quiet(partial(measure, side, name, given.seconds))
                except subprocess.CalledProcessError as error:
                    sys.exit(f"{side} bench {name} failed with exit code {error.returncode}")
                runs[side, name].append(measurements)
                if given.raw is not None:
                    with given.raw.open("a") as raw:
                        made = {"rheos": str(side), "cell": name, "round": round_ + 1, **measurements}
                        raw.write(json.dumps(made) + "\n")
    print(*(RATIOS if given.against else HEADER), sep="\n")
    for name in cells:
        line = f"rheos {' '.join(command(name, given.seconds))}"
        if given.against:
            print(ratios(line, *(runs[side, name] for side in sides)))
        else:
            print(row(line, runs[sides[0], name]))
    if said := summary([run for of in runs.values() for run in of]):
        print(f"\n{said}")


if __name__ == "__main__":
    main()
