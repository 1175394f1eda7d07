"""Orders in MariaDB, a client that changes them, and their copies in tables of Iceberg and Delta.

Values are those that a copy may spoil: null, decimals, microseconds, characters outside of ASCII.
Changes are inserts, updates, deletes, changed keys, and rows that are replaced.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
import pymysql
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

import rheos as rh

_CREATE = """CREATE TABLE orders (id int PRIMARY KEY, customer varchar(20),
    cents decimal(12, 2) NOT NULL, changed datetime(6), note text)"""
_ROW = "INTO orders VALUES (%s, %s, %s, %s, %s)"
_NOTES = (None, "", "naïve €", "gift 🎁", "x" * 60)
_COLUMNS = pa.schema(
    {
        "id": pa.int32(),
        "customer": pa.string(),
        "cents": pa.decimal128(12, 2),
        "changed": pa.timestamp("us"),
        "note": pa.string(),
    }
)
_START = datetime(2026, 1, 1)
ICEBERG = "shop.orders"
_ROWS_AT_ONCE = 1_000
_AGAIN_AFTER_S = 0.2


@contextmanager
def session(url: str) -> Iterator[Any]:
    """Open a connection in which each statement is a transaction unless one begins."""
    at = urlsplit(url)
    assert at.hostname is not None
    connection = pymysql.connect(
        host=at.hostname,
        port=at.port or 3306,
        user=at.username,
        password=at.password or "",
        database=at.path[1:],
        autocommit=True,
        charset="utf8mb4",
        connect_timeout=60,
        read_timeout=60,
        write_timeout=60,
    )
    try:
        yield connection.cursor()
    finally:
        connection.close()


class Orders:
    """The table, and a client that changes it at random.

    Args:
        url: address of the database.
        rows: number of rows that exist at first. Keys are up to three times as large.
        seed: seed of all values.
    """

    def __init__(self, url: str, rows: int, seed: int = 0) -> None:
        self.url = url
        self._random = Random(seed)
        self._rows = rows

    def create(self) -> None:
        """Create the table with its first rows."""
        with session(self.url) as cursor:
            cursor.execute(_CREATE)
            cursor.execute("CREATE TABLE written (number int PRIMARY KEY, changes int NOT NULL)")
            for first in range(0, self._rows, _ROWS_AT_ONCE):
                ids = range(first, min(first + _ROWS_AT_ONCE, self._rows))
                rows = [(3 * id, *self._values()) for id in ids]
                cursor.executemany(f"INSERT {_ROW}", rows)

    def change(
        self, changes: int, per_s: float | None = None, stopped: threading.Event | None = None
    ) -> None:
        """Change rows in transactions of 1 to 40 statements, and survive kills of the server.

        Args:
            changes: minimum number of changed rows, over all calls.
            per_s: changes per second; None for no limit.
            stopped: ends the changes early.
        """
        stopped = stopped or threading.Event()
        while not stopped.is_set():
            try:
                with session(self.url) as cursor:
                    number, done = written(cursor)
                    began, before = time.monotonic(), done
                    while done < changes and not stopped.is_set():
                        number += 1
                        done += self._transaction(cursor, number)
                        if per_s is not None:
                            stopped.wait(began + (done - before) / per_s - time.monotonic())
                return
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError):
                stopped.wait(_AGAIN_AFTER_S)

    def _transaction(self, cursor: Any, number: int) -> int:
        """Return the number of rows changed. It is in the transaction: the next connection knows
        whether a commit whose answer was lost took effect."""
        cursor.connection.begin()
        statements = [self._statement() for _ in range(self._random.randint(1, 40))]
        changes = sum(cursor.execute(*statement) for statement in statements)
        cursor.execute("INSERT INTO written VALUES (%s, %s)", (number, changes))
        cursor.connection.commit()
        return changes

    def _statement(self) -> tuple[str, tuple[Any, ...]]:
        random = self._random
        key = random.randrange(3 * self._rows)
        match random.randrange(8):
            case 0 | 1:
                return f"INSERT IGNORE {_ROW}", (key, *self._values())
            case 2:
                return f"REPLACE {_ROW}", (key, *self._values())
            case 3:
                return "DELETE FROM orders WHERE id = %s", (key,)
            case 4:
                other = random.randrange(3 * self._rows)
                return "UPDATE IGNORE orders SET id = %s WHERE id = %s", (other, key)
            case _:
                columns = "customer = %s, cents = %s, changed = %s, note = %s"
                return f"UPDATE orders SET {columns} WHERE id = %s", (*self._values(), key)

    def _values(self) -> tuple[Any, ...]:
        random = self._random
        customer = random.choice((None, *(f"customer {n}" for n in range(9))))
        cents = Decimal(random.randrange(-(10**12), 10**12)) / 100
        changed = _START + timedelta(microseconds=random.randrange(10**14))
        return customer, cents, changed, random.choice(_NOTES)


def written(cursor: Any) -> tuple[int, int]:
    """Return the number of the last transaction, and of the rows that all have changed."""
    cursor.execute("SELECT coalesce(max(number), 0), coalesce(sum(changes), 0) FROM written")
    [(number, changes)] = cursor.fetchall()
    return int(number), int(changes)


def lake(folder: Path) -> dict[str, str]:
    """Return the properties of the catalog in the folder."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder)}


def into_a_lakehouse(changes: rh.DataStream, folder: Path) -> None:
    """Write the changes to both tables in the folder."""
    orders = changes.upserts(key="id")
    orders.sink_to(rh.iceberg.sink(ICEBERG, catalog=lake(folder)), name="iceberg")
    orders.sink_to(rh.delta.sink(folder / "delta"), name="delta")


@dataclass(frozen=True)
class Copy:
    """The database's rows compared with those of one table, by DuckDB."""

    rows: int
    missing: int
    """Rows of the database that the table lacks."""
    extra: int
    """Rows of the table that the database lacks, or has less often."""

    @property
    def is_equal(self) -> bool:
        return self.missing == self.extra == 0


def copies(url: str, folder: Path) -> dict[str, Copy]:
    """Return the comparison of each table in the folder."""
    with session(url) as cursor:
        cursor.execute("SELECT id, customer, cents, changed, note FROM orders")
        columns = zip(*cursor.fetchall(), strict=True)
        orders = pa.table([list(column) for column in columns], schema=_COLUMNS)
    iceberg = load_catalog("default", **lake(folder)).load_table(ICEBERG).scan().to_arrow()
    delta = DeltaTable(folder / "delta").to_pyarrow_dataset()
    return {"iceberg": _compared(orders, iceberg), "delta": _compared(orders, delta)}


def _compared(orders: pa.Table, found: Any) -> Copy:
    duck = duckdb.connect()
    duck.register("orders", orders)
    duck.register("found", found)
    duck.execute(f"CREATE TABLE copied AS SELECT {', '.join(_COLUMNS.names)} FROM found")
    count = "SELECT count(*) FROM"
    counts = [
        duck.execute(query).fetchall()[0][0]
        for query in (
            f"{count} copied",
            f"{count} (FROM orders EXCEPT ALL FROM copied)",
            f"{count} (FROM copied EXCEPT ALL FROM orders)",
        )
    ]
    return Copy(*counts)
