"""Checks of a server's log and its tables, before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rheos.connectors.mysql.binlog_position import BinlogPosition, LogPlace
from rheos.connectors.mysql.column_families import InspectedColumn
from rheos.connectors.mysql.server_login import quoted, rows_of
from rheos.core.errors import ConfigurationError

_REQUIRED: Mapping[str, str] = {
    "log_bin": "1",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
}
_ANEW = "start the job anew, without its checkpoints: it then begins with a new snapshot"


@dataclass(frozen=True)
class InspectedTable:
    """A table of the server."""

    database: str
    name: str
    columns: tuple[InspectedColumn, ...]
    key: tuple[str, ...]
    """Columns of the primary key in its order; empty for a table without one."""
    has_transactions: bool

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


def inspected(connection: Any, database: str, table: str) -> InspectedTable:
    """Inspect a table. Raises ConfigurationError if it does not exist."""
    found = rows_of(
        connection,
        "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s "
        "AND TABLE_NAME = %s AND TABLE_TYPE = 'BASE TABLE'",
        (database, table),
    )
    if not found:
        raise ConfigurationError(
            f"the table {database}.{table} does not exist", hint="create it, or correct its name"
        )
    columns = rows_of(
        connection,
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, COALESCE(NUMERIC_PRECISION, 0), "
        "COALESCE(NUMERIC_SCALE, 0) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s "
        "AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        (database, table),
    )
    key = rows_of(
        connection,
        "SELECT COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = %s "
        "AND TABLE_NAME = %s AND CONSTRAINT_NAME = 'PRIMARY' ORDER BY ORDINAL_POSITION",
        (database, table),
    )
    return InspectedTable(
        database,
        str(found[0][0]),
        tuple(
            InspectedColumn(str(name), str(data_type), str(column_type), int(precision), int(scale))
            for name, data_type, column_type, precision, scale in columns
        ),
        tuple(str(name) for (name,) in key),
        found[0][1] == "InnoDB",
    )


def check_server(connection: Any) -> None:
    """Raise ConfigurationError if the server is no MariaDB, or does not log what is needed."""
    [(version,)] = rows_of(connection, "SELECT @@version")
    if "MariaDB" not in str(version):
        raise ConfigurationError(
            f"the server is not MariaDB: its version is {version}",
            hint="rh.mysql reads MariaDB 10.5 and newer. Changes of MySQL arrive through Debezium and "
            "Kafka, with formats.debezium_json()",
        )
    try:
        names = ", ".join(f"@@global.{name}" for name in _REQUIRED)
        [values] = rows_of(connection, f"SELECT {names}")
    except Exception as error:
        if error.args and error.args[0] == 1193:
            raise ConfigurationError(
                f"MariaDB {version} does not describe columns in its binlog",
                hint="use MariaDB 10.5 or newer",
            ) from None
        raise
    for (name, needed), value in zip(_REQUIRED.items(), values, strict=True):
        if str(value) != needed:
            raise ConfigurationError(
                f"the server has {name}={value}, not {needed}",
                hint="start the server with --log-bin"
                if name == "log_bin"
                else f"SET GLOBAL {name} = '{needed}', also in its configuration. Changes that were "
                "logged before cannot be read",
            )


def current_place(connection: Any) -> LogPlace:
    """Return the end of the log."""
    found = rows_of(connection, "SHOW MASTER STATUS")
    if not found:
        raise ConfigurationError("the server has no binlog", hint="start it with --log-bin")
    return LogPlace(str(found[0][0]), int(found[0][1]))


def checked(connection: Any, at: BinlogPosition) -> BinlogPosition:
    """Check that the server's log continues a position; return the position with the server's id.

    Raises ConfigurationError if the log, or a part of it, is gone.
    """
    check_server(connection)
    [(server,)] = rows_of(connection, "SELECT @@server_id")
    if not at.place.file:
        return msgspec.structs.replace(at, server=str(server))
    sizes = {str(row[0]): int(row[1]) for row in rows_of(connection, "SHOW BINARY LOGS")}
    size = sizes.get(at.place.file)
    wrong = ""
    if at.server and at.server != str(server):
        wrong = f"it was that of the server with server_id={at.server}, and this one has {server}"
    elif size is None:
        wrong = "the server has removed this file"
    elif size < at.place.offset:
        wrong = f"the file has only {size} bytes"
    elif at.gtid:
        domain, number = at.gtid.split("-")
        [(gtids,)] = rows_of(
            connection, "SELECT BINLOG_GTID_POS(%s, %s)", (at.place.file, at.place.offset)
        )
        there = [each.split("-") for each in str(gtids or "").split(",")]
        if not any(each[0] == domain and each[-1] == number for each in there):
            wrong = f"the log there has other transactions ({gtids}) than {at.gtid}"
    if wrong:
        raise ConfigurationError(
            f"the job cannot resume at {at.place} of the binlog: {wrong}",
            hint=f"{_ANEW}. Keep the log longer than a job may be down: binlog_expire_logs_seconds",
        )
    return msgspec.structs.replace(at, server=str(server))


def charsets(connection: Any) -> Mapping[int, str]:
    """Return the server's character sets by the ids of their collations."""
    found = {
        int(id): str(name)
        for id, name in rows_of(
            connection,
            "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS WHERE ID IS NOT NULL",
        )
    }
    columns = rows_of(
        connection,
        "SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'information_schema' AND "
        "TABLE_NAME = 'COLLATION_CHARACTER_SET_APPLICABILITY' AND COLUMN_NAME = 'ID'",
    )
    if columns:
        # Newer collations serve several character sets, and have an id for each.
        found.update(
            (int(id), str(name))
            for id, name in rows_of(
                connection,
                "SELECT ID, CHARACTER_SET_NAME FROM "
                "information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE ID IS NOT NULL",
            )
        )
    return found


def table_sql(database: str, table: str) -> str:
    """Return the quoted name of a table."""
    return f"{quoted(database)}.{quoted(table)}"
