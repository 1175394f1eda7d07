"""Functions of the bits of integers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns, of_one_length
from rheos.sql import bitmaps, types
from rheos.sql.expressions.table import (
    SMALL_WHOLE,
    TEXT,
    WHOLE,
    Compiler,
    Takes,
    Typed,
    computes,
    computes_named,
    function,
)
from rheos.sql.value_functions import of_values

UNSIGNED = "unsigned shift"
"""Key of the metadata of a distance: whether the operator is >>>, which sqlglot reads as >>."""

_LONG = (1 << 64) - 1


@computes_named("shiftleft", "shiftright", "shiftrightunsigned")
def shift(compiler: Compiler, node: exp.Anonymous) -> Typed:
    return _shift(compiler, node, node.name.casefold(), *node.expressions)


@computes(exp.BitwiseLeftShift, exp.BitwiseRightShift)
def shift_operator(compiler: Compiler, node: exp.Expr) -> Typed:
    how = "shiftleft" if isinstance(node, exp.BitwiseLeftShift) else "shiftright"
    how += "unsigned" * bool(node.expression.meta.get(UNSIGNED))
    return _shift(compiler, node, how, node.args["this"], node.args["expression"])


def _shift(compiler: Compiler, node: exp.Expr, how: str, *of: exp.Expr) -> Typed:
    """Shift an INT or BIGINT. Of the distance only the last five or six bits count, as in Java."""
    value, places = compiler.given(exp.Anonymous(this=how, expressions=of), [WHOLE, SMALL_WHOLE])
    kind = compiler.compile(value.node).type
    kind = types.BIGINT if kind == types.BIGINT else types.INT
    inputs = [compiler.cast(value, kind).expr, places.expr]
    return Typed(of_columns(partial(_shifted, how=how), inputs, kind), kind, node)


def _shifted(columns: Sequence[pl.Series], *, how: str) -> pl.Series:
    value, places = of_one_length(columns)
    kind = np.dtype(np.int64 if value.dtype == pl.Int64 else np.int32)
    bits = value.fill_null(0).to_numpy()
    distance = (places.fill_null(0).to_numpy() & (kind.itemsize * 8 - 1)).astype(kind)
    match how:
        case "shiftleft":
            made = np.left_shift(bits, distance)
        case "shiftright":
            made = np.right_shift(bits, distance)
        case _:
            unsigned = np.dtype(f"u{kind.name}")
            made = np.right_shift(bits.view(unsigned), distance.view(unsigned)).view(kind)
    there = value.is_not_null() & places.is_not_null()
    return pl.Series(value.name, made).zip_with(there, pl.Series([None], dtype=value.dtype))


@computes(exp.BitwiseNot)
def inverted(compiler: Compiler, node: exp.BitwiseNot) -> Typed:
    compiler.sql.only(node, ("this",))
    value = compiler.compile(node.this)
    if not types.is_integer(value.type):
        raise compiler.wrong_type("~ takes an integer", value, "write CAST(... AS BIGINT)", at=node)
    return Typed(~value.expr, value.type, node)


@function("bit_count", {"value": WHOLE}, types.INT)
def bit_count(value: pl.Expr) -> pl.Expr:
    return value.bitwise_count_ones().cast(types.INT)


@function(("getbit", "bit_get"), {"value": WHOLE, "place": SMALL_WHOLE}, pl.Int8())
def getbit(value: pl.Expr, place: pl.Expr) -> pl.Expr:
    there = place.is_between(0, 63)
    shifted = of_columns(partial(_shifted, how="shiftright"), [value, place], types.BIGINT)
    return pl.when(there).then((shifted & 1).cast(pl.Int8()))


# --- bitmaps ------------------------------------------------------------------------------------------


@function(exp.BitmapBitPosition, {"this": WHOLE}, types.BIGINT)
def bitmap_bit_position(this: pl.Expr) -> pl.Expr:
    """Return the place of the integer in its bitmap: 1 is the first of a bitmap."""
    below = (bitmaps.BITS - this % bitmaps.BITS) % bitmaps.BITS
    return pl.when(this > 0).then((this - 1) % bitmaps.BITS).otherwise(below)


@function(exp.BitmapBucketNumber, {"this": WHOLE}, types.BIGINT)
def bitmap_bucket_number(this: pl.Expr) -> pl.Expr:
    return this // bitmaps.BITS + (this % bitmaps.BITS != 0).cast(types.BIGINT)


_BITMAP = Takes("a BINARY", lambda kind: kind == pl.Binary(), pl.Binary())


@function(exp.BitmapCount, {"this": _BITMAP}, types.BIGINT)
def bitmap_count(this: pl.Expr) -> pl.Expr:
    return of_values(bitmaps.count, [this], types.BIGINT)


# --- digits -------------------------------------------------------------------------------------------


@function("bin", {"value": WHOLE}, types.TEXT)
def binary(value: pl.Expr) -> pl.Expr:
    return of_values(_binary, [value], types.TEXT)


def _binary(value: int) -> str:
    return f"{value & _LONG:b}"


@function("conv", {"number": TEXT, "base": SMALL_WHOLE, "new_base": SMALL_WHOLE}, types.TEXT)
def conv(number: pl.Expr, base: pl.Expr, new_base: pl.Expr) -> pl.Expr:
    """Convert digits of one base to another: unsigned, or with a sign if the new base is negative."""
    return of_values(_converted, [number, base, new_base], types.TEXT)


_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _converted(text: str, base: int, new_base: int) -> str | None:
    text = text.strip(" ")
    if not (2 <= base <= 36 and 2 <= abs(new_base) <= 36 and text):
        return None
    value = 0
    for digit in text.removeprefix("-"):
        place = _DIGITS.find(digit.upper()) if digit.isascii() else -1
        if not 0 <= place < base:
            break
        value = min(value * base + place, _LONG)  # Too large a number has all bits.
    is_negative = text.startswith("-")
    if is_negative and new_base > 0:
        value = -value & _LONG if value < 1 << 63 else _LONG
    if new_base < 0 and value >= 1 << 63:
        value, is_negative = -value & _LONG, True
    made = ""
    while value or not made:
        value, place = divmod(value, abs(new_base))
        made = _DIGITS[place] + made
    return f"-{made}" if is_negative and new_base < 0 else made
