"""Casts as PostgreSQL has them: they round numbers, and use its forms of strings."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph import decimal_types
from rheos.core.graph.row_functions import of_columns
from rheos.sql import postgres_values, types
from rheos.sql.expressions import calendar_intervals
from rheos.sql.expressions.casts import cast as spark_cast
from rheos.sql.expressions.casts import named_type
from rheos.sql.expressions.table import Compiler, Typed, computes
from rheos.sql.java_numbers import WHITESPACE
from rheos.sql.postgres_values import levels_of
from rheos.sql.value_functions import of_values, over_operands

_WIDE = pl.Decimal(types.MOST_DIGITS, 18)
"""NUMERIC without digits, of values whose digits the query does not name."""
_BINARY = pl.Binary()


class PostgresCast(exp.Cast):
    """A cast in the dialect of PostgreSQL."""

    _sql_names = ["CAST"]


@computes(PostgresCast)
def cast(compiler: Compiler, node: PostgresCast) -> Typed:
    to_node = node.to
    value = compiler.compile(node.this)
    if to_node.this == exp.DType.INTERVAL:
        return _interval(compiler, node, value)
    others = (exp.DType.JSON, exp.DType.JSONB, exp.DType.VARIANT)
    if to_node.this in others or value.type == types.VARIANT or value.type == types.NULL:
        return spark_cast(compiler, exp.Cast(this=node.this, to=to_node))
    length = _length_of(to_node)
    if to_node.this == exp.DType.DECIMAL and not to_node.expressions:
        to: pl.DataType = _numeric(value)
    else:
        to = types.TEXT if length is not None else named_type(compiler.sql, to_node)
    if isinstance(value.constant, str):
        value, to = _of_constant(value, value.constant, to)
    if types.is_timestamp(to) or to == types.DATE:
        value = compiler.cast_text(value, to)
    made = value.expr if value.type == to else cast_value(value.expr, value.type, to)
    if made is None:
        raise compiler.sql.wrong_type(
            f"{types.name(value.type)} cannot be cast to {types.name(to)}", node, "leave out the cast"
        )
    return Typed(made if length is None else made.str.head(length), to, node)


_COMPACT_DAY = re.compile(r"\s*(\d{4})(\d{2})(\d{2})\b", re.ASCII)


def _of_constant(value: Typed, text: str, to: pl.DataType) -> tuple[Typed, pl.DataType]:
    """Return a constant string, 20260301 as a day, and the type: of an array with as many dimensions as
    the string has."""
    if isinstance(to, pl.List):
        dimensions = len(text) - len(text.lstrip("{ "))
        return value, _list_type(_innermost(to), max(1, text[:dimensions].count("{")))
    if _COMPACT_DAY.match(text) and (types.is_timestamp(to) or to == types.DATE):
        text = _COMPACT_DAY.sub(r"\1-\2-\3", text)
        value = replace(value, expr=pl.lit(text), constant=text)
    return value, to


def _innermost(kind: pl.DataType) -> pl.DataType:
    return _innermost(kind.inner) if isinstance(kind, pl.List) else kind  # type: ignore[arg-type]


def _length_of(to: exp.DataType) -> int | None:
    """Return n of CHAR(n) and VARCHAR(n); None for other types."""
    if to.this not in (exp.DType.CHAR, exp.DType.VARCHAR, exp.DType.NCHAR, exp.DType.NVARCHAR):
        return None
    if to.expressions:
        return int(to.expressions[0].name)
    return 1 if to.this == exp.DType.CHAR else None


def _numeric(value: Typed) -> pl.DataType:
    """Return the type of NUMERIC without digits: it keeps those of a number or of a constant."""
    if types.is_decimal(value.type):
        return value.type
    if types.is_integer(value.type):
        return types.as_decimal(value.type)
    if isinstance(value.constant, str):
        return _digits_of(value.constant) or _WIDE
    return _WIDE


def _digits_of(text: str) -> pl.Decimal | None:
    """Return the type of a constant with its digits; None if it is no number, or has too many."""
    try:
        _, digits, exponent = Decimal(text.strip()).as_tuple()
    except InvalidOperation:
        return None
    if not isinstance(exponent, int) or abs(exponent) > types.MOST_DIGITS:
        return None
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    return decimal_types.of_constant(unscaled, max(-exponent, 0))


def cast_value(value: pl.Expr, kind: pl.DataType, to: pl.DataType) -> pl.Expr | None:
    """Return the values as another type, null where they do not fit; None if there is no such cast."""
    if kind == to:
        return value
    match to:
        case pl.String():
            return _to_text(value, kind)
        case pl.Boolean() if kind == types.TEXT:
            return of_values(postgres_values.boolean_of, [value], types.BOOLEAN)
        case pl.Binary() if kind == types.TEXT:
            return of_values(postgres_values.bytes_of, [value], _BINARY)
        case pl.List() if kind == types.TEXT:
            levels = levels_of(to)
            texts = _list_type(types.TEXT, levels)
            read = partial(postgres_values.lists_of_texts, levels=levels)
            return cast_value(of_columns(read, [value], texts), texts, to)
        case pl.List() if isinstance(kind, pl.List):
            assert isinstance(kind.inner, pl.DataType)
            assert isinstance(to.inner, pl.DataType)
            element = cast_value(pl.element(), kind.inner, to.inner)
            return None if element is None else value.list.eval(element)
        case pl.Date() | pl.Datetime() if kind == types.TEXT:
            value = value.str.replace(r"^\s*(\d{4})(\d{2})(\d{2})\b", "${1}-${2}-${3}")
    if types.is_integer(to):
        return _to_whole(value, kind, to)
    return types.cast(value, kind, to)


def _list_type(inner: pl.DataType, levels: int) -> pl.DataType:
    return inner if levels == 0 else pl.List(_list_type(inner, levels - 1))


def _to_whole(value: pl.Expr, kind: pl.DataType, to: pl.DataType) -> pl.Expr | None:
    """Round to an integer: halves of decimals away from zero, of floats to the even number."""
    if types.is_decimal(kind):
        whole = value.cast(pl.Decimal(types.MOST_DIGITS, 0), strict=False)
        return whole.cast(to, strict=False)
    if types.is_floating(kind):
        made = of_values(postgres_values.whole_of, [value.cast(types.DOUBLE)], types.DOUBLE)
        return made.cast(to, strict=False)
    if types.is_integer(kind):
        return value.cast(to, strict=False)
    if kind == types.TEXT:
        return types.whole_number_of(value, r"\d+").cast(to, strict=False)
    return types.cast(value, kind, to)


def _to_text(value: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    match kind:
        case pl.Float32() | pl.Float64():
            digits = 6 if kind == pl.Float32() else 15
            write = partial(postgres_values.real_text, digits=digits)
            return of_values(write, [value.cast(types.TEXT)], types.TEXT)
        case pl.Decimal():
            return value.cast(types.TEXT)
        case pl.Binary():
            return of_values(postgres_values.hex_text, [value], types.TEXT)
        case pl.Duration():
            return of_values(postgres_values.interval_text, [value], types.TEXT)
        case pl.Struct() if types.has_months(kind):
            return over_operands(partial(_text_of_interval, kind=kind), [value], [kind])
        case pl.Datetime() if kind.time_zone is not None:
            plain = types.cast(value, kind, types.TEXT)
            return None if plain is None else plain + pl.lit("+00")
        case pl.List():
            levels = levels_of(kind)
            texts = _list_type(types.TEXT, levels)
            made = cast_value(value, kind, texts)
            return (
                None if made is None else of_columns(postgres_values.texts_of_lists, [made], types.TEXT)
            )
    return types.cast(value, kind, types.TEXT)


def _text_of_interval(value: pl.Expr, kind: pl.DataType) -> pl.Expr:
    parts = calendar_intervals.parts_of(value, kind)
    text = of_values(postgres_values.calendar_interval_text, parts, types.TEXT)
    return pl.when(value.is_not_null()).then(text)


def _interval(compiler: Compiler, node: exp.Cast, value: Typed) -> Typed:
    if types.has_months(value.type):
        return replace(value, node=node)
    if isinstance(value.type, pl.Duration):
        return Typed(compiler.cast(value, types.INTERVAL).expr, types.INTERVAL, node)
    text = compiler.text(node.this, "a cast to INTERVAL").expr
    made = of_values(postgres_values.interval_of, [text.str.strip_chars(WHITESPACE)], types.INTERVAL)
    return Typed(made, types.INTERVAL, node)
