"""Runs benchmarks of Rheos one after the other on one Spark session: one per line of the input.

usage: python -m benchmarks.peers.rheos_side SLOTS

A line is what `rheos bench` takes. Each is answered with the JSON object that `rheos bench` prints.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rheos.cli.benchmarks.driver import BenchSettings, run
from rheos.cli.benchmarks.programs import PROGRAMS
from rheos.cli.benchmarks.report import as_json


def measurements(arguments: list[str]) -> dict[str, Any]:
    """Make one run. Raises the errors of its job."""
    parser = argparse.ArgumentParser(prog="a line of the input")
    parser.add_argument("name", choices=list(PROGRAMS))
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--buffer-timeout", default="10ms")
    parser.add_argument("--keys", type=int)
    parser.add_argument("--warmup", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args(arguments)
    settings = BenchSettings(
        given.parallelism,
        given.seconds,
        given.warmup,
        given.keys,
        given.rate,
        given.buffer_timeout,
    )
    return as_json(run(PROGRAMS[given.name], settings, lambda phase: None))


def main() -> None:
    # The session has as many slots as its first job.
    measurements(["grouping", "--parallelism", sys.argv[1], "--rate", "1000", "--seconds", "1"])
    for line in sys.stdin:
        print(json.dumps(measurements(line.split())), flush=True)


if __name__ == "__main__":
    main()
