"""Columns of ClickHouse: which values of a stream they store unchanged."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from rheos.connectors.sql_database.column_limits import ColumnLimits

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Digits of a second's fraction, by Arrow's unit."""
_INTEGER = re.compile(r"(U?)Int(8|16|32|64)")
_DECIMAL = re.compile(r"Decimal\((\d+), (\d+)\)")
_TIME = re.compile(r"DateTime(?:\('[^']*'\))?")
_FINE_TIME = re.compile(r"DateTime64\((\d)(?:, '[^']*')?\)")
_DATES: Mapping[str, tuple[int, int]] = {"Date": (1970, 2148), "Date32": (1900, 2299)}
_WRAPPERS = ("Nullable(", "LowCardinality(")


def plain_type(type: str) -> tuple[str, bool]:
    """Return a type without Nullable and LowCardinality, and whether it has NULL."""
    nullable = False
    while type.startswith(_WRAPPERS):
        nullable |= type.startswith("Nullable(")
        type = type.partition("(")[2][:-1]
    return type, nullable


def limits_of(name: str, type: str, kind: pa.DataType) -> ColumnLimits | None:
    """Return the limits of a table's column for a stream's column.

    Args:
        name: Name of the column.
        type: Type of the table's column.
        kind: Type of the stream's column.

    Returns:
        The limits; None if the column cannot store such values unchanged.
    """
    stored, nullable = plain_type(type)
    t = pa.types
    if t.is_boolean(kind):
        return ColumnLimits(name, type, nullable) if stored in ("Bool", "UInt8") else None
    if t.is_integer(kind):
        found = _INTEGER.fullmatch(stored)
        if found is None:
            return None
        bits = int(found[2])
        bounds = (0, 2**bits - 1) if found[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return ColumnLimits(name, type, nullable, bounds)
    if t.is_floating(kind):
        fits = stored == "Float64" or (stored == "Float32" and kind.bit_width <= 32)
        return ColumnLimits(name, type, nullable) if fits else None
    if t.is_decimal(kind):
        found = _DECIMAL.fullmatch(stored)
        if found is None:
            return None
        precision, scale = int(found[1]), int(found[2])
        fits = kind.scale <= scale and kind.precision - kind.scale <= precision - scale
        return ColumnLimits(name, type, nullable) if fits else None
    if t.is_date32(kind):
        years = _DATES.get(stored)
        return None if years is None else ColumnLimits(name, type, nullable, years=years)
    if t.is_timestamp(kind):
        return _limits_of_time(name, type, stored, nullable, kind)
    is_string = t.is_string(kind) or t.is_large_string(kind)
    if is_string or t.is_binary(kind) or t.is_large_binary(kind):
        return ColumnLimits(name, type, nullable) if stored == "String" else None
    return None


def _limits_of_time(
    name: str, type: str, stored: str, nullable: bool, kind: pa.DataType
) -> ColumnLimits | None:
    fine = _FINE_TIME.fullmatch(stored)
    if fine is not None:
        digits = int(fine[1])
        years = (1900, 2261 if digits == 9 else 2299)
    elif _TIME.fullmatch(stored):
        digits, years = 0, (1970, 2105)
    else:
        return None
    fraction = None if digits >= _DIGITS[kind.unit] else digits
    return ColumnLimits(name, type, nullable, fraction=fraction, years=years)


def type_for(kind: pa.DataType, nullable: bool) -> str | None:
    """Return the type of a new column that stores all values of a stream's column, or
    None."""
    t = pa.types
    if t.is_boolean(kind):
        found = "Bool"
    elif t.is_integer(kind):
        found = f"{'U' if t.is_unsigned_integer(kind) else ''}Int{kind.bit_width}"
    elif t.is_floating(kind):
        found = "Float32" if kind.bit_width <= 32 else "Float64"
    elif t.is_decimal(kind):
        found = f"Decimal({kind.precision}, {kind.scale})"
    elif t.is_date32(kind):
        found = "Date32"
    elif t.is_timestamp(kind):
        found = f"DateTime64({_DIGITS[kind.unit]}, 'UTC')"
    elif any(f(kind) for f in (t.is_string, t.is_large_string, t.is_binary, t.is_large_binary)):
        found = "String"
    else:
        return None
    return f"Nullable({found})" if nullable else found
