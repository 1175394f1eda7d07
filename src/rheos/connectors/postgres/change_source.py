"""Source of a table's rows and then its changes: a snapshot, and logical replication from there on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import msgspec
import pyarrow as pa

from rheos.connectors.change_columns import check_names, known_fields
from rheos.connectors.database_tables import DatabaseTable
from rheos.connectors.postgres.change_feed import ChangeFeed, ReadTable
from rheos.connectors.postgres.change_positions import lsn_of
from rheos.connectors.postgres.change_rows import ChangeRows, Known, ReadColumn
from rheos.connectors.postgres.change_values import read_as
from rheos.connectors.postgres.column_types import column_types, takes
from rheos.connectors.postgres.connection import ServerOptions, ServerSession, client
from rheos.connectors.postgres.retrying import RetryingSession
from rheos.connectors.postgres.slots import make_ready
from rheos.connectors.postgres.target_table import TargetTable, check_table_name, find_table
from rheos.connectors.schema_changes import OnSchemaChange, check_policy
from rheos.core.connectors.contract import ReaderContext, Source, SourceClient, Split, SplitReader
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ConfigurationError, ProgramError, SchemaError
from rheos.core.site import located_at_call

_SLOT = re.compile(r"[a-z0-9_]{1,63}")


@located_at_call
def changes(
    table: str | DatabaseTable,
    *,
    url: str,
    slot: str | None = None,
    schema: Any = None,
    metadata: Sequence[str] | Mapping[str, str] = ("op",),
    snapshot: bool = True,
    on_schema_change: OnSchemaChange = "fail",
    end: Literal["now"] | None = None,
    options: Mapping[str, object] | None = None,
) -> PostgresChanges:
    """Read the rows of a table, and then each of its changes, exactly once: change data capture.

    ```python
    orders = rh.postgres.changes("orders", url="postgresql://ada@localhost/shop")
    ```

    A row has the table's columns and `op`: "snapshot" for a row that existed before, "insert",
    "update", "delete" (with the columns of the primary key, or all of them under REPLICA IDENTITY FULL)
    or "truncate" (all columns are null). Changes come in the order of their commits. An update of the
    primary key is a "delete" and an "insert", unless `metadata` has "before", which shows the old key.

    The server must have wal_level=logical, and the user the right to replicate. A publication and a
    replication slot are created if they do not exist. The slot retains the log that is not yet covered
    by a checkpoint of the job: drop the slot when you retire the job.

    Args:
        table: its name, "schema.name", or one of `tables`. The table is inspected by this call.
        url: address of the server, in a form that libpq accepts. The password is never shown.
        slot: the name of the slot and of the publication, by default "rheos_" and the table's name.
            Each job needs its own.
        schema: a dataclass, a pyarrow.Schema or a dict with the columns that are read; all by default.
        metadata: metadata to add as columns: "op", "before" (the previous row, as far as REPLICA
            IDENTITY includes it), "commit_time", "lsn" (the position of its commit in the log), and
            "unchanged" (the names of columns whose large value an update has not changed, and which
            PostgreSQL does not send; without this column such a change is an error). Names, or a
            mapping to the names of the columns.
        snapshot: whether a job without a checkpoint first emits the existing rows. That needs a primary
            key. Without a snapshot, the job begins at the slot's position, and a table without a
            primary key needs REPLICA IDENTITY FULL.
        on_schema_change: what happens when columns that are read are dropped, renamed or get another
            type; or when columns are added, if all are read. "fail" ends the job with an error.
            "ignore" continues with the columns of the program: a missing one is null, a value that
            fits is converted. "follow" stops the job with a checkpoint exactly before the first row of
            the new form. Started again, it continues with the columns that the table then has.
        end: "now" ends with the changes committed at the time of this call: such a source is bounded
            and may be read in batch.
        options: further parameters of libpq, such as sslmode and sslrootcert. Their values are shown
            nowhere.

    Returns:
        The source, for `env.from_source`. It is bounded if it has an end.

    Raises:
        ProgramError: An argument is invalid, such as the name of the slot.
        ConfigurationError: The table does not exist, or has no primary key but a snapshot needs one.
        SchemaError: The schema has a column that the table lacks.
        UnavailableError: The server cannot be reached.
    """
    client()
    table = table.qualified if isinstance(table, DatabaseTable) else table
    check_table_name(table)
    named = re.sub(r"[^a-z0-9_]", "_", f"rheos_{table.lower()}")[:63] if slot is None else slot
    if not isinstance(named, str) or _SLOT.fullmatch(named) is None:
        raise ProgramError(
            f"slot={slot!r} is not a valid slot name", hint="use lower-case letters, digits and '_'"
        )
    if end not in (None, "now"):
        raise ProgramError(f"end={end!r} is not known", hint='write end="now", or leave it out')
    policy = check_policy(on_schema_change)
    known = known_fields(metadata, get_args(Known))
    wanted, record = (None, None) if schema is None else resolve(schema)
    reached = ServerOptions.of(url, options)
    session = RetryingSession(reached, f"the table {table} cannot be inspected")
    try:
        found, now_lsn = session.do(lambda s: _looked_at(s, table))
    finally:
        session.close()
    if snapshot and not found.primary_key:
        raise ConfigurationError(
            f"the table {found} has no primary key, which the snapshot needs to read it in order",
            hint=f"ALTER TABLE {found.sql} ADD PRIMARY KEY (...), or ALTER TABLE {found.sql} REPLICA "
            "IDENTITY FULL and write snapshot=False",
        )
    rows = _rows(found, wanted, known, snapshot=snapshot)
    rows = replace(rows, on_schema_change=policy, known_lsn=now_lsn)
    read = ReadTable(reached, found.schema, found.name, found.sql, named, rows, snapshot)
    given = record if wanted is not None and rows.schema().names == wanted.names else None
    return PostgresChanges(read, given, None if end is None else now_lsn)


def _looked_at(session: ServerSession, table: str) -> tuple[TargetTable, int]:
    # A change of the table after this position may be known or not. An earlier one is known.
    [(lsn,)] = session.rows("SELECT pg_current_wal_insert_lsn()::text")
    found = find_table(session, table)
    if found is None:
        raise ConfigurationError(
            f"the table {table} does not exist", hint="create it, or correct its name and schema"
        )
    if not found.is_partitioned and session.rows(
        "SELECT 1 FROM pg_inherits WHERE inhparent = to_regclass(%s)", [found.sql]
    ):
        raise ConfigurationError(
            f"other tables inherit from {found}, and their changes are not among those of {found}",
            hint="make it a partitioned table, or read each of those tables with its own source",
        )
    return found, lsn_of(lsn)


def _rows(
    table: TargetTable,
    wanted: pa.Schema | None,
    known: tuple[tuple[Known, str], ...],
    *,
    snapshot: bool,
) -> ChangeRows:
    names = [name for _, name in known]
    columns = []
    for column in table.columns:
        if column.is_computed:
            _check_left_out(table, column.name, wanted, names, snapshot=snapshot)
            continue
        type, is_required = read_as(column.type), column.name in table.primary_key
        if wanted is not None:
            if column.name not in wanted.names or column.name in names:
                continue
            type = wanted.field(column.name).type
            is_required = is_required or not wanted.field(column.name).nullable
            is_text = (column_types(type) or ("",))[0] == "text"
            if not is_text and (column_types(type) is None or not takes(column.type, type)):
                raise SchemaError(
                    f"the column {column.name!r} of {table} is {column.type}, but schema= has {type}",
                    hint=f"write {read_as(column.type)}, or str",
                )
        columns.append(ReadColumn(column.name, column.type_id, column.type, type, is_required))
    there = [column.name for column in columns]
    check_names(table, [column.name for column in table.columns], there, wanted, names)
    for name in table.primary_key if snapshot else ():
        if name not in there:
            raise SchemaError(
                f"schema= lacks the primary-key column {name!r}",
                hint="add it, or write snapshot=False",
            )
    every = tuple(column.name for column in table.columns) if wanted is None else None
    return ChangeRows(str(table), tuple(columns), every, table.primary_key, known)


def _check_left_out(
    table: TargetTable, name: str, wanted: pa.Schema | None, known: Sequence[str], *, snapshot: bool
) -> None:
    """Raise SchemaError if a required column is generated: the server does not publish its changes."""
    is_named = wanted is not None and name in wanted.names and name not in known
    if is_named or (snapshot and name in table.primary_key):
        raise SchemaError(
            f"the column {name!r} of {table} is generated, and PostgreSQL does not publish "
            "generated columns",
            hint="compute it from the other columns, with with_columns",
        )


@dataclass(frozen=True)
class PostgresChanges(Source):
    """Source that `postgres.changes` creates."""

    table: ReadTable
    record: type | None
    end_lsn: int | None
    schema: pa.Schema = field(init=False)
    bounded: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.table.rows.schema())
        object.__setattr__(self, "bounded", self.end_lsn is not None)

    @property
    def may_stop(self) -> bool:
        return self.table.rows.on_schema_change == "follow"

    def only_reader(self) -> str | None:
        return "each job has its own slot, which only one reader may use"

    def record_class(self) -> type | None:
        return self.record

    def splits(self) -> Sequence[Split]:
        session = RetryingSession(self.table.options, self.table.doing)
        try:
            session.do(self._make_ready)
        finally:
            session.close()
        return [Split(self.table.slot, msgspec.msgpack.encode(self.end_lsn))]

    def _make_ready(self, session: ServerSession) -> None:
        table = find_table(session, f"{self.table.schema}.{self.table.name}")
        if table is None:
            raise ConfigurationError(
                f"the table {self.table.schema}.{self.table.name} does not exist", hint="create it"
            )
        make_ready(session, table, self.table.slot)

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        """Return the known splits, which keep their ends."""
        return [Split(split.id, known.get(split.id, split.payload)) for split in splits]

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        return ChangeFeed(self.table, ctx)

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        assert isinstance(ctx.client, ChangeFeed)
        end_lsn = msgspec.msgpack.decode(split.payload, type=int | None)
        return ctx.client.open(position, end_lsn)

    def datasets(self) -> Sequence[Dataset]:
        return self.table.options.datasets(f"{self.table.schema}.{self.table.name}")

    def describe(self) -> str:
        table = self.table
        first = "snapshot and changes" if table.snapshot else "changes"
        return (
            f"PostgreSQL {first} of {table.schema}.{table.name} at {table.options}, slot {table.slot}"
        )
