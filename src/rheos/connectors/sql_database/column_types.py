"""Arrow types of columns that are read, the SQL that selects them, and the conversion of their values.

Nothing is converted silently: each value must have the form that the selecting SQL produces, and must
fit the Arrow type.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, assert_never

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.mysql.column_families import ColumnFamily, arrow_column
from rheos.connectors.sql_database.address import DatabaseSystem
from rheos.core.errors import InputError
from rheos.formats.decimal_text import cast_text

_DIGITS = 38
_DIGITS_OF_FLOATS = 15
"""Number of digits of a decimal that SQLite, which stores it as a float, returns unchanged."""
_BITS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 32, "INTEGER": 32, "BIGINT": 64, "YEAR": 16}


def read_as(backend: DatabaseSystem, stored: Any) -> pa.DataType | None:
    """Return the default Arrow type of a column.

    Args:
        backend: The system.
        stored: The column's type, as SQLAlchemy's inspector describes it.

    Returns:
        The type; None if no Arrow type has the values of the column.
    """
    from sqlalchemy import types

    name = type(stored).__name__
    on_postgres = backend is DatabaseSystem.POSTGRES
    if isinstance(stored, types.Boolean):
        return pa.bool_()
    if name == "BIT":
        return pa.string() if on_postgres else None
    if isinstance(stored, types.Integer) or name == "YEAR":
        bits = 64 if backend is DatabaseSystem.SQLITE else _BITS.get(name, 32)
        sign = "u" if getattr(stored, "unsigned", False) and name != "YEAR" else ""
        return getattr(pa, f"{sign}int{bits}")()
    if isinstance(stored, types.Float):
        is_single = name == ("REAL" if on_postgres else "FLOAT")
        return pa.float32() if is_single and backend is not DatabaseSystem.SQLITE else pa.float64()
    if isinstance(stored, types.Numeric):
        return _decimals(backend, stored)
    if isinstance(stored, types._Binary):
        return pa.binary()
    if isinstance(stored, types.DateTime):
        zoned = stored.timezone if on_postgres else name == "TIMESTAMP"
        return pa.timestamp("us", "UTC" if zoned and backend is not DatabaseSystem.SQLITE else None)
    if isinstance(stored, types.Date):
        return pa.date32()
    if isinstance(stored, types.Time):
        if backend is DatabaseSystem.MYSQL:
            return pa.duration("us")  # Up to 838 hours, and negative.
        return pa.string() if getattr(stored, "timezone", False) else pa.time64("us")
    is_text = isinstance(stored, types.String | types.Enum | types.JSON | types.Uuid)
    return pa.string() if is_text or on_postgres else None


def _decimals(backend: DatabaseSystem, stored: Any) -> pa.DataType:
    precision, scale = stored.precision, stored.scale or 0
    known = precision is not None and 0 <= scale <= precision
    if backend is DatabaseSystem.SQLITE:
        exact = known and precision <= _DIGITS_OF_FLOATS
        return pa.decimal128(precision, scale) if exact else pa.float64()
    return pa.decimal128(precision, scale) if known and precision <= _DIGITS else pa.string()


def is_readable(kind: pa.DataType) -> bool:
    """Return whether columns can be read as an Arrow type."""
    t = pa.types
    return bool(
        t.is_boolean(kind)
        or t.is_integer(kind)
        or t.is_float32(kind)
        or t.is_float64(kind)
        or t.is_decimal128(kind)
        or _is_text(kind)
        or _is_binary(kind)
        or t.is_date32(kind)
        or _is_clock(kind)
    )


def selected(backend: DatabaseSystem, column: str, kind: pa.DataType) -> str:
    """Return the SQL that selects a column, so that its values have the form `arrow_values` expects.

    Args:
        backend: The system.
        column: The quoted name of the column.
        kind: The Arrow type as which the column is read.

    Returns:
        The SQL of one value.
    """
    t = pa.types
    as_text = t.is_decimal(kind) or t.is_date(kind) or _is_clock(kind)
    match backend:
        case DatabaseSystem.SQLITE:
            return column
        case DatabaseSystem.MYSQL:
            if t.is_floating(kind):
                return f"CAST({column} AS DOUBLE)"  # The server prints only six digits of a FLOAT.
            return f"CAST({column} AS CHAR)" if as_text else column
        case DatabaseSystem.POSTGRES:
            if t.is_floating(kind):
                return f"CAST({column} AS DOUBLE PRECISION)"
            return f"CAST({column} AS TEXT)" if as_text or _is_text(kind) else column
        case _:
            assert_never(backend)


def arrow_values(
    backend: DatabaseSystem, values: Sequence[Any], field: pa.Field, table: str
) -> pa.Array:
    """Convert the values of a column.

    Args:
        backend: The system.
        values: The values, which `selected` has selected.
        field: Name and Arrow kind of the column.
        table: The table, for people.

    Returns:
        The values as an Arrow array.

    Raises:
        InputError: A value does not fit the type.
    """
    place = f"the column {field.name!r} of {table}"
    try:
        column = _converted(backend, values, field.type, place)
    except (pa.ArrowException, pl.exceptions.PolarsError, OverflowError, ValueError) as error:
        raise InputError(
            f"{place} has a value that does not fit {field.type}: {error}",
            hint="declare a suitable type in schema=, or convert the column in a query",
        ) from None
    if column.null_count and not field.nullable:
        raise InputError(
            f"{place} is NULL in a row, but schema= declares it as not null",
            hint="declare the column as nullable, or leave out such rows",
        )
    return column


def _converted(
    backend: DatabaseSystem, values: Sequence[Any], kind: pa.DataType, place: str
) -> pa.Array:
    t = pa.types
    if t.is_boolean(kind):
        _check(values, bool, int)
        if any(value not in (0, 1, None) for value in values):
            raise ValueError("a boolean is 0 or 1")
        return pa.array([None if value is None else value == 1 for value in values], kind)
    if t.is_integer(kind):
        _check(values, int)
        return pa.array(values, kind)
    if t.is_floating(kind):
        _check(values, float, int)
        return _exact_floats(pa.array(values, pa.float64()), kind)
    if _is_binary(kind):
        _check(values, bytes)
        return pa.array(values, kind)
    if t.is_decimal(kind) and backend is DatabaseSystem.SQLITE:
        _check(values, int, float, str)
        values = [value if value is None else str(value) for value in values]
    elif _is_text(kind) and backend is DatabaseSystem.MYSQL:
        values = [str(value) if isinstance(value, Decimal) else value for value in values]
    _check(values, str)
    text = pa.array(values, pa.string())
    if t.is_duration(kind):
        return arrow_column(values, ColumnFamily.TIME, kind, "fail", place)
    if t.is_time(kind):
        clock = pl.Series(pl.from_arrow(text)).str.to_time("%H:%M:%S%.f")
        return clock.to_arrow().cast(kind)
    if t.is_timestamp(kind) and kind.tz is not None and backend is not DatabaseSystem.POSTGRES:
        return pc.assume_timezone(text.cast(pa.timestamp(kind.unit)), "UTC").cast(kind)
    return text.cast(kind) if _is_text(kind) else cast_text(text, kind)


def _check(values: Sequence[Any], *kinds: type) -> None:
    """Raise ValueError if a value has another type. Arrow would truncate floats and decode bytes."""
    for wrong in {type(value) for value in values} - {*kinds, type(None)}:
        value = next(value for value in values if type(value) is wrong)
        raise ValueError(f"it is a {wrong.__name__}: {str(value)[:100]!r}")


def _exact_floats(values: pa.Array, kind: pa.DataType) -> pa.Array:
    made = values.cast(kind, safe=False)
    same = pc.or_(pc.equal(made.cast(pa.float64()), values), pc.is_nan(values))
    if pc.any(pc.invert(same)).as_py():
        raise ValueError("it has more digits")
    return made


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_clock(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_timestamp(kind) or t.is_time64(kind) or t.is_duration(kind))
