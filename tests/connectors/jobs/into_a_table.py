"""A job that writes to tables, and a driver that may die before it publishes.

    python into_a_table.py KIND MASTER FOLDER TARGET ROWS DIE_AT

KIND is "parquet", for one table of Spark, or "delta" or "iceberg", for two tables in the folder TARGET,
of the rows and of their number by `k`. Before publication number DIE_AT the driver is killed,
between the log's entry and the table; 0 is never. Workers leave their process ids in FOLDER/pids.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rheos as rh
from rheos.connectors.delta.committer import DeltaTableCommitter
from rheos.connectors.iceberg.committer import IcebergTableCommitter
from rheos.connectors.spark.table_publishing import ParquetCommitter

COMMITTERS: dict[str, Any] = {
    "parquet": ParquetCommitter,
    "delta": DeltaTableCommitter,
    "iceberg": IcebergTableCommitter,
}

RATES = {"parquet": 800, "delta": 800, "iceberg": 100}
"""Rows per second: the first commit to a catalog takes seconds, and rows must be left for the second
run."""


def sink_of(kind: str, target: str, name: str, **settings: Any) -> Any:
    """Return the sink of one of two tables."""
    if kind == "delta":
        return rh.delta.sink(f"{target}/{name}", **settings)
    lake = {"type": "sql", "uri": f"sqlite:///{target}/catalog.db", "warehouse": target}
    return rh.iceberg.sink(f"shop.{name}", catalog=lake, **settings)


def numbered(block: Any, pids: Path) -> dict[str, Any]:
    (pids / str(os.getpid())).touch()
    return {"n": block.index(), "k": block.index() % 3}


def dies_at(committer: Any, number: int) -> None:
    """Wrap the publication, which only the driver calls, for each sink and checkpoint with rows."""
    right, calls = committer.commit, []

    def commit(self: Any, committables: Sequence[bytes]) -> None:
        calls.append(committables)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        right(self, committables)

    committer.commit = commit


def main(kind: str, master: str, folder: str, target: str, rows: str, die_at: str) -> None:
    dies_at(COMMITTERS[kind], int(die_at))
    pids = Path(folder) / "pids"
    pids.mkdir(exist_ok=True)
    env = rh.Environment(
        2,
        runtime="continuous",
        master=master,
        checkpoint_dir=f"{folder}/checkpoints",
        checkpoint_interval="400ms",
    )
    source = rh.generator(
        lambda block: numbered(block, pids), count=int(rows), rate_per_s=RATES[kind], splits=2
    )
    numbers = env.from_source(source)
    if kind == "parquet":
        numbers.sink_to(rh.tables.sink(target, partition_by=["k"]))
    else:
        numbers.sink_to(sink_of(kind, target, "rows", partition_by=["k"]), name="rows")
        totals = numbers.key_by("k").table(n=rh.agg.count())
        totals.sink_to(sink_of(kind, target, "totals"), name="totals")
    env.execute("rows into a table")


if __name__ == "__main__":
    main(*sys.argv[1:])
