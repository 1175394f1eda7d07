"""Reading a few rows of a Delta or Iceberg table: a filter that skips files, compared with reading all.

The table has files of equal size, ordered by the column of the filter. Both ways read the same rows in
one process, alternating; one source does not know the filter.

columns:
    read, of    files of which rows were read, and files that the table has
    ms          processor time in milliseconds, median of the rounds
    ratio       processor time of reading all files divided by that, median of the rounds

usage: python -m benchmarks.table_scan [--files 100] [--rows 50000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
import pyarrow as pa
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

import rheos as rh
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import EndOfSplit, ReaderContext, Source
from rheos.runtimes.host.io import InlineIo, SystemClock


def read(source: Source, condition: pl.Expr) -> tuple[int, int, float]:
    """Read a source. Returns the number of files with rows, of rows that pass, and the time in ms."""
    ctx = ReaderContext(
        SystemClock(), InlineIo(), lambda name, by: None, lambda rows: None, lambda: None
    )
    splits = source.splits()
    began = time.process_time()
    files = passing = 0
    for split in splits:
        reader = source.open(split, None, ctx)
        rows = 0
        while not isinstance(polled := reader.poll(65_536), EndOfSplit):
            if isinstance(polled, pa.RecordBatch):
                rows += polled.num_rows
                found = pl.DataFrame(pl.from_arrow(polled)).filter(condition)
                passing += found.height
        reader.close()
        files += rows > 0
    return files, passing, (time.process_time() - began) * 1000


def compare(name: str, source: Any, condition: pl.Expr, rounds: int) -> None:
    """Print a line of the table of results."""
    skips = capabilities.skipping(source, condition)
    there, times, ratios = len(source.splits()), [], []
    files = 0
    for _ in range(rounds):
        _, expected, all_ms = read(source, condition)
        files, passing, some_ms = read(skips, condition)
        assert passing == expected, f"{passing} rows instead of {expected}"
        times.append(some_ms)
        ratios.append(all_ms / some_ms)
    print(f"{name:8} {files:5} {there:5} {median(times):9.1f} {median(ratios):7.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        catalog = {"type": "sql", "uri": f"sqlite:///{at}/catalog.db", "warehouse": str(at / "lake")}
        lake = load_catalog("default", **catalog)
        lake.create_namespace("shop")
        for number in range(given.files):
            first = number * given.rows
            n = pa.array(range(first, first + given.rows))
            rows = pa.table({"n": n, "k": n.cast(pa.string()), "x": n.cast(pa.float64())})
            write_deltalake(at / "delta", rows, mode="append")
            if not number:
                lake.create_table("shop.rows", rows.schema)
            lake.load_table("shop.rows").append(rows)
        condition = pl.col("n") >= given.rows * (given.files - 3)
        print(f"{'table':8} {'read':>5} {'of':>5} {'ms':>9} {'ratio':>7}")
        compare("delta", rh.delta.source(at / "delta"), condition, given.rounds)
        compare("iceberg", rh.iceberg.source("shop.rows", catalog=catalog), condition, given.rounds)


if __name__ == "__main__":
    main()
