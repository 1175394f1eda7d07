"""`python -m benchmarks.nexmark [q0 q1 ...] | check | page`, from the root of the repository."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.nexmark import measure
from benchmarks.nexmark.queries import QUERIES
from benchmarks.paper.experiment import Experiment, Options, load, result_path, run, save
from benchmarks.paper.page import ROOT, rewrite
from rheos.cli.benchmarks.intervals import MIN_ROUNDS

NAME = "nexmark"
PAGE = ROOT / "docs" / "nexmark.md"
RESULTS = Path(__file__).with_name("results")

CHECKED_EVENTS = 20_000
CHECKED_PER_SECOND = 100
"""Ten milliseconds apart: no two events are of one time, where SQL leaves the order open."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nexmark",
        description="The queries of Nexmark: events a second and core, or what they find.",
        epilog="\n".join(f"{name:4} {query.about}" for name, query in QUERIES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="*", metavar="QUERY|check|page", help="all queries if left out")
    parser.add_argument("--events", type=int, help="of each run, or of the check")
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS, help="how often each query is run")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="subtasks")
    parser.add_argument("--runtime", default="simulated", help="of the check")
    parser.add_argument("--json", type=Path, help="the file of the results")
    given = parser.parse_args()
    command = given.what[0] if given.what and given.what[0] in ("check", "page") else None
    names = given.what[1 if command else 0 :] or list(QUERIES)
    if unknown := [name for name in names if name not in QUERIES]:
        parser.error(f"there is no query {unknown[0]}")
    # The workers find these modules, too.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if command == "page":
        shown = ", ".join(rewrite([experiment()], RESULTS, PAGE, footnote))
        print(f"{PAGE}: {shown or 'there are no results'}")
    elif command == "check":
        sys.exit(_check(names, given.events or CHECKED_EVENTS, given.runtime))
    else:
        # Results of all queries are those of the page.
        path = given.json or (None if given.what else result_path(NAME, folder=RESULTS))
        _measure(names, given.events or 4_000_000, given.cores, given.rounds, path)


def _measure(names: list[str], events: int, cores: int, rounds: int, path: Path | None) -> None:
    result = run(experiment(names, events, cores), Options(seconds=0, rounds=rounds, quick=False))
    print(measure.show(result["results"]))
    print(f"\n{footnote(result)}")
    if path is not None:
        save(result, path)
        assert load(path) == result


def experiment(names: Sequence[str] = (), events: int = 0, cores: int = 0) -> Experiment:
    return Experiment(
        NAME, "the queries", lambda given: measure.run(names, events, cores, given), measure.show
    )


def _check(names: list[str], events: int, runtime: str) -> int:
    """Gives how many queries find other rows than DuckDB."""
    from benchmarks.nexmark.check import check, found_by_duckdb, found_by_rheos

    queries = [QUERIES[name] for name in names]
    for query in queries:
        if query.sql is None:
            print(f"{query.name:4} {query.about}: its rows depend on the clock", flush=True)
    expected = found_by_duckdb(queries, events, CHECKED_PER_SECOND)
    began = time.monotonic()
    found = found_by_rheos(queries, events, CHECKED_PER_SECOND, runtime=runtime)
    wrong = 0
    for name in expected:
        try:
            print(f"{name:4} {QUERIES[name].about}: {check(name, found, expected):,} rows are the same")
        except AssertionError as error:
            wrong += 1
            print(f"{name:4} {QUERIES[name].about}: DIFFERS. {error}")
    print(f"{events:,} events, {runtime}: {time.monotonic() - began:.1f} s")
    return wrong


def footnote(result: dict[str, Any]) -> str:
    """How it was run, and on what."""
    machine, results, rounds = result["machine"], result["results"], result["options"]["rounds"]
    return (
        f"`python -m benchmarks.nexmark --events {results['events']} --rounds {rounds}`: "
        f"{result['took_s']} s in all, on {results['cores']} of {machine['cores']} cores; "
        f"{machine['memory_gib']} GiB, Python {machine['python']}, PySpark "
        f"{machine['versions']['pyspark']}."
    )


if __name__ == "__main__":
    main()
