"""Tables that rows are inserted into: what the driver finds out about one, and what a sink needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from rheos.connectors.clickhouse.columns import limits_of, type_for
from rheos.connectors.clickhouse.session import ClickhouseSession, literal, quoted
from rheos.connectors.sql_database.column_limits import ColumnLimits
from rheos.core.errors import ConfigurationError, ProgramError, SchemaError

LEAST_WINDOW = 100
"""Least number of blocks that a table must recognise, for rows that are inserted exactly once."""
SUGGESTED_WINDOW = 10_000
_WINDOW = re.compile(r"\b((?:non_)?replicated_deduplication_window(?:_seconds)?) = (\d+)")
_ENGINE = re.compile(
    r"(\w+)(?:\((.*?)\))?(?= (?:PARTITION|PRIMARY|ORDER|SAMPLE|TTL|SETTINGS)|$)", re.DOTALL
)


class _Table(msgspec.Struct):
    engine: str
    engine_full: str
    sorting_key: str


class _Column(msgspec.Struct):
    name: str
    type: str
    default_kind: str
    default_expression: str


class _Setting(msgspec.Struct):
    name: str
    value: str


@dataclass(frozen=True)
class TableName:
    """Name of a table, in a database or in the user's default one."""

    database: str | None
    name: str

    @classmethod
    def of(cls, table: object) -> TableName:
        """Parse a user's argument. Raises ProgramError."""
        parts = table.split(".") if isinstance(table, str) else []
        if not 1 <= len(parts) <= 2 or not all(parts):
            raise ProgramError(
                f"{table!r} is not a valid table name", hint='write "orders" or "shop.orders"'
            )
        return cls(None if len(parts) == 1 else parts[0], parts[-1])

    @property
    def sql(self) -> str:
        """The name in a query."""
        return ".".join(quoted(part) for part in (self.database, self.name) if part is not None)

    def where(self, column: str) -> str:
        """Return the condition that finds the table in `system`; `column` has its name there."""
        database = "currentDatabase()" if self.database is None else literal(self.database)
        return f"database = {database} AND {column} = {literal(self.name)}"

    def __str__(self) -> str:
        return self.name if self.database is None else f"{self.database}.{self.name}"


@dataclass(frozen=True)
class FoundTable:
    """Description of a table by its server."""

    name: TableName
    engine: str
    arguments: tuple[str, ...]
    """Columns that the engine uses, such as the version."""
    sorting_key: tuple[str, ...]
    columns: tuple[_Column, ...]
    window: tuple[int, int | None]
    """Number of blocks whose tokens the table recognises, and for how many seconds; None: no limit."""

    @property
    def is_replicated(self) -> bool:
        return self.engine.startswith(("Replicated", "Shared"))

    @property
    def replaces(self) -> bool:
        return self.engine.endswith("ReplacingMergeTree")

    @property
    def needs_final(self) -> bool:
        """Whether a query must say FINAL to find only current rows."""
        return self.engine.endswith(("ReplacingMergeTree", "CollapsingMergeTree", "SummingMergeTree"))


@dataclass(frozen=True)
class InsertTarget:
    """The table, for the workers."""

    name: TableName
    limits: tuple[ColumnLimits, ...]
    """Limits of the columns that the stream has, except `gone`."""
    gone: tuple[str, str] | None
    """The stream's column that marks deletions, and the table's."""
    key: tuple[str, ...]
    keeps_last: bool
    """Whether the last row of a key in one block is the current one."""
    is_replicated: bool
    window: tuple[int, int | None]
    settings: tuple[tuple[str, str], ...]
    """Settings of an INSERT that only some servers know."""


def found_table(session: ClickhouseSession, name: TableName, hint: str) -> FoundTable:
    """Inspect a table. Raises ConfigurationError with a hint if it does not exist."""
    query = f"SELECT engine, engine_full, sorting_key FROM system.tables WHERE {name.where('name')}"
    found = session.rows(query, _Table)
    if not found:
        raise ConfigurationError(f"the table {name} does not exist", hint=hint)
    [table] = found
    query = (
        "SELECT name, type, default_kind, default_expression FROM system.columns "
        f"WHERE {name.where('table')} ORDER BY position"
    )
    columns = tuple(session.rows(query, _Column))
    arguments = _ENGINE.match(table.engine_full)
    parts = [part.strip() for part in ((arguments and arguments[2]) or "").split(",")]
    named = tuple(part.strip("`") for part in parts if part and not part.startswith("'"))
    # A single column may be in parentheses.
    key = tuple(part.strip(" `") for part in table.sorting_key.strip("()").split(",") if part.strip())
    window = _window(session, table)
    return FoundTable(name, table.engine, named, key, columns, window)


def _window(session: ClickhouseSession, table: _Table) -> tuple[int, int | None]:
    query = (
        "SELECT name, value FROM system.merge_tree_settings WHERE name LIKE '%deduplication_window%'"
    )
    values = {each.name: int(each.value) for each in session.rows(query, _Setting)}
    values |= {name: int(value) for name, value in _WINDOW.findall(table.engine_full)}
    if table.engine.startswith(("Replicated", "Shared")):
        blocks = values.get("replicated_deduplication_window", 0)
        return blocks, values.get("replicated_deduplication_window_seconds", 0)
    return values.get("non_replicated_deduplication_window", 0), None


def target_for(
    session: ClickhouseSession,
    name: TableName,
    schema: pa.Schema,
    key: Sequence[str],
    gone: str | None,
    once: bool,
) -> InsertTarget:
    """Inspect a table, and check that rows of the schema can be inserted.

    Args:
        session: Session with the server.
        name: The table.
        schema: Columns of the stream.
        key: Columns of the key of upserts; none to append rows.
        gone: Column of the stream that marks deletions.
        once: Whether rows are inserted exactly once.

    Returns:
        The table.

    Raises:
        ConfigurationError: The table does not exist, or its engine or settings do not fit.
        SchemaError: A column is missing, or its type does not fit.
    """
    table = found_table(session, name, f"create it: {creation(name, schema, key, gone)}")
    if not table.engine.endswith("MergeTree"):
        raise ConfigurationError(
            f"the table {name} has the engine {table.engine}",
            hint="insert into a table of the MergeTree family",
        )
    if once and table.window[0] < LEAST_WINDOW:
        setting = "replicated" if table.is_replicated else "non_replicated"
        raise ConfigurationError(
            f"the table {name} does not recognise repeated blocks: its deduplication window has "
            f"{table.window[0]} blocks",
            hint=f"ALTER TABLE {name.sql} MODIFY SETTING {setting}_deduplication_window = "
            f'{SUGGESTED_WINDOW}; or write delivery="at_least_once"',
        )
    columns = {column.name: column for column in table.columns}
    limits = []
    for field in schema:
        if field.name == gone:
            continue
        column = columns.get(field.name)
        if column is None:
            raise SchemaError(
                f"the table {name} has no column {field.name!r}",
                hint=f"its columns are {', '.join(columns)}; select only columns to be written",
            )
        limit = limits_of(field.name, column.type, field.type)
        if limit is None:
            raise SchemaError(
                f"column {field.name!r} of {name} is {column.type}, which cannot store {field.type} "
                "unchanged",
                hint="cast the stream's column, or alter the table",
            )
        limits.append(limit)
    query = "SELECT name, value FROM system.settings WHERE name = 'deduplicate_insert'"
    settings = tuple((each.name, "enable") for each in session.rows(query, _Setting))
    return InsertTarget(
        name,
        tuple(limits),
        _deletion(table, schema, gone),
        tuple(key),
        _check_key(table, schema, key, gone),
        table.is_replicated,
        table.window,
        settings,
    )


def _check_key(table: FoundTable, schema: pa.Schema, key: Sequence[str], gone: str | None) -> bool:
    """Check that the table replaces rows by the key. Return whether the last row of a block stays."""
    if not key:
        return False
    if not table.replaces or {*table.sorting_key} != {*key}:
        raise ConfigurationError(
            f"the table {table.name} does not replace rows by {', '.join(key)}: it is {table.engine}, "
            f"ordered by {', '.join(table.sorting_key)}",
            hint=f"create it: {creation(table.name, schema, key, gone)}",
        )
    if not table.arguments:
        return True
    version = table.arguments[0]
    if version in schema.names:
        return False
    made = next((each for each in table.columns if each.name == version), None)
    if made is None or "now64" not in made.default_expression:
        raise ConfigurationError(
            f"the stream has no column {version!r}, which is the version of {table.name}",
            hint=f"add it to the stream, or set its default: toUnixTimestamp64Micro(now64(6)): "
            f"ALTER TABLE {table.name.sql} MODIFY COLUMN {quoted(version)} UInt64 DEFAULT "
            "toUnixTimestamp64Micro(now64(6))",
        )
    return True


def _deletion(table: FoundTable, schema: pa.Schema, gone: str | None) -> tuple[str, str] | None:
    if gone is None:
        return None
    if not table.replaces or len(table.arguments) < 2:
        raise ConfigurationError(
            f"the table {table.name} has no column that marks deleted rows",
            hint="create it with ENGINE = ReplacingMergeTree(version, deleted), where version is "
            "UInt64 DEFAULT toUnixTimestamp64Micro(now64(6)) and deleted is UInt8",
        )
    marks = table.arguments[1]
    if marks in schema.names and marks != gone:
        raise SchemaError(
            f"the stream has a column {marks!r}, in which {table.name} marks deleted rows",
            hint="drop it from the stream",
        )
    return gone, marks


def creation(name: TableName, schema: pa.Schema, key: Sequence[str], gone: str | None) -> str:
    """Return the statement that creates a table for rows of a schema."""
    columns = [
        f"{quoted(field.name)} {type_for(field.type, field.name not in key and field.nullable)}"
        for field in schema
        if field.name != gone
    ]
    engine = "MergeTree"
    if key:
        columns.append("version UInt64 DEFAULT toUnixTimestamp64Micro(now64(6))")
        if gone is not None:
            columns.append("deleted UInt8")
        engine = f"ReplacingMergeTree(version{', deleted' if gone is not None else ''})"
    order = ", ".join(map(quoted, key))
    return (
        f"CREATE TABLE {name.sql} ({', '.join(columns)}) ENGINE = {engine} ORDER BY ({order}) "
        f"SETTINGS non_replicated_deduplication_window = {SUGGESTED_WINDOW}"
    )
