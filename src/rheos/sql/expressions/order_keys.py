"""Strings in the order of values of any type: equal for equal values, and less for lesser ones.

A null within an array or a struct is the least value and equals another one, as in Spark; NaN is the
greatest number, and -0.0 equals 0.0. Arrays are ordered by the first elements that differ, then by
their lengths, and structs by the first fields that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl

from rheos.core.graph.row_functions import of_columns
from rheos.sql import types

HEX = "0123456789abcdef"
END_OF_TEXT, END_OF_LIST = "!", " "
"""The end of a string sorts before its digits, and that of a list before its elements."""
DIGITS_OF_BIGINT = 18
"""Digits of the widest decimals that are whole numbers of 64 bits, whatever their values."""
_DIGITS = 20
_MONTH_US = 30 * 86_400_000_000


def is_nested(kind: pl.DataType) -> bool:
    """Return whether values of the type are arrays, structs or maps."""
    return isinstance(kind, pl.List | pl.Struct | pl.Map)


def is_ordered(kind: pl.DataType) -> bool:
    """Return whether values of a type have an order, as all types but MAP and VARIANT do."""
    match kind:
        case pl.Struct() if kind == types.VARIANT:
            return False
        case pl.List():
            return isinstance(kind.inner, pl.DataType) and is_ordered(kind.inner)
        case pl.Struct() if not types.has_months(kind):
            inner = [each.dtype for each in kind.fields]
            return all(isinstance(each, pl.DataType) and is_ordered(each) for each in inner)
        case pl.String() | pl.Binary() | pl.Decimal() | pl.Null():
            return True
    return types.is_floating(kind) or whole_number(pl.lit(None), kind) is not None


def order_key(value: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """Return strings in the order of values of an ordered type; null for null."""
    return of_columns(partial(_keys_of_columns, kind=kind), [value], types.TEXT)


def whole_number(value: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    """Return integers in the same order; None if there is no such mapping."""
    if kind == types.BOOLEAN or types.is_integer(kind):
        return value.cast(types.BIGINT)
    if types.is_timestamp(kind):
        return value.dt.epoch("us")
    if isinstance(kind, pl.Duration):
        return value.dt.total_microseconds()
    if kind == types.MONTHS:
        return value.struct.field("interval_months").cast(types.BIGINT)
    if kind == types.CALENDAR_INTERVAL:
        # As in PostgreSQL, a month is compared as 30 days.
        months = value.struct.field("interval_months").cast(types.BIGINT)
        return months * _MONTH_US + value.struct.field("interval_microseconds")
    if kind == types.DATE:
        return value.cast(types.INT).cast(types.BIGINT)
    if isinstance(kind, pl.Decimal) and kind.precision <= DIGITS_OF_BIGINT:
        return value.to_physical().cast(types.BIGINT)
    return None


def text_of_number(number: pl.Expr, *, flipped: bool = False) -> pl.Expr:
    """Return digits in the order of integers of 64 bits, or in reverse order."""
    wide = number.cast(pl.Decimal(types.MOST_DIGITS, 0))
    half = pl.lit(1 << 63, dtype=pl.Decimal(types.MOST_DIGITS, 0))
    placed = half - 1 - wide if flipped else half + wide
    return placed.cast(types.TEXT).str.zfill(_DIGITS)


def text_of_decimal(value: pl.Expr, kind: pl.Decimal) -> pl.Expr:
    """Return strings of one length in the order of decimals: a digit for the sign, then the digits.
    Each digit of a negative number is subtracted from 9."""
    digits = value.abs().cast(types.TEXT).str.zfill(kind.precision + 2)
    negative = pl.lit("1") + digits_from_nine(digits)
    return pl.when(value < 0).then(negative).otherwise(pl.lit("2") + digits)


def digits_from_nine(digits: pl.Expr) -> pl.Expr:
    return digits.str.replace_many([*"0123456789"], [*"9876543210"])


def ordered_bits(values: pl.Series) -> pl.Series:
    """Return integers in the order of floats: NaN is the greatest, and -0.0 equals 0.0."""
    numbers = values.cast(types.DOUBLE).fill_null(0.0).to_numpy() + 0.0
    numbers = np.where(np.isnan(numbers), np.nan, numbers)
    bits = numbers.view(np.int64)
    ordered = pl.Series(values.name, np.where(bits < 0, bits ^ ((1 << 63) - 1), bits))
    return ordered.set(values.is_null(), None)


def _keys_of_columns(columns: Sequence[pl.Series], kind: pl.DataType) -> pl.Series:
    [values] = columns
    return _keys(values, kind)


def _keys(values: pl.Series, kind: pl.DataType) -> pl.Series:
    """Return the keys of a column; null for null. No key is the beginning of another one."""
    name, of = values.name, pl.col("value")
    number: pl.Expr | None
    match kind:
        case pl.List():
            return _keys_of_lists(values, kind)
        case pl.Struct() if not types.has_months(kind):
            parts = [
                _parts(values.struct.field(each.name), each.dtype).alias(str(place))
                for place, each in enumerate(kind.fields)
                if isinstance(each.dtype, pl.DataType)
            ]
            joined = pl.DataFrame(parts).select(pl.concat_str(pl.all()).alias("value")).to_series()
            return joined.set(values.is_null(), None).rename(name)
        case pl.String():
            made = of.str.encode("hex") + END_OF_TEXT
        case pl.Binary():
            made = of.bin.encode("hex") + END_OF_TEXT
        case _:
            if types.is_floating(kind):
                values, number = ordered_bits(values), of
            else:
                number = whole_number(of, kind)
            if number is not None:
                made = text_of_number(number)
            elif isinstance(kind, pl.Decimal):
                made = text_of_decimal(of, kind)
            else:
                made = of.cast(types.TEXT)  # Only nulls.
    return values.alias("value").to_frame().select(made.alias(name)).to_series()


def _parts(values: pl.Series, kind: pl.DataType) -> pl.Series:
    """Return the keys of values within others, where a null is the least one."""
    return ("1" + _keys(values, kind)).fill_null("0")


def _keys_of_lists(values: pl.Series, kind: pl.List) -> pl.Series:
    inner = kind.inner
    assert isinstance(inner, pl.DataType)
    rows = pl.DataFrame({"row": pl.arange(0, len(values), eager=True), "value": values})
    elements = rows.filter(pl.col("value").list.len() > 0).explode("value")
    parts = elements.with_columns(_parts(elements["value"], inner).alias("value"))
    joined = parts.group_by("row", maintain_order=True).agg(pl.col("value").str.join(""))
    found = rows.select("row").join(joined, on="row", how="left", maintain_order="left")["value"]
    keys = found.fill_null("") + END_OF_LIST
    return keys.set(values.is_null(), None).rename(values.name)
