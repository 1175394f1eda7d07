"""Columns of tables of DuckDB: their Arrow types, and which values of a stream they store unchanged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rheos.connectors.duckdb.database_file import client, fetched, quoted
from rheos.connectors.sql_database.column_limits import ColumnLimits
from rheos.connectors.sql_database.target_table import WrittenTable
from rheos.connectors.unfit_columns import missing_column, unfit_type
from rheos.core.errors import ConfigurationError, InputError, SchemaError
from rheos.core.protocol.elements import Batch

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
KEY = "rheos_key_"
"""Prefix of the columns of a key in a query, next to the columns that are read."""
_TEXTS = ("VARCHAR", "JSON", "UUID")
_UNREADABLE = re.compile(r"\b(?:UHUGEINT|TIME WITH TIME ZONE|BIT|BIGNUM|VARINT|VARIANT)\b")
"""Types whose values DuckDB passes to Arrow in another meaning, or in its own encoding."""
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_SHOWN = b"duckdb"
"""Key of the metadata of a column that cannot be read, with its type."""


# --- reading ------------------------------------------------------------------------------------------


def relation_columns(connection: Any, relation: str) -> pa.Schema:
    """Return the columns of a relation in SQL, such as a quoted table, as they are read.

    A column of an enum is read as strings. A column that cannot be read has its type in its metadata,
    for `wanted_columns`.
    """
    found = fetched(connection, f"SELECT * FROM {relation} LIMIT 0").schema
    described = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    fields = []
    for each, (_, shown, *_) in zip(found, described, strict=True):
        unreadable = _UNREADABLE.search(_QUOTED.sub("", shown)) is not None
        metadata = {_SHOWN: shown.encode()} if unreadable else None
        fields.append(pa.field(each.name, _read_as(each.type), metadata=metadata))
    return pa.schema(fields)


def _read_as(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def wanted_columns(
    found: pa.Schema, names: Sequence[str], declared: pa.Schema | None, label: str
) -> pa.Schema:
    """Return columns with the declared types, or else their own. Raises SchemaError."""
    fields = []
    for name in names:
        if name not in found.names:
            raise SchemaError(
                f"{label} has no column {name!r}", hint=f"it has {', '.join(found.names)}"
            )
        is_declared = declared is not None and name in declared.names
        field = declared.field(name) if is_declared else found.field(name)  # type: ignore[union-attr]
        unreadable = (found.field(name).metadata or {}).get(_SHOWN)
        if unreadable or pa.types.is_interval(field.type) or pa.types.is_null(field.type):
            shown = unreadable.decode() if unreadable else field.type
            raise SchemaError(
                f"the column {name!r} of {label} is {shown}, which cannot be read",
                hint="name the other columns, or cast it in a query",
            )
        fields.append(field)
    return pa.schema(fields)


def typed_rows(found: pa.Table, columns: pa.Schema, label: str) -> Batch:
    """Return rows with the columns' types. Raises InputError if a value does not fit."""
    arrays = []
    for field in columns:
        column = found.column(field.name).combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        try:
            if pa.types.is_decimal(column.type):
                column.validate(full=True)  # A HUGEINT may have more digits than Arrow's decimal.
            column = column.cast(field.type)
        except pa.ArrowException as error:
            raise InputError(
                f"the column {field.name!r} of {label} has a value that does not fit {field.type}: "
                f"{error}",
                hint="declare a suitable type in schema=, or convert the column in a query",
            ) from None
        if column.null_count and not field.nullable:
            raise InputError(
                f"the column {field.name!r} of {label} is NULL in a row, but schema= declares it as "
                "not null",
                hint="declare the column as nullable, or leave out such rows",
            )
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


# --- writing ------------------------------------------------------------------------------------------


def column_limits(name: str, kind: pa.DataType, stored: pa.DataType, shown: str) -> ColumnLimits | None:
    """Return the limits of a table's column for a stream's column.

    Args:
        name: Name of the column.
        kind: Arrow type of the stream's column.
        stored: Arrow type as which DuckDB returns the table's column.
        shown: DuckDB's type of the table's column.

    Returns:
        The limits; None if the column cannot store such values unchanged.
    """
    t, same = pa.types, ColumnLimits(name, shown)
    kind = _plain(kind)
    if t.is_integer(kind):
        if not t.is_integer(stored) and not t.is_decimal(stored):
            return None
        return ColumnLimits(name, shown, bounds=_bounds(kind, stored))
    if t.is_floating(kind):
        wide = t.is_floating(stored) and stored.bit_width >= kind.bit_width
        return same if wide else None
    if t.is_decimal(kind):
        fits = (
            t.is_decimal(stored)
            and stored.scale >= kind.scale
            and stored.precision - stored.scale >= kind.precision - kind.scale
        )
        return same if fits else None
    if t.is_string(kind):
        return same if t.is_string(stored) and shown in _TEXTS else None
    if t.is_timestamp(kind):
        if not t.is_timestamp(stored) or (kind.tz is None) != (stored.tz is None):
            return None
        digits = _DIGITS[stored.unit]
        return ColumnLimits(name, shown, fraction=digits if digits < _DIGITS[kind.unit] else None)
    return same if kind == _plain(stored) else None


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type as DuckDB returns it."""
    t = pa.types
    if t.is_large_string(kind):
        return pa.string()
    if t.is_large_binary(kind) or t.is_fixed_size_binary(kind):
        return pa.binary()
    if t.is_time32(kind):
        return pa.time64("us")
    if t.is_struct(kind):
        return pa.struct([(each.name, _plain(each.type)) for each in kind])
    if t.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if t.is_list(kind) or t.is_large_list(kind):
        return pa.list_(pa.field("item", _plain(kind.value_type)))
    return kind


def _bounds(kind: pa.DataType, stored: pa.DataType) -> tuple[int, int] | None:
    """Return least and greatest number of the table's column, if the stream's may exceed them."""
    if pa.types.is_decimal(stored):
        most = 10 ** (stored.precision - stored.scale) - 1
        low, high = -most, most
    else:
        low, high = _range(stored)
    least, greatest = _range(kind)
    return None if low <= least and greatest <= high else (low, high)


def _range(kind: pa.DataType) -> tuple[int, int]:
    signed = pa.types.is_signed_integer(kind)
    bits = kind.bit_width - signed
    return (-(2**bits) if signed else 0), 2**bits - 1


def check_storable(rows: pa.Schema) -> None:
    """Raise SchemaError if DuckDB cannot store a column unchanged, in a new table."""
    with client().connect(":memory:") as connection:
        for field in rows:
            sample = pa.schema([field]).empty_table()
            try:
                connection.register("sample", sample)
                stored = fetched(connection, "SELECT * FROM sample").schema.field(0).type
                [(_, shown, *_)] = connection.execute("DESCRIBE sample").fetchall()
                fits = column_limits(field.name, field.type, stored, shown) is not None
            except client().Error:
                fits = False
            if not fits:
                raise SchemaError(
                    f"column {field.name!r} is {field.type}, which a table of DuckDB cannot store "
                    "unchanged",
                    hint=f'convert it to a string: .with_columns(col("{field.name}").cast(str))',
                )


def found_target(
    connection: Any, schema: str | None, name: str, rows: pa.Schema, key: Sequence[str]
) -> WrittenTable:
    """Return the table that is written; create it if it does not exist.

    Args:
        connection: A connection of DuckDB.
        schema: Schema of the table; None for the default one.
        name: Name of the table.
        rows: Columns of the stream.
        key: Key of upserts; empty to append.

    Returns:
        The table.

    Raises:
        SchemaError: A column does not fit.
        ConfigurationError: The table has no unique key for upserts.
    """
    columns = _described(connection, schema, name)
    if not columns:
        _create(connection, schema, name, rows, key)
        columns = _described(connection, schema, name)
    label = name if schema is None else f"{schema}.{name}"
    stored = fetched(connection, f"SELECT * FROM {quoted(schema, name)} LIMIT 0").schema
    limits = []
    for field in rows:
        if field.name not in columns:
            to_add = "add it to the table: ALTER TABLE"
            raise missing_column(field.name, field.type, list(columns), label, to_add)
        shown, nullable, _, is_generated = columns[field.name]
        if is_generated:
            raise SchemaError(
                f"the column {field.name!r} of the table {label} is generated",
                hint="drop it with .select(...)",
            )
        fit = column_limits(field.name, field.type, stored.field(field.name).type, shown)
        if fit is None:
            raise unfit_type(field.name, field.type, shown, label)
        limits.append(fit if nullable else _not_null(fit))
    for each, (_, nullable, has_default, is_generated) in columns.items():
        if each not in rows.names and not (nullable or has_default or is_generated):
            raise SchemaError(
                f"the table {label} requires a value for {each!r}, but the rows have no such column",
                hint="add the column to the rows, or set a default in the table",
            )
    if key:
        _check_unique(connection, schema, name, label, key)
    return WrittenTable(schema, name, tuple(limits))


def _not_null(limits: ColumnLimits) -> ColumnLimits:
    return ColumnLimits(
        limits.name, limits.type, nullable=False, bounds=limits.bounds, fraction=limits.fraction
    )


def _described(
    connection: Any, schema: str | None, name: str
) -> dict[str, tuple[str, bool, bool, bool]]:
    """Return a table's columns: DuckDB's type, whether it is nullable, has a default, is generated."""
    found = connection.execute(
        "SELECT column_name, data_type, is_nullable = 'YES', column_default IS NOT NULL, "
        "is_generated = 'ALWAYS' FROM information_schema.columns "
        "WHERE table_catalog = current_database() "
        "AND table_schema = coalesce($schema, current_schema()) "
        "AND table_name = $name ORDER BY ordinal_position",
        {"schema": schema, "name": name},
    ).fetchall()
    return {
        column: (kind, bool(null), bool(default), bool(made))
        for column, kind, null, default, made in found
    }


def _create(
    connection: Any, schema: str | None, name: str, rows: pa.Schema, key: Sequence[str]
) -> None:
    connection.register("rows_of_stream", rows.empty_table())
    described = connection.execute("DESCRIBE rows_of_stream").fetchall()
    connection.unregister("rows_of_stream")
    parts = []
    for (column, kind, *_), field in zip(described, rows, strict=True):
        parts.append(f"{quoted(column)} {kind}" + ("" if field.nullable else " NOT NULL"))
    if key:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, key))})")
    connection.execute(f"CREATE TABLE {quoted(schema, name)} ({', '.join(parts)})")


def _check_unique(
    connection: Any, schema: str | None, name: str, label: str, key: Sequence[str]
) -> None:
    unique = [{*columns} for columns, _ in unique_keys(connection, schema, name)]
    if {*key} not in unique:
        raise ConfigurationError(
            f"the table {label} has no PRIMARY KEY or UNIQUE on {', '.join(key)}",
            hint="create the table with one, or choose another key",
        )


def unique_keys(connection: Any, schema: str | None, name: str) -> list[tuple[list[str], bool]]:
    """Return the columns of a table's PRIMARY KEY and UNIQUE constraints, and whether each is the
    former."""
    found = connection.execute(
        "SELECT constraint_column_names, constraint_type = 'PRIMARY KEY' FROM duckdb_constraints() "
        "WHERE database_name = current_database() "
        "AND schema_name = coalesce($schema, current_schema()) "
        "AND table_name = $name AND constraint_type IN ('PRIMARY KEY', 'UNIQUE') ORDER BY 2 DESC",
        {"schema": schema, "name": name},
    ).fetchall()
    return [(list(columns), bool(is_primary)) for columns, is_primary in found]
