"""Runs queries of Nexmark in Rheos one after the other on one Spark session: one per line of the input.

usage: python -m benchmarks.peers.rheos_nexmark

A line is that of the program of Flink. Each is answered with a JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import rheos as rh
from benchmarks.nexmark import measure, sql
from benchmarks.nexmark.market import FOR_GOOD, Market
from benchmarks.nexmark.statements import rheos_statement


def stream_of(name: str, env: rh.Environment) -> rh.DataStream:
    """Return the stream of a statement that both systems run, over registered tables."""
    return env.sql(rheos_statement(name), state_ttl=FOR_GOOD)


def measurements(arguments: list[str]) -> dict[str, Any]:
    """Make one run. Raises the errors of its job."""
    parser = argparse.ArgumentParser(prog="a line of the input")
    parser.add_argument("kind", choices=["nexmark"])
    parser.add_argument("--query", required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--warm-up", type=int, default=0)
    parser.add_argument("--parallelism", type=int, required=True)
    given, _ = parser.parse_known_args(arguments)

    def build(env: rh.Environment, house: Market) -> rh.DataStream:
        sql.registered(env, house)
        return stream_of(given.query, env)

    run = measure.measured(
        given.query,
        build,
        given.events,
        given.parallelism,
        warm_up=given.warm_up,
    )
    return {
        "records_per_s": run["events_per_s"],
        "cores": run["busy_cores"],
        "processor_us_per_record": 1e6 / run["events_per_core_s"],
        "seconds": run["seconds"],
    }


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(measurements(line.split())), flush=True)


if __name__ == "__main__":
    main()
