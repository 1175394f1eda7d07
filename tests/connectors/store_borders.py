"""Borders of stores: a job writes a table of each, and a job or the store's own client reads it."""

from __future__ import annotations

import itertools
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import rheos as rh
from rheos.connectors.clickhouse.target_table import TableName, creation
from rheos.connectors.mongodb.documents import rows_of
from tests.connectors.mysql.databases import Database
from tests.connectors.type_borders import Border, of_table, read, write

_numbers = itertools.count()


def in_files() -> Mapping[str, Border]:
    """Return the borders of stores that need no server."""
    return {
        "DuckDB": of_table(
            lambda folder: rh.duckdb.sink("t", path=folder / "a.duckdb", key="n"),
            lambda folder: rh.duckdb.source("t", path=folder / "a.duckdb"),
        ),
        "SQLite": of_table(
            lambda folder: rh.sql_database.sink("t", url=f"sqlite:///{folder}/a.db", key="n"),
            lambda folder: rh.sql_database.source("t", url=f"sqlite:///{folder}/a.db"),
        ),
        "LanceDB": _of_lancedb,
    }


def _of_lancedb(rows: pa.Table) -> pa.Table:
    import lancedb

    with tempfile.TemporaryDirectory() as folder:
        write(rows, rh.lancedb.sink("t", uri=Path(folder), key="n"))
        return lancedb.connect(folder).open_table("t").to_arrow()


def of_sql_database(database: Database) -> Border:
    def border(rows: pa.Table) -> pa.Table:
        database.run("DROP TABLE IF EXISTS t")
        write(rows, rh.sql_database.sink("t", url=database.url, key="n"))
        return read(rh.sql_database.source("t", url=database.url))

    return border


def of_mongodb(url: str) -> Border:
    """Return the border of documents. A reader declares the types, so it declares those of the
    rows."""
    import pymongo

    def border(rows: pa.Table) -> pa.Table:
        name = f"types_{next(_numbers)}"
        write(rows, rh.mongodb.sink(name, url=url, id="n"))
        client: Any = pymongo.MongoClient(url, tz_aware=True)
        with client as server:
            found: list[Any] = [*server.get_default_database()[name].find()]
        return pa.Table.from_batches([rows_of(found, rows.schema, name)])

    return border


def of_clickhouse(url: str) -> Border:
    def asked(query: str) -> bytes:
        with urllib.request.urlopen(url, query.encode(), timeout=60) as answer:
            content: bytes = answer.read()
            return content

    def border(rows: pa.Table) -> pa.Table:
        name = f"default.types_{next(_numbers)}"
        rh.clickhouse.sink(name, url=url).validate(rows.schema)
        asked(creation(TableName.of(name), rows.schema, (), None))
        write(rows, rh.clickhouse.sink(name, url=url))
        # Its strings are bytes.
        kind = rows.schema.field("v").type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        more = f"SETTINGS output_format_arrow_string_as_string={int(is_text)}"
        return pa.ipc.open_stream(asked(f"SELECT * FROM {name} FORMAT ArrowStream {more}")).read_all()

    return border
