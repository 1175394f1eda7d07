"""A job that writes to a Parquet table, and a driver that may die before it publishes.

    python into_a_table.py MASTER FOLDER TARGET ROWS DIE_AT

At the publication of number DIE_AT the driver is killed, between the log's entry and the table; 0 is
never. Workers leave their process ids in FOLDER/pids.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rheos as rh
from rheos.connectors.spark.table_publishing import ParquetCommitter


def numbered(block: Any, pids: Path) -> dict[str, Any]:
    (pids / str(os.getpid())).touch()
    return {"n": block.index(), "k": block.index() % 3}


def dies_at(number: int) -> None:
    """Wrap the publication, which only the driver calls, once for each checkpoint with rows."""
    right, calls = ParquetCommitter.commit, []

    def commit(self: ParquetCommitter, committables: Sequence[bytes]) -> None:
        calls.append(committables)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        right(self, committables)

    ParquetCommitter.commit = commit  # type: ignore[method-assign]


def main(master: str, folder: str, target: str, rows: str, die_at: str) -> None:
    dies_at(int(die_at))
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
        lambda block: numbered(block, pids), count=int(rows), rate_per_s=800, splits=2
    )
    env.from_source(source).sink_to(rh.tables.sink(target, partition_by=["k"]))
    env.execute("rows into a table")


if __name__ == "__main__":
    main(*sys.argv[1:])
