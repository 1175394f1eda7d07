"""Appending to a table of a SQL database: the sink's writer and committer, compared with the driver
alone.

Both write the same rows as transactions of equal size, in one process, alternating, each to its own
table. Both begin with Arrow tables. The driver's rows are converted to tuples by Polars, and passed to
`executemany` five thousand at a time.

columns:
    appended    thousands of rows per second of wall time, median of the rounds
    ratio       the sink's rate divided by the driver's, median of the rounds

usage: python -m benchmarks.sql_database_sink [--url sqlite:////tmp/x.db] [--rows 100000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import rheos as rh
from rheos.connectors.sql_database.address import DatabaseAddress, DatabaseSystem
from rheos.connectors.sql_database.statements import PUT_ROWS
from rheos.core.connectors.contract import SinkContext
from rheos.core.connectors.sink_capabilities import own_committer, prepared, staged_sink
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId

BATCH = 8_192
SEED = 7


def rows_of(count: int, seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    shops = np.char.add("shop ", draw.integers(0, 50, count).astype(str))
    return pa.table(
        {"k": draw.permutation(count), "shop": pa.array(shops), "total": draw.random(count)}
    )


class SinkOfTable:
    """The sink's writer and its committer, without a job."""

    def __init__(self, url: str, folder: str, schema: pa.Schema) -> None:
        sink = prepared(rh.sql_database.sink("ours", url=url), schema, ("job", "table"))
        # The writer uses neither the clock nor the I/O executor.
        other: Any = SimpleNamespace()
        ctx = SinkContext(JobId("job"), Attempt(1), "table", 0, other, other, schema)
        self._writer: Any = staged_sink(sink, folder).open(ctx)
        self._committer: Any = own_committer(self._writer)
        self._checkpoint = 0

    def write(self, rows: pa.Table) -> None:
        self._checkpoint += 1
        for batch in rows.to_batches(BATCH):
            self._writer.write(batch)
        self._committer.commit(self._writer.prepare(CheckpointId(self._checkpoint)))

    def close(self) -> None:
        self._writer.close()


class DriverAlone:
    """One connection of the driver, and its `executemany`."""

    def __init__(self, address: DatabaseAddress) -> None:
        self._connection = address.connected()
        kinds = "k bigint, shop text, total double precision"
        self._connection.exec_driver_sql(f"CREATE TABLE theirs ({kinds})")
        self._connection.commit()
        self._raw = self._connection.connection.driver_connection
        mark = "?" if address.backend is DatabaseSystem.SQLITE else "%s"
        self._insert = f"INSERT INTO theirs (k, shop, total) VALUES ({mark}, {mark}, {mark})"

    def write(self, table: pa.Table) -> None:
        rows = pl.DataFrame(table).rows()
        cursor = self._raw.cursor()
        for begin in range(0, len(rows), PUT_ROWS):
            cursor.executemany(self._insert, rows[begin : begin + PUT_ROWS])
        self._raw.commit()


def seconds(write: Callable[[Any], None], rows: Any) -> float:
    began = time.perf_counter()
    write(rows)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--url", help="an empty database; by default a new file of SQLite")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    data = [rows_of(arguments.rows, SEED + n) for n in range(arguments.rounds + 1)]
    with tempfile.TemporaryDirectory() as folder:
        address = DatabaseAddress.of(arguments.url or f"sqlite:///{folder}/bench.db")
        ours = SinkOfTable(address.url, f"{folder}/staged", data[0].schema)
        theirs = DriverAlone(address)
        pairs = [(seconds(ours.write, rows), seconds(theirs.write, rows)) for rows in data]
        ours.close()
    # The first round warms up.
    sink, driver = (
        arguments.rows / statistics.median(each) / 1000 for each in zip(*pairs[1:], strict=True)
    )
    ratio = statistics.median(b / a for a, b in pairs[1:])
    print(f"appended   sink {sink:8.0f}   driver {driver:8.0f}   ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
