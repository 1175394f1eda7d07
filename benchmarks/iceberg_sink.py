"""Writing an Iceberg table: the sink's writer and committer, compared with the client library alone.

Both write the same batches as commits of equal size, in one process, alternating. Each writes files of
its own table, in a catalog in SQLite. For upserts, the library's `upsert` is the rival.

columns:
    appended, upserted   thousands of rows per second of processor time, median of the rounds
    ratio                the sink's rate divided by the library's, median of the rounds

usage: python -m benchmarks.iceberg_sink [--rows 500000] [--rounds 5]
"""

from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog

import rheos as rh
from benchmarks.table_sink import SinkOfTable, compare, data_of_arguments


def upsert_rows(table: Any, rows: pa.Table) -> None:
    table.refresh()
    table.upsert(rows, join_cols=["k"])


def append_rows(table: Any, rows: pa.Table) -> None:
    table.refresh()
    table.append(rows)


def main() -> None:
    data = data_of_arguments(__doc__)
    schema = data.appended[0].schema
    with tempfile.TemporaryDirectory() as folder:
        lake = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder}
        catalog = load_catalog("default", **lake)
        catalog.create_namespace("shop")
        tables = {
            name: catalog.create_table(f"shop.{name}", schema)
            for name in ("ours", "theirs", "upserts", "upserted")
        }
        ours = SinkOfTable(rh.iceberg.sink("shop.ours", catalog=lake), schema)
        compare("appended", ours.write, lambda rows: append_rows(tables["theirs"], rows), data.appended)
        for name in ("upserts", "upserted"):
            append_rows(tables[name], data.appended[0])
        upserts = SinkOfTable(rh.iceberg.sink("shop.upserts", catalog=lake, key="k"), schema)
        compare(
            "upserted", upserts.write, lambda rows: upsert_rows(tables["upserted"], rows), data.changes
        )


if __name__ == "__main__":
    main()
