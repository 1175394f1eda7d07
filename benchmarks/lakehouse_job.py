"""The job of `lakehouse.py`: it follows the orders of a database into tables of Iceberg and Delta.

usage: SHOP=mysql://... python -m benchmarks.lakehouse_job FOLDER
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import rheos as rh
from benchmarks.lakehouse_orders import into_a_lakehouse
from rheos.core.connectors.contract import Source


def orders(url: str) -> Source:
    """Return the source. If the database is away, try again until it is back, as a supervisor would."""
    while True:
        try:
            return rh.mysql.changes("orders", url=url)
        except rh.UnavailableError:
            time.sleep(1)


def main(folder: Path) -> None:
    env = rh.Environment(
        2,
        runtime="continuous",
        checkpoint_interval="2s",
        checkpoint_dir=str(folder / "checkpoints"),
        restart=rh.restart.fixed_delay(1_000, delay="1s"),
    )
    into_a_lakehouse(env.from_source(orders(os.environ["SHOP"]), uid="orders"), folder)
    env.execute("orders into a lakehouse")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
