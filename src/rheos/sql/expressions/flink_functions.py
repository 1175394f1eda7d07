"""Functions of Flink that Spark lacks."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns, of_one_length
from rheos.core.operators.row_expressions import refusal
from rheos.sql import types
from rheos.sql.expressions.json_functions import as_json
from rheos.sql.expressions.postgres_numbers import truncated_decimal
from rheos.sql.expressions.table import (
    ANY,
    CONSTANT_WHOLE,
    NUMBER,
    TEXT,
    Compiler,
    Takes,
    Typed,
    computes,
    computes_named,
    function,
    optional,
)
from rheos.sql.value_functions import of_values

# --- strings ------------------------------------------------------------------------------------------

_TEXT_OR_NUMBER = Takes(
    "a STRING or a number",
    lambda kind: kind == types.TEXT or types.is_number(types.signed(kind)),
    types.TEXT,
)


@function("is_alpha", {"text": _TEXT_OR_NUMBER}, types.BOOLEAN)
def is_alpha(text: pl.Expr) -> pl.Expr:
    return text.str.contains(r"^\p{L}+$")


@function("is_digit", {"text": _TEXT_OR_NUMBER}, types.BOOLEAN)
def is_digit(text: pl.Expr) -> pl.Expr:
    return text.str.contains(r"^\p{Nd}+$")


@function("is_decimal", {"text": _TEXT_OR_NUMBER}, types.BOOLEAN)
def is_decimal(text: pl.Expr) -> pl.Expr:
    """Return whether the string is a number."""
    return text.str.contains(r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$")


# --- JSON ---------------------------------------------------------------------------------------------


@computes_named("json_string")
def json_string(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile JSON_STRING(value): the value as JSON. NULL stays NULL."""
    [value] = compiler.given(node, [ANY])
    [text] = as_json([value], [False])
    return Typed(pl.when(value.expr.is_not_null()).then(text), types.TEXT, node)


@function("json_quote", {"text": TEXT}, types.TEXT)
def json_quote(text: pl.Expr) -> pl.Expr:
    return of_values(_quoted, [text], types.TEXT)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("/", "\\/")


@function("json_unquote", {"text": TEXT}, types.TEXT)
def json_unquote(text: pl.Expr) -> pl.Expr:
    """Return the value of a JSON string. Other strings are unchanged."""
    return of_values(_unquoted, [text], types.TEXT)


def _unquoted(text: str) -> str:
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    try:
        value = json.loads(text)
        value.encode()  # A half of a surrogate pair is no character.
    except ValueError:
        return text
    return str(value)


# --- arrays -------------------------------------------------------------------------------------------


@computes_named("element")
def element(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ELEMENT(list): the only element of a list. A longer list ends the job."""
    [value] = compiler.given(node, [Takes("an ARRAY", lambda kind: isinstance(kind, pl.List))])
    inner = value.type.inner if isinstance(value.type, pl.List) else types.NULL
    assert isinstance(inner, pl.DataType)
    reached = pl.all_horizontal(pl.lit(True), *(each.fill_null(False) for each in compiler.reached))
    return Typed(of_columns(_only_element, [reached, value.expr], inner), inner, node)


def _only_element(columns: Sequence[pl.Series]) -> pl.Series:
    """Return the elements.

    Raises:
        ComputeError: a list has several.
    """
    reached, lists = of_one_length(columns)
    if lists.dtype == pl.Null:
        return lists
    longest = lists.list.len().filter(reached).max()
    if isinstance(longest, int) and longest > 1:
        raise refusal(f"ELEMENT() takes a list of one element, but this has {longest}", "write list[1]")
    return lists.list.first()


# --- numbers ------------------------------------------------------------------------------------------


@computes(exp.Trunc)
def truncate(compiler: Compiler, node: exp.Trunc) -> Typed:
    """Compile TRUNCATE(number[, digits]): a number without its digits after some place."""
    compiler.sql.only(node, ("this", "decimals"), " in TRUNCATE()")
    digits = node.args.get("decimals")
    call = exp.Anonymous(this="TRUNCATE", expressions=[node.this, *([digits] if digits else [])])
    call.meta.update(node.meta)
    value, *given = compiler.given(call, [NUMBER, optional(CONSTANT_WHOLE)])
    places = given[0].constant if given else 0
    if value.type == types.NULL:
        return Typed(value.expr, value.type, node)
    if types.is_floating(value.type):
        shortened = of_values(_shortened, [value.expr.cast(types.DOUBLE), pl.lit(places)], types.DOUBLE)
        return Typed(shortened.cast(value.type), value.type, node)
    made = truncated_decimal(compiler, value, places, node)
    return compiler.cast(made, value.type) if types.is_integer(value.type) else made


_MOST_PLACES = 400
"""More digits than a DOUBLE has before or after the point."""


def _shortened(value: float, places: int) -> float:
    if not math.isfinite(value) or places > _MOST_PLACES:
        return value
    if places < -_MOST_PLACES:
        return math.copysign(0.0, value)
    exact = Decimal(repr(value))
    exponent = exact.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= -places:
        return value
    return float(exact.quantize(Decimal(1).scaleb(-places), ROUND_DOWN))
