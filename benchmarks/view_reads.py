"""Cost of reading a view, keyed state and features: processor time of the process that reads.

A job counts rows by key into a view, and ends. It also has features of each key, and an operator with
running aggregates. Then its last checkpoint is read: rows by their keys, in turns, and pages of a scan.
The driver of a running job reads in the same way. Workers take no part in a read. The first look-up
reads the files of its subtask from the store. Later ones find them in memory, as with a running job
until the next checkpoint.

columns:
    first, ms   processor time of the first look-up, which reads files and loads modules
    p50, ms     median of the others
    p99, ms     99th percentile of the others
    core        share of a core for 100 look-ups per second

usage: python -m benchmarks.view_reads [--keys 100000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

import numpy as np
import pyarrow as pa

import rheos as rh

READS = 200
PAGES = 10
SEED = 5
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def run(keys: int) -> rh.JobHandle:
    """Run a job whose view, features and state have one row for each key."""
    table = pa.table({"k": list(range(keys)), "v": [1] * keys, "at": [BEGIN] * keys})
    env = rh.Environment(runtime="simulated", parallelism=2)
    rows = env.from_source(rh.collection(table), rh.Watermark.monotonic(on="at"))
    env.register("t", rows)
    env.sql_script(
        "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, SUM(v) AS v FROM t GROUP BY k"
    )
    rh.ml.features("latest", rows, "k", columns=["v"], max_age="1h", defaults={"v": 0}).publish()
    sums = rows.key_by("k").running(n=rh.agg.count(), v=rh.agg.sum("v")).uid("sums")
    sums.sink_to(rh.collect_sink())
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
    job = rh.query(run(arguments.keys))
    reads: dict[str, Callable[[int], object]] = {
        "row of a view": job.view("v").get,
        "keyed state": job.state("sums").get,
        "features": lambda key: job.features("latest").get(key, at=BEGIN),
    }
    chosen = [draw.randrange(arguments.keys) for _ in range(READS)]
    costs: dict[str, list[float]] = {name: [] for name in reads}
    for key in chosen:
        for name, read in reads.items():
            costs[name] += cost_ms(read, [key])
    view = job.view("v")
    costs["page of 10,000 rows"] = cost_ms(lambda _: view.scan(limit=10_000), chosen[:PAGES])
    print(f"| {arguments.keys:,} keys | first, ms | p50, ms | p99, ms | core |")
    print("|---|---:|---:|---:|---:|")
    for name, (first, *others) in costs.items():
        p50, p99 = (float(np.percentile(others, each)) for each in (50, 99))
        print(f"| {name} | {first:.1f} | {p50:.2f} | {p99:.2f} | {p50 / 10:.1%} |")


if __name__ == "__main__":
    main()
