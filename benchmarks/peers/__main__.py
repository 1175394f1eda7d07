"""Rheos beside Flink: the same work on the same machine in turns, as a Markdown table.

usage: python -m benchmarks.peers [--rounds N] [--seconds S] [--only TEXT ...]

Each round runs every cell with Rheos and with Flink, one after the other, each in processes of its own;
they take turns at going first. Medians over the rounds, and in brackets the least and the largest. The
cores are those of all processes of the job: of Rheos the driver, Spark's JVM and the workers, of Flink
its one process. Between the runs naps of 100 µs show how long the machine itself holds a process up.

The programs of Flink are in `java/`: objects are reused, state is on the heap, and latencies are those
of every sixteenth row, from the moment in which it was due, or made where there is no rate.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.compare import RHEOS, measure, spread
from benchmarks.peers.flink import Flink
from benchmarks.peers.pauses import naps_ms

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
)

HEADER = (
    "| work | system | M records/s | cores | µs per record | p50 ms | p99 ms |",
    "|---|---|---:|---:|---:|---:|---:|",
)

_WARMUP = " --warmup 8"
"""Java compiles while it runs."""
_NAPS_S = 1.0

System = Callable[[str, float], dict[str, Any]]


def measurements(runs: Sequence[dict[str, Any]]) -> list[str]:
    """The columns of a row."""
    found: list[tuple[Callable[[dict[str, Any]], float | None], str]] = [
        (lambda run: run["records_per_s"] / 1e6, ".3f"),
        (lambda run: run["cores"], ".2f"),
        (lambda run: run["processor_us_per_record"], ".3f"),
        (lambda run: run["latency_ms"]["p50"], ".2f"),
        (lambda run: run["latency_ms"]["p99"], ".2f"),
    ]
    columns = [([read(run) for run in runs], form) for read, form in found]
    known = [([value for value in values if value is not None], form) for values, form in columns]
    return [spread(values, form) if values else "none" for values, form in known]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="only cells in which one of these is")
    given = parser.parse_args(argv)
    cells = [cell for cell in CELLS if not given.only or any(text in cell for text in given.only)]
    flink = Flink()
    systems: dict[str, System] = {
        "Rheos": lambda cell, seconds: measure(RHEOS, cell, seconds),
        "Flink": flink.measure,
    }
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    naps: list[float] = []
    try:
        for number in range(given.rounds):
            for cell in cells:
                for name in sorted(systems, reverse=number % 2 == 0):
                    naps += naps_ms(_NAPS_S)
                    run = systems[name](cell + _WARMUP, given.seconds)
                    runs.setdefault((cell, name), []).append(run)
                    print(f"round {number + 1}: {name} {cell}", file=sys.stderr, flush=True)
    finally:
        flink.close()
    print(*HEADER, sep="\n")
    for cell in cells:
        for name in systems:
            print(f"| `{cell}` | {name} | {' | '.join(measurements(runs[cell, name]))} |")
    naps.sort()
    shares = ", ".join(
        f"{share:.1%} {naps[int(share * len(naps)) - 1]:.2f} ms" for share in (0.5, 0.99, 0.999)
    )
    print(f"\nnaps of 0.1 ms took: {shares}, the longest {naps[-1]:.1f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])
