"""Cost of reading a view, keyed state and features: processor time of the process that reads.

A job counts rows by key into a view, and ends. It also has features of each key, and an operator with
running aggregates. Then its last checkpoint is read: rows by their keys, in turns, and pages of a scan.
The driver of a running job reads in the same way. Workers take no part in a read. The first look-up
reads the files of its subtask from the store. Later ones find them in memory, as with a running job
until the next checkpoint.

With --rest, a server in the same process answers the same reads by REST, without TLS. Their processor
time includes that of the server and of the client. "1,000 keys" reads the features of 1,000 keys at
once; by REST the keys are posted.

columns:
    first, ms   processor time of the first look-up, which reads files and loads modules
    p50, ms     median of the others
    p99, ms     99th percentile of the others
    core        share of a core for 100 look-ups per second

usage: python -m benchmarks.view_reads [--keys 100000] [--rest]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import rheos as rh

READS = 200
PAGES = 10
MANY = 1_000
SEED = 5
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def run(keys: int) -> Any:
    """Run a job whose view, features and state have one row for each key. Return its handle."""
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


@contextmanager
def served(job: Any) -> Iterator[Any]:
    """Serve the stored checkpoints of the job. Yield the reader over REST."""
    from rheos.ops.dashboard.serving import DashboardConfig, DashboardServer
    from rheos.runtimes.host.stores import open_store

    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"{folder}/kept")
        for path, data in job.world.store.files.items():
            store.put(path, data)
        tokens = Path(folder, "tokens.toml")
        tokens.touch(0o600)
        tokens.write_text('[reader]\nrole = "read"\ntoken = "a token of the benchmark"\n')
        config = DashboardConfig(
            port=0,
            directories=[f"{folder}/kept"],
            tokens=tokens,
            audit=Path(folder, "audit.jsonl"),
        )
        server = DashboardServer(config)
        try:
            yield rh.query(server.url, job.status().job, token="a token of the benchmark")
        finally:
            server.close()


def reads_of(job: Any, keys: int, name: str = "") -> dict[str, Callable[[int], object]]:
    """Return the reads of one key, and one of many keys, by their names with `name` at the end."""
    features = job.features("latest")
    return {
        f"row of a view{name}": job.view("v").get,
        f"keyed state{name}": job.state("sums").get,
        f"features{name}": lambda key: features.get(key, at=BEGIN),
        f"features of {MANY:,} keys{name}": lambda key: features.get_many(
            [(key + each) % keys for each in range(MANY)], at=BEGIN
        ),
    }


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
    parser.add_argument("--rest", action="store_true")
    arguments = parser.parse_args()
    handle = run(arguments.keys)
    if arguments.rest:
        with served(handle) as far:
            measure(rh.query(handle), arguments.keys, far)
    else:
        measure(rh.query(handle), arguments.keys, None)


def measure(job: Any, keys: int, far: Any | None) -> None:
    """Measure the reads of the job, and over REST if `far` reads it there. Print the table."""
    draw = Random(SEED)
    reads = reads_of(job, keys)
    if far is not None:
        reads |= reads_of(far, keys, " by REST")
    chosen = [draw.randrange(keys) for _ in range(READS)]
    costs: dict[str, list[float]] = {name: [] for name in reads}
    for key in chosen:
        for name, read in reads.items():
            costs[name] += cost_ms(read, [key])
    view = job.view("v")
    costs["page of 10,000 rows"] = cost_ms(lambda _: view.scan(limit=10_000), chosen[:PAGES])
    print(f"| {keys:,} keys | first, ms | p50, ms | p99, ms | core |")
    print("|---|---:|---:|---:|---:|")
    for name, (first, *others) in costs.items():
        p50, p99 = (float(np.percentile(others, each)) for each in (50, 99))
        print(f"| {name} | {first:.1f} | {p50:.2f} | {p99:.2f} | {p50 / 10:.1%} |")


if __name__ == "__main__":
    main()
