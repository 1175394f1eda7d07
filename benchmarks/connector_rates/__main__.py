"""Rates of connectors, compared with their client libraries alone.

Both move the same records within one process, in turns, against one server on this machine. A source is
read by one reader per split, and a sink is written by one writer and its committer, without a job. So
the rates are those of the connectors. The processor time is that of this process and of the server.

usage: python -m benchmarks.connector_rates [NAME ...] [--records 50000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.connector_rates import brokers, databases, tables
from benchmarks.connector_rates.measuring import Comparison, compare
from rheos.cli.benchmarks.intervals import MIN_ROUNDS

CASES = {**brokers.CASES, **databases.CASES, **tables.CASES}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"by default all: {', '.join(CASES)}")
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    given = parser.parse_args()
    print(Comparison.HEADER, flush=True)
    for name in given.names or CASES:
        with (
            tempfile.TemporaryDirectory() as folder,
            CASES[name](given.records, Path(folder)) as cases,
        ):
            for case in cases:
                print(compare(case, given.rounds).row(), flush=True)


if __name__ == "__main__":
    main()
