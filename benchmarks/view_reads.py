"""Cost of reading a materialized view: processor time of the process that reads.

A job counts rows by key into a view, and ends. Then its last checkpoint is read: rows by their keys,
and pages of a scan. The driver of a running job reads in the same way. Workers take no part in a read.
The first look-up reads the files of its subtask from the store. Later ones find them in memory, as
with a running job until the next checkpoint.

columns:
    ms          processor time of one read, median
    core        share of a core for 100 reads per second

usage: python -m benchmarks.view_reads [--keys 100000]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from random import Random

import pyarrow as pa

import rheos as rh

READS = 200
PAGES = 10
SEED = 5


def run(keys: int) -> rh.JobHandle:
    """Run a job whose view has one row for each key."""
    table = pa.table({"k": list(range(keys)), "v": [1] * keys})
    env = rh.Environment(runtime="simulated", parallelism=2)
    env.register("t", env.from_source(rh.collection(table)))
    env.sql_script(
        "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, SUM(v) AS v FROM t GROUP BY k"
    )
    handle = env.execute_async("views")
    handle.wait()
    return handle


def cost_ms(read: Callable[[int], object], keys: list[int]) -> list[float]:
    """Return the processor time of each read."""
    found = []
    for key in keys:
        began = time.process_time_ns()
        read(key)
        found.append((time.process_time_ns() - began) / 1e6)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    arguments = parser.parse_args()
    draw = Random(SEED)
    view = rh.query(run(arguments.keys)).view("v")
    chosen = [draw.randrange(arguments.keys) for _ in range(READS)]
    first, *others = cost_ms(view.get, chosen)
    scans = cost_ms(lambda _: view.scan(limit=10_000), chosen[:PAGES])
    print(f"{arguments.keys:,} keys     {'ms':>8} {'core':>8}")
    for name, costs in (
        ("first look-up", [first]),
        ("look-up of a key", others),
        ("page of 10,000 rows", scans),
    ):
        ms = statistics.median(costs)
        print(f"{name:20} {ms:8.2f} {ms / 10:8.1%}")


if __name__ == "__main__":
    main()
