"""Literals and names: numbers, strings, columns, NULL, intervals."""

from __future__ import annotations

import math
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
