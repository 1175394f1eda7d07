"""Source of a table's rows and then its changes: a snapshot in blocks, and the binlog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import msgspec
import pyarrow as pa

from rheos.connectors.change_columns import check_names, known_fields
from rheos.connectors.database_tables import DatabaseTable
from rheos.connectors.mysql.binlog_feed import BinlogFeed, LoggedTable
from rheos.connectors.mysql.binlog_position import BinlogPosition, LogPlace
from rheos.connectors.mysql.column_families import ColumnFamily, ZeroDates, read_as, takes
from rheos.connectors.mysql.server_log import (
    InspectedTable,
    check_server,
    current_place,
    inspected,
)
from rheos.connectors.mysql.server_login import ServerLogin, WatchedClient, client
from rheos.connectors.mysql.table_rows import Known, SelectedColumn, TableRows
from rheos.connectors.schema_changes import OnSchemaChange, check_policy
from rheos.core.connectors.contract import ReaderContext, Source, SourceClient, Split, SplitReader
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ConfigurationError, ProgramError, SchemaError
from rheos.core.site import located_at_call

_NO_KEYS = (ColumnFamily.REAL, ColumnFamily.UNREADABLE)


class _Bounds(msgspec.Struct, frozen=True, array_like=True):
    """Payload of the split: the place where a job without a snapshot begins, and the end."""

    begin: LogPlace
    end: LogPlace | None


@located_at_call
def changes(
    table: str | DatabaseTable,
    *,
    url: str,
    schema: Any = None,
    metadata: Sequence[str] | Mapping[str, str] = ("op",),
    snapshot: bool = True,
    zero_dates: ZeroDates = "fail",
    on_schema_change: OnSchemaChange = "fail",
    end: Literal["now"] | None = None,
    options: Mapping[str, object] | None = None,
) -> MysqlChanges:
    """Read the rows of a table of MariaDB, and then each of its changes, exactly once.

    ```python
    orders = rh.mysql.changes("orders", url="mysql://ada:secret@localhost/shop")
    ```

    A row has the table's columns and `op`: "snapshot" for a row that existed before, "insert",
    "update", "delete" (with all columns) or "truncate" (all columns are null). Changes come in the
    order of their commits. An update of the primary key is a "delete" and an "insert", unless
    `metadata` has "before", which shows the old row.

    The server must be MariaDB 10.5 or newer with `log_bin`, `binlog_format=ROW`,
    `binlog_row_image=FULL` and `binlog_row_metadata=FULL`. The user needs the rights SELECT,
    REPLICATION SLAVE and BINLOG MONITOR. The server keeps its log
    regardless of the job: set `binlog_expire_logs_seconds` to more than the longest time for which
    the job may be down.

    Args:
        table: its name, or one of `tables`. The table is inspected by this call.
        url: address of the server and its database, "mysql://user:password@host:3306/database". The
            password is never shown.
        schema: a dataclass, a pyarrow.Schema or a dict with the columns that are read; all by default.
        metadata: metadata to add as columns: "op", "before" (the previous row), "commit_time" (in
            seconds), and "position" (the place in the log before the transaction). Names, or a mapping
            to the names of the columns.
        snapshot: whether a job without a checkpoint first emits the existing rows. That needs a primary
            key, and a table of InnoDB.
        zero_dates: "fail" for an error at dates such as 0000-00-00; "null" reads them as null. A date
            column that schema= declares as str keeps them.
        on_schema_change: what happens when columns that are read are dropped, renamed or get another
            type; or when columns are added, if all are read. "fail" ends the job with an error.
            "ignore" continues with the columns of the program: a missing one is null, a value that
            fits is converted. "follow" stops the job with a checkpoint exactly before the first row of
            the new form. Started again, it continues with the columns that the table then has. If
            `table` is one of `tables`, the job also stops when such a table is created.
        end: "now" ends with the changes committed at the time of this call: such a source is bounded
            and may be read in batch.
        options: `ssl_ca`, `ssl_cert`, `ssl_key` and `ssl_verify_identity`, for TLS.

    Returns:
        The source, for `env.from_source`. It is bounded if it has an end.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: The table does not exist, or has no primary key but a snapshot needs one; or
            the server does not log what is needed.
        SchemaError: The schema has a column that the table lacks, or a column cannot be read.
        UnavailableError: The server cannot be reached.
    """
    client()
    selection = table.selection if isinstance(table, DatabaseTable) else None
    table = table.name if isinstance(table, DatabaseTable) else table
    if not isinstance(table, str) or not table:
        raise ProgramError(f"table={table!r} is not the name of a table", hint='write "orders"')
    if end not in (None, "now"):
        raise ProgramError(f"end={end!r} is not known", hint='write end="now", or leave it out')
    if zero_dates not in get_args(ZeroDates):
        raise ProgramError(f"zero_dates={zero_dates!r} is not known", hint='write "fail" or "null"')
    policy = check_policy(on_schema_change)
    known = known_fields(metadata, get_args(Known))
    wanted, record = (None, None) if schema is None else resolve(schema)
    login = ServerLogin.of(url, options)
    session = WatchedClient(login, f"the table {table} cannot be inspected")
    try:
        found, place = session.do(lambda connection: _inspected(connection, login.database, table))
    finally:
        session.close()
    if snapshot:
        _check_snapshot(found)
    rows = _rows(found, wanted, known, snapshot=snapshot)
    rows = replace(rows, zero_dates=zero_dates, on_schema_change=policy, known_at=place)
    if policy == "follow":
        rows = replace(rows, selection=selection)
    given = record if wanted is not None and rows.schema().names == wanted.names else None
    return MysqlChanges(LoggedTable(login, rows), snapshot, given, place if end is not None else None)


def _inspected(connection: Any, database: str, table: str) -> tuple[InspectedTable, LogPlace]:
    check_server(connection)
    # A change of the table after this place may be known or not. An earlier one is known.
    place = current_place(connection)
    return inspected(connection, database, table), place


def _check_snapshot(table: InspectedTable) -> None:
    if not table.has_transactions:
        raise ConfigurationError(
            f"the table {table} is not of InnoDB, which the snapshot needs",
            hint="ALTER TABLE ... ENGINE = InnoDB, or write snapshot=False",
        )
    if not table.key:
        raise ConfigurationError(
            f"the table {table} has no primary key, which the snapshot needs to read it in order",
            hint="ALTER TABLE ... ADD PRIMARY KEY (...), or write snapshot=False",
        )
    for column in table.columns:
        if column.name in table.key and column.family in _NO_KEYS:
            raise ConfigurationError(
                f"the snapshot cannot read {table} in the order of its key {column.name!r}, which is "
                f"{column.column_type}",
                hint="use a key of another type, or write snapshot=False",
            )


def _rows(
    table: InspectedTable,
    wanted: pa.Schema | None,
    known: tuple[tuple[Known, str], ...],
    *,
    snapshot: bool,
) -> TableRows:
    metadata = [name for _, name in known]
    columns = []
    for column in table.columns:
        if wanted is not None and (column.name not in wanted.names or column.name in metadata):
            continue
        if column.family is ColumnFamily.UNREADABLE:
            raise SchemaError(
                f"the column {column.name!r} of {table} is {column.column_type}, which cannot be read",
                hint="select the other columns with schema=",
            )
        type, is_required = read_as(column), column.name in table.key
        if wanted is not None:
            type = wanted.field(column.name).type
            is_required = is_required or not wanted.field(column.name).nullable
            if not takes(column.family, type):
                raise SchemaError(
                    f"the column {column.name!r} of {table} is {column.column_type}, but schema= has "
                    f"{type}",
                    hint=f"write {read_as(column)}, or str",
                )
        columns.append(SelectedColumn(column.name, column.kind, type, column.data_type, is_required))
    there = [column.name for column in columns]
    check_names(table, [column.name for column in table.columns], there, wanted, metadata)
    missing = [name for name in table.key if name not in there]
    if missing and snapshot:
        raise SchemaError(
            f"schema= lacks the primary-key column {missing[0]!r}",
            hint="add it, or write snapshot=False",
        )
    every = tuple(column.name for column in table.columns) if wanted is None else None
    key = () if missing else table.key
    return TableRows(table.database, table.name, tuple(columns), every, key, known)


@dataclass(frozen=True)
class MysqlChanges(Source):
    """Source that `mysql.changes` creates."""

    table: LoggedTable
    snapshot: bool
    record: type | None
    end: LogPlace | None
    schema: pa.Schema = field(init=False)
    bounded: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.table.rows.schema())
        object.__setattr__(self, "bounded", self.end is not None)

    @property
    def may_stop(self) -> bool:
        return self.table.rows.on_schema_change == "follow"

    def only_reader(self) -> str | None:
        return None

    def record_class(self) -> type | None:
        return self.record

    def splits(self) -> Sequence[Split]:
        session = WatchedClient(self.table.login, self.table.doing)
        try:
            begin = session.do(current_place)
        finally:
            session.close()
        return [Split(str(self.table.rows), msgspec.msgpack.encode(_Bounds(begin, self.end)))]

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        """Return the known splits, which keep their bounds."""
        return [Split(split.id, known.get(split.id, split.payload)) for split in splits]

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        return BinlogFeed(self.table, ctx)

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        assert isinstance(ctx.client, BinlogFeed)
        bounds = msgspec.msgpack.decode(split.payload, type=_Bounds)
        if position is not None:
            at = BinlogPosition.decode(position)
        elif self.snapshot:
            at = BinlogPosition(in_snapshot=True)
        else:
            at = BinlogPosition(bounds.begin)
        return ctx.client.open(at, bounds.end)

    def datasets(self) -> Sequence[Dataset]:
        at = self.table.login
        return server_datasets("mysql", f"{at.host}:{at.port}", [str(self.table.rows)])

    def describe(self) -> str:
        first = "snapshot and changes" if self.snapshot else "changes"
        return f"MariaDB {first} of {self.table.rows} at {self.table.login}"
