"""Columns of tables in SQL databases: which values of a stream they store unchanged, and the types of
new columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

import pyarrow as pa

from rheos.connectors.sql_database.address import DatabaseSystem

_BYTES_OF_TEXT = {
    "TINYTEXT": 255,
    "TINYBLOB": 255,
    "TEXT": 65_535,
    "BLOB": 65_535,
    "MEDIUMTEXT": 16_777_215,
    "MEDIUMBLOB": 16_777_215,
}
_BITS_OF_INTEGER = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INTEGER": 32, "BIGINT": 64}
_FRACTIONS = {"s": 0, "ms": 3, "us": 6, "ns": 6}
_MOST_DIGITS = 38
"""Maximum number of digits of a decimal that Polars represents."""


@dataclass(frozen=True)
class ColumnLimits:
    """Values of a stream's column that a table's column stores unchanged."""

    name: str
    type: str
    """Type of the table's column, for people."""
    nullable: bool = True
    bounds: tuple[int, int] | None = None
    """Least and greatest whole number; None if the column takes all of the stream's."""
    characters: int | None = None
    size_bytes: int | None = None
    padded: bool = False
    """Whether the database removes or adds blanks at the end."""
    zero_bytes: bool = True
    """Whether strings may contain a zero byte."""
    fraction: int | None = None
    """Number of digits of the fraction of a second; None if the column takes all of the stream's."""
    nan: bool = True
    infinity: bool = True
    years: tuple[int, int] | None = None
    """First and last year of a time."""


def limits_of(backend: DatabaseSystem, column: Any, kind: pa.DataType) -> ColumnLimits | None:
    """Return the limits of a table's column for a stream's column of a type.

    Args:
        backend: The system.
        column: The column as SQLAlchemy's inspector describes it.
        kind: The type of the stream's column.

    Returns:
        The limits; None if the column cannot store such values unchanged.
    """
    from sqlalchemy import types

    stored, t = column["type"], pa.types
    name, shown, null = column["name"], str(stored), bool(column["nullable"])
    sqlite = backend is DatabaseSystem.SQLITE
    if t.is_boolean(kind):
        as_number = isinstance(stored, types.Integer) and backend is not DatabaseSystem.POSTGRES
        return (
            ColumnLimits(name, shown, null) if as_number or isinstance(stored, types.Boolean) else None
        )
    if t.is_integer(kind):
        bounds = _whole_numbers(backend, stored)
        return None if bounds is None else ColumnLimits(name, shown, null, _narrower(bounds, kind))
    if t.is_floating(kind):
        if not isinstance(stored, types.Float) or getattr(stored, "scale", None) is not None:
            return None
        if t.is_float64(kind) and _is_single(backend, stored):
            return None
        return ColumnLimits(
            name,
            shown,
            null,
            nan=backend is DatabaseSystem.POSTGRES,
            infinity=backend is not DatabaseSystem.MYSQL,
        )
    if t.is_decimal(kind):
        is_exact = isinstance(stored, types.Numeric) and not isinstance(stored, types.Float)
        if kind.precision > _MOST_DIGITS or sqlite or not is_exact:
            return None
        if stored.precision is None:
            return ColumnLimits(name, shown, null) if backend is DatabaseSystem.POSTGRES else None
        scale = stored.scale or 0
        fits = scale >= kind.scale and stored.precision - scale >= kind.precision - kind.scale
        return ColumnLimits(name, shown, null) if fits else None
    if t.is_string(kind) or t.is_large_string(kind):
        return _of_strings(backend, name, shown, null, stored)
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind):
        if not isinstance(stored, types._Binary) or (type(stored).__name__ == "BINARY" and not sqlite):
            return None
        return ColumnLimits(name, shown, null, size_bytes=_size(backend, stored))
    if t.is_date(kind):
        years = (1000, 9999) if backend is DatabaseSystem.MYSQL else (1, 9999)
        return ColumnLimits(name, shown, null, years=years) if isinstance(stored, types.Date) else None
    if t.is_time(kind):
        if not isinstance(stored, types.Time) or getattr(stored, "timezone", False):
            return None
        return ColumnLimits(name, shown, null, fraction=_fraction(backend, stored, kind))
    if t.is_timestamp(kind):
        return _of_timestamps(backend, name, shown, null, stored, kind)
    return None


def _whole_numbers(backend: DatabaseSystem, stored: Any) -> tuple[int, int] | None:
    from sqlalchemy import types

    if isinstance(stored, types.Integer):
        if backend is DatabaseSystem.SQLITE:
            bits = 64
        else:
            bits = _BITS_OF_INTEGER.get(type(stored).__name__, 32)
        if getattr(stored, "unsigned", False):
            return 0, 2**bits - 1
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    exact = isinstance(stored, types.Numeric) and not isinstance(stored, types.Float)
    if not exact or backend is DatabaseSystem.SQLITE:
        return None
    whole = _MOST_DIGITS if stored.precision is None else stored.precision - (stored.scale or 0)
    return -(10**whole) + 1, 10**whole - 1


def _narrower(bounds: tuple[int, int], kind: pa.DataType) -> tuple[int, int] | None:
    """Return the bounds if values of the type may exceed them."""
    signed = pa.types.is_signed_integer(kind)
    bits = kind.bit_width - signed
    low, high = (-(2**bits) if signed else 0), 2**bits - 1
    return None if bounds[0] <= low and high <= bounds[1] else bounds


def _is_single(backend: DatabaseSystem, stored: Any) -> bool:
    name = type(stored).__name__
    match backend:
        case DatabaseSystem.SQLITE:
            return False
        case DatabaseSystem.MYSQL:
            return name == "FLOAT" and (stored.precision or 0) <= 24
        case DatabaseSystem.POSTGRES:
            return name == "REAL"
        case _:
            assert_never(backend)


def _of_strings(
    backend: DatabaseSystem, name: str, shown: str, null: bool, stored: Any
) -> ColumnLimits | None:
    from sqlalchemy import types

    texts = isinstance(stored, types.String) and type(stored).__name__ != "SET"
    match backend:
        case DatabaseSystem.SQLITE:
            return ColumnLimits(name, shown, null) if texts else None
        case DatabaseSystem.MYSQL:
            if not texts:
                return None
            is_long = type(stored).__name__ in {*_BYTES_OF_TEXT, "LONGTEXT"}
            return ColumnLimits(
                name,
                shown,
                null,
                characters=None if is_long else stored.length,
                size_bytes=_size(backend, stored) if is_long else None,
                padded=type(stored).__name__ in ("CHAR", "NCHAR"),
            )
        case DatabaseSystem.POSTGRES:
            if not texts and not isinstance(stored, (types.JSON, types.Uuid)):
                return None
            return ColumnLimits(
                name,
                shown,
                null,
                characters=getattr(stored, "length", None) if texts else None,
                padded=type(stored).__name__ == "CHAR",
                zero_bytes=False,
            )
        case _:
            assert_never(backend)


def _size(backend: DatabaseSystem, stored: Any) -> int | None:
    if backend is not DatabaseSystem.MYSQL:
        return None
    length: int | None = stored.length
    return length or _BYTES_OF_TEXT.get(type(stored).__name__)


def _of_timestamps(
    backend: DatabaseSystem, name: str, shown: str, null: bool, stored: Any, kind: pa.DataType
) -> ColumnLimits | None:
    from sqlalchemy import types

    if not isinstance(stored, types.DateTime):
        return None
    match backend:
        case DatabaseSystem.POSTGRES:
            zoned, years = bool(stored.timezone), (1, 9999)
        case DatabaseSystem.MYSQL:
            if isinstance(stored, types.TIMESTAMP):  # Its years are 1970 to 2037.
                return None
            zoned, years = False, (1000, 9999)
        case DatabaseSystem.SQLITE:
            zoned, years = False, (1, 9999)
        case _:
            assert_never(backend)
    if zoned != (kind.tz is not None):
        return None
    return ColumnLimits(name, shown, null, fraction=_fraction(backend, stored, kind), years=years)


def _fraction(backend: DatabaseSystem, stored: Any, kind: pa.DataType) -> int | None:
    """Return the digits of a fraction that the column stores, if those of the type may exceed them."""
    match backend:
        case DatabaseSystem.MYSQL:
            digits = stored.fsp or 0
        case DatabaseSystem.POSTGRES:
            precision = getattr(stored, "precision", None)
            digits = 6 if precision is None else precision
        case DatabaseSystem.SQLITE:
            digits = 6
        case _:
            assert_never(backend)
    return digits if digits < _FRACTIONS[kind.unit] or kind.unit == "ns" else None


def new_type(backend: DatabaseSystem, kind: pa.DataType, in_key: bool) -> Any:
    """Return SQLAlchemy's type of a new column for values of a type; None if the database cannot store
    them unchanged."""
    from sqlalchemy import types
    from sqlalchemy.dialects import mysql

    t, on_mysql = pa.types, backend is DatabaseSystem.MYSQL
    if t.is_boolean(kind):
        return types.Boolean()
    if t.is_integer(kind):
        bits = kind.bit_width if t.is_signed_integer(kind) else kind.bit_width + 1
        if bits <= 16:
            return types.SmallInteger()
        if bits <= 64:
            return types.Integer() if bits <= 32 else types.BigInteger()
        return types.Numeric(20, 0) if backend is not DatabaseSystem.SQLITE else types.BigInteger()
    if t.is_float32(kind):
        return mysql.FLOAT() if on_mysql else types.REAL()
    if t.is_float64(kind):
        return types.Double()
    if t.is_decimal(kind):
        fits = kind.precision <= _MOST_DIGITS and backend is not DatabaseSystem.SQLITE
        return types.Numeric(kind.precision, kind.scale) if fits else None
    if t.is_string(kind) or t.is_large_string(kind):
        if on_mysql:
            return mysql.VARCHAR(255) if in_key else mysql.LONGTEXT()
        return types.Text()
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind):
        if on_mysql:
            return mysql.VARBINARY(255) if in_key else mysql.LONGBLOB()
        return types.LargeBinary()
    if t.is_date(kind):
        return types.Date()
    if t.is_time(kind):
        return mysql.TIME(fsp=6) if on_mysql else types.Time()
    if t.is_timestamp(kind):
        if kind.tz is None:
            return mysql.DATETIME(fsp=6) if on_mysql else types.DateTime()
        return types.TIMESTAMP(timezone=True) if backend is DatabaseSystem.POSTGRES else None
    return None
