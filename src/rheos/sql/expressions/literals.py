"""Literals and names: numbers, strings, columns, NULL, intervals."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import polars as pl
from sqlglot import exp

from rheos.core.errors import ProgramError
from rheos.sql import types
from rheos.sql.expressions.table import Compiler, Typed, computes
from rheos.sql.text import SqlText


@computes(exp.Literal)
def literal(compiler: Compiler, node: exp.Literal) -> Typed:
    value, kind = literal_value(compiler.sql, node)
    return _constant(value, kind, node)


def literal_value(sql: SqlText, node: exp.Literal) -> tuple[Any, pl.DataType]:
    """Return the value of a literal and its type. Raise ProgramError."""
    if node.is_string:
        return node.this, types.TEXT
    text = str(node.this)
    if "e" in text.lower():
        number = float(text)
        if math.isinf(number):
            raise sql.error(
                f"{text} exceeds the range of DOUBLE", node, "the largest is 1.7976931348623157e308"
            )
        return number, types.DOUBLE
    if "." in text:
        value = Decimal(text)
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        scale = -exponent
        if max(len(digits), scale) > types.MOST_DIGITS:
            raise _too_long(sql, node)
        return value, pl.Decimal(max(len(digits), scale), scale)
    if len(text.lstrip("0")) > types.MOST_DIGITS:
        raise _too_long(sql, node)
    whole = int(text)
    for kind, most in ((types.INT, 1 << 31), (types.BIGINT, 1 << 63)):
        if whole < most:
            return whole, kind
    return Decimal(whole), pl.Decimal(len(str(whole)), 0)


def _too_long(sql: SqlText, node: exp.Literal) -> ProgramError:
    return sql.error(
        f"a number has at most {types.MOST_DIGITS} digits", node, "write 1e40 for a DOUBLE"
    )


@computes(exp.RawString)
def raw_string(compiler: Compiler, node: exp.RawString) -> Typed:
    return _constant(node.name, types.TEXT, node)


@computes(exp.HexString)
def hex_string(compiler: Compiler, node: exp.HexString) -> Typed:
    """Compile X'1F': BINARY."""
    digits = str(node.name)
    try:
        return _constant(bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)), pl.Binary(), node)
    except ValueError:
        raise compiler.sql.error(
            "a BINARY literal has hexadecimal digits", node, "write X'1F'"
        ) from None


def _constant(value: object, kind: pl.DataType, node: exp.Expr) -> Typed:
    return Typed(pl.lit(value, dtype=kind), kind, node, value, is_constant=True)


@computes(exp.Boolean)
def boolean(compiler: Compiler, node: exp.Boolean) -> Typed:
    return _constant(bool(node.this), types.BOOLEAN, node)


@computes(exp.Null)
def null(compiler: Compiler, node: exp.Null) -> Typed:
    return _constant(None, types.NULL, node)


@computes(exp.Column)
def column(compiler: Compiler, node: exp.Column) -> Typed:
    return compiler.columns.column(node)


@computes(exp.Paren)
def paren(compiler: Compiler, node: exp.Paren) -> Typed:
    compiler.sql.only(node, ("this",))
    return compiler.compile(node.this)


@computes(exp.Interval)
def interval(compiler: Compiler, node: exp.Interval) -> Typed:
    length = interval_of(compiler.sql, node)
    if isinstance(length, int):
        raise compiler.sql.error(
            "an interval in months can only be added to a DATE or a TIMESTAMP",
            node,
            "write ts + INTERVAL '1' MONTH",
        )
    return _constant(length, types.INTERVAL, node)


_UNITS = {
    "MICROSECOND": timedelta(microseconds=1),
    "MILLISECOND": timedelta(milliseconds=1),
    "SECOND": timedelta(seconds=1),
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
    "DAY": timedelta(days=1),
    "WEEK": timedelta(weeks=1),
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def interval_of(sql: SqlText, node: exp.Interval) -> timedelta | int:
    """Return the length of an interval; a number of months if its unit is months or years. Raises
    ProgramError."""
    sql.only(node, ("this", "unit"))
    unit = node.args.get("unit")
    hint = "write INTERVAL '10' MINUTE"
    value = node.this
    negative = isinstance(value, exp.Neg)
    if isinstance(value, exp.Neg):
        value = value.this
    if not isinstance(value, exp.Literal) or not isinstance(unit, exp.Var):
        raise sql.error("an interval is a literal number and a unit", node, hint)
    word = unit.name.upper().removesuffix("S")
    number = str(value.this).strip()
    if not re.fullmatch(r"[+-]?\d+(\.\d{1,6})?", number):
        raise sql.error(f"{number!r} is not a valid number of {word.lower()}s", node, hint)
    amount = Decimal(number) * (-1 if negative else 1)
    if word in _MONTHS and amount == int(amount):
        return int(amount) * _MONTHS[word]
    if word not in _UNITS:
        raise sql.error(f"{unit.name} is not a unit of an interval", node, hint)
    try:
        micros = amount * (_UNITS[word] // timedelta(microseconds=1))
        return timedelta(microseconds=int(micros))
    except OverflowError:
        raise sql.error("the interval is too long", node, hint) from None
