"""Runs the benchmarks of docs/benchmarks.md in turns, and prints the medians as a Markdown table.

usage: compare.py [--rounds N] [--seconds S] [--only NAME ...] [--raw FILE] [--against RHEOS]

Each round runs every cell once, one after the other: what else the machine does, and its heat, then
falls on all of them. A cell is a process of its own, and its command stands in the table. The spread is
the least and the largest of all rounds. At full load a CPU share well below 100 % says that the workers
did not have their cores for themselves: such a rate, and its latencies, are those of the neighbours and
should not be quoted. The rate per CPU second counts the workers' own time alone, and suffers less.

With `--against` each cell also runs with another `rheos`, of another version's virtual environment: the
two take turns at going first, and what is printed is the ratio of this one's medians to the other's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

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
    "| command | records/s/core | spread | CPU share | records per CPU s | p50 ms | p99 ms "
    "| checkpoints | memory MiB |",
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
)


def command(cell: str, seconds: float) -> list[str]:
    return ["bench", *cell.split(), "--seconds", f"{seconds:g}"]


RATIOS = (
    "| command | records/s | records per CPU s | p50 | p99 | CPU shares |",
    "|---|---:|---:|---:|---:|---:|",
)


def spread(values: Sequence[float], form: str) -> str:
    """The median, and in brackets the least and the largest."""
    return f"{median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def measure(rheos: Path, cell: str, seconds: float) -> dict[str, Any]:
    """Return the measurements of one run. Raises CalledProcessError."""
    done = subprocess.run(
        [rheos, *command(cell, seconds), "--json"], stdout=subprocess.PIPE, text=True, check=True
    )
    measurements: dict[str, Any] = json.loads(done.stdout)
    return measurements


def row(cell: str, seconds: float, runs: Sequence[dict[str, Any]]) -> str:
    """A line of the table."""
    rates = [run["records_per_s_per_core"] for run in runs]
    cells = [
        f"`rheos {' '.join(command(cell, seconds))}`",
        f"{median(rates):,.0f}",
        f"{min(rates):,} to {max(rates):,}",
        f"{median(run['cpu_share'] for run in runs):.0%}",
        f"{median(_per_cpu_s(run) for run in runs):,.0f}",
        _median_ms(run["latency_ms"]["p50"] for run in runs),
        _median_ms(run["latency_ms"]["p99"] for run in runs),
        f"{median(run['checkpoints_completed'] for run in runs):g}",
        f"{median(run['rss_mib']['end'] for run in runs):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def ratios(cell: str, seconds: float, ours: Sequence[dict[str, Any]], others: Sequence[Any]) -> str:
    """A line of the table that compares. In brackets the ratios of the least and the largest pair."""

    def of(metric: Callable[[dict[str, Any]], float | None]) -> str:
        a, b = [[metric(run) for run in runs] for runs in (ours, others)]
        pairs = sorted(x / y for x, y in zip(a, b, strict=True) if x and y)
        if not pairs:
            return ""
        ratio = median(x for x in a if x) / median(y for y in b if y)
        return f"{ratio:.2f} ({pairs[0]:.2f}, {pairs[-1]:.2f})"

    shares = [f"{median(run['cpu_share'] for run in runs):.0%}" for runs in (ours, others)]
    cells = [
        f"`rheos {' '.join(command(cell, seconds))}`",
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


def _median_ms(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{median(known):.2f}" if known else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="benchmarks, such as: grep latency")
    parser.add_argument("--raw", type=Path, help="a file that each run's JSON object is added to")
    parser.add_argument("--against", type=Path, metavar="RHEOS", help="the command of another version")
    given = parser.parse_args()
    cells = [
        cell
        for cell in CELLS
        if given.only is None or cell.split()[0] in given.only or cell in given.only
    ]
    if not cells or given.rounds < 1:
        parser.error("there is nothing to run")
    sides = [RHEOS, *([given.against] if given.against else [])]
    runs: dict[tuple[Path, str], list[dict[str, Any]]] = {(s, c): [] for s in sides for c in cells}
    for round_ in range(given.rounds):
        for cell in cells:
            print(f"round {round_ + 1} of {given.rounds}: {cell}", file=sys.stderr)
            for side in sides if round_ % 2 == 0 else reversed(sides):
                try:
                    measurements = measure(side, cell, given.seconds)
                except subprocess.CalledProcessError as error:
                    sys.exit(f"{side} bench {cell} failed with exit code {error.returncode}")
                runs[side, cell].append(measurements)
                if given.raw is not None:
                    with given.raw.open("a") as raw:
                        made = {"rheos": str(side), "cell": cell, "round": round_ + 1, **measurements}
                        raw.write(json.dumps(made) + "\n")
    print(*(RATIOS if given.against else HEADER), sep="\n")
    for cell in cells:
        if given.against:
            print(ratios(cell, given.seconds, *(runs[side, cell] for side in sides)))
        else:
            print(row(cell, given.seconds, runs[sides[0], cell]))


if __name__ == "__main__":
    main()
