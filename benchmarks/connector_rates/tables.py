"""Tables of Delta Lake and Iceberg, and files: commits of equal size, of rows of three columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import rheos as rh
from benchmarks.connector_rates.driving import WrittenSink, read
from benchmarks.connector_rates.measuring import Case
from benchmarks.connector_rates.rows import rows_of

_TIMES = 10
"""Number of rows for each record of other connectors: a commit costs as much as many rows."""


@contextmanager
def delta(records: int, folder: Path) -> Iterator[list[Case]]:
    """Append rows, and upsert a tenth of them."""
    from deltalake import DeltaTable, write_deltalake

    rows = rows_of(records * _TIMES)
    changes = rows.slice(0, rows.num_rows // 10)
    for name in ("upserts", "merges"):
        write_deltalake(folder / name, rows)

    def merge() -> None:
        merging = DeltaTable(folder / "merges").merge(
            changes, "t.k = s.k", source_alias="s", target_alias="t"
        )
        merging.when_matched_update_all().when_not_matched_insert_all().execute()

    appends = WrittenSink(rh.delta.sink(folder / "ours"), rows.schema, folder / "staged")
    upserts = WrittenSink(rh.delta.sink(folder / "upserts", key="k"), rows.schema, folder / "staged2")
    yield [
        Case(
            "`delta` sink",
            "deltalake",
            rows.num_rows,
            lambda: appends.write(rows),
            lambda: write_deltalake(folder / "theirs", rows, mode="append"),
        ),
        Case(
            "`delta` sink, upserts",
            "deltalake, `MERGE`",
            changes.num_rows,
            lambda: upserts.write(changes),
            merge,
        ),
    ]


@contextmanager
def iceberg(records: int, folder: Path) -> Iterator[list[Case]]:
    """Append rows, and upsert a tenth of them."""
    from pyiceberg.catalog import load_catalog

    rows = rows_of(records * _TIMES)
    changes = rows.slice(0, rows.num_rows // 10)
    lake = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder)}
    catalog = load_catalog("default", **lake)
    catalog.create_namespace("shop")
    names = ("ours", "theirs", "upserts", "upserted")
    tables = {name: catalog.create_table(f"shop.{name}", rows.schema) for name in names}

    def append(table: Any) -> None:
        table.refresh()
        table.append(rows)

    def upsert(table: Any) -> None:
        table.refresh()
        table.upsert(changes, join_cols=["k"])

    for name in ("upserts", "upserted"):
        append(tables[name])
    appends = WrittenSink(rh.iceberg.sink("shop.ours", catalog=lake), rows.schema, folder / "staged")
    upserts = WrittenSink(
        rh.iceberg.sink("shop.upserts", catalog=lake, key="k"), rows.schema, folder / "staged2"
    )
    yield [
        Case(
            "`iceberg` sink",
            "pyiceberg",
            rows.num_rows,
            lambda: appends.write(rows),
            lambda: append(tables["theirs"]),
        ),
        Case(
            "`iceberg` sink, upserts",
            "pyiceberg, `upsert`",
            changes.num_rows,
            lambda: upserts.write(changes),
            lambda: upsert(tables["upserted"]),
        ),
    ]


@contextmanager
def files(records: int, folder: Path) -> Iterator[list[Case]]:
    """Read a file of Parquet, and write one."""
    rows = rows_of(records * _TIMES)
    (folder / "read").mkdir()
    pq.write_table(rows, folder / "read" / "rows.parquet", row_group_size=100_000)
    source = rh.files.source(str(folder / "read"), format="parquet", schema=rows.schema)
    written = WrittenSink(rh.files.sink(folder / "ours", mode="append"), rows.schema, folder / "staged")
    numbers = count()

    def take() -> None:
        file = pq.ParquetFile(folder / "read" / "rows.parquet")
        assert sum(batch.num_rows for batch in file.iter_batches()) == rows.num_rows

    def write() -> None:
        pq.write_table(pa.table(rows), folder / f"theirs-{next(numbers)}.parquet")

    yield [
        Case(
            "`files` source, Parquet",
            "pyarrow",
            rows.num_rows,
            lambda: read(source, rows.num_rows),
            take,
        ),
        Case("`files` sink, Parquet", "pyarrow", rows.num_rows, lambda: written.write(rows), write),
    ]


CASES = {"delta": delta, "iceberg": iceberg, "files": files}
"""Cases of each kind of table, by its name."""
