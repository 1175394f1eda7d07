"""PostgreSQL, MariaDB and SQLite: rows of three columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import polars as pl

import rheos as rh
from benchmarks.connector_rates.driving import WrittenSink, read
from benchmarks.connector_rates.measuring import Case
from benchmarks.connector_rates.rows import rows_of
from rheos.connectors.sql_database.address import DatabaseAddress, DatabaseSystem
from rheos.testing import servers

_COLUMNS = "k bigint, shop varchar(20), total double precision"
_AT_ONCE = 5_000


class DriverAlone:
    """One connection of a driver. It appends by `executemany`."""

    def __init__(self, address: DatabaseAddress) -> None:
        self._connection = address.connected()
        self._connection.exec_driver_sql(f"CREATE TABLE theirs ({_COLUMNS})")
        self._connection.commit()
        self._raw = self._connection.connection.driver_connection
        mark = "?" if address.backend is DatabaseSystem.SQLITE else "%s"
        self._insert = f"INSERT INTO theirs (k, shop, total) VALUES ({mark}, {mark}, {mark})"

    def write(self, table: Any) -> None:
        """Append rows in one transaction."""
        rows = pl.DataFrame(table).rows()
        cursor = self._raw.cursor()
        for begin in range(0, len(rows), _AT_ONCE):
            cursor.executemany(self._insert, rows[begin : begin + _AT_ONCE])
        self._raw.commit()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _appended(name: str, library: str, url: str, records: int, folder: Path, opened: ExitStack) -> Case:
    """Return the case of `rh.sql_database.sink`, exactly once."""
    rows, driver = rows_of(records), DriverAlone(DatabaseAddress.of(url))
    opened.callback(driver.close)
    ours = WrittenSink(rh.sql_database.sink("ours", url=url), rows.schema, folder)
    opened.callback(ours.close)
    title = f"`sql_database` sink, {name}"
    return Case(title, library, records, partial(ours.write, rows), partial(driver.write, rows))


@contextmanager
def sqlite(records: int, folder: Path) -> Iterator[list[Case]]:
    """Append to a file of SQLite."""
    with ExitStack() as opened:
        url = f"sqlite:///{folder}/bench.db"
        yield [_appended("SQLite", "sqlite3", url, records, folder, opened)]


@contextmanager
def postgres(records: int, folder: Path) -> Iterator[list[Case]]:
    """Append to tables of PostgreSQL, by COPY and by INSERT."""
    import psycopg

    with servers.PostgresServer() as server, ExitStack() as opened:
        rows = rows_of(records)
        session = opened.enter_context(psycopg.connect(server.url, autocommit=True))
        session.execute(f"CREATE TABLE copied ({_COLUMNS})".encode())

        def copy() -> None:
            with session.cursor().copy(b"COPY copied FROM STDIN") as target:
                for row in pl.DataFrame(rows).iter_rows():
                    target.write_row(row)

        ours = WrittenSink(rh.postgres.sink("written", url=server.url), rows.schema, folder)
        opened.callback(ours.close)
        yield [
            Case("`postgres` sink", "psycopg, COPY", records, lambda: ours.write(rows), copy),
            _appended("PostgreSQL", "psycopg", server.url, records, folder / "sql", opened),
        ]


@contextmanager
def mariadb(records: int, folder: Path) -> Iterator[list[Case]]:
    """Read inserted rows from the log, and append to tables."""
    import pymysql

    with servers.MariadbServer() as server, ExitStack() as opened:
        at = urlsplit(server.url)
        login = {
            "host": at.hostname,
            "port": at.port,
            "user": at.username,
            "passwd": at.password,
        }
        session = opened.enter_context(
            closing(pymysql.connect(**login, database="rheos", autocommit=True))
        )
        cursor = session.cursor()
        cursor.execute(f"CREATE TABLE logged ({_COLUMNS}, PRIMARY KEY (k))")
        cursor.execute("SHOW MASTER STATUS")
        file, position, *_ = cursor.fetchone()
        source = rh.mysql.changes("logged", url=server.url, snapshot=False)
        splits = source.splits()
        rows = pl.DataFrame(rows_of(records)).rows()
        for begin in range(0, records, 1_000):
            cursor.executemany("INSERT INTO logged VALUES (%s, %s, %s)", rows[begin : begin + 1_000])
        yield [
            Case(
                "`mysql` changes",
                "mysql-replication",
                records,
                lambda: read(source, records, splits),
                _follower(login, file, position, records),
            ),
            _appended("MariaDB", "PyMySQL", server.url, records, folder, opened),
        ]


def _follower(login: dict[str, Any], file: str, position: int, records: int) -> Callable[[], None]:
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import WriteRowsEvent

    def follow() -> None:
        stream = BinLogStreamReader(
            connection_settings=login,
            server_id=77,
            is_mariadb=True,
            resume_stream=True,
            log_file=file,
            log_pos=position,
            only_events=[WriteRowsEvent],
            only_tables=["logged"],
            blocking=True,
        )
        taken = 0
        for event in stream:
            taken += len(event.rows)
            if taken == records:
                break
        stream.close()

    return follow


CASES = {"sqlite": sqlite, "postgres": postgres, "mariadb": mariadb}
"""Cases of each database, by its name."""
