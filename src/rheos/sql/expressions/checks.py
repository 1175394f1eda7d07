"""Functions that test values: ASSERT_TRUE, RAISE_ERROR, EQUAL_NULL, LUHN_CHECK, IS_VALID_UTF8."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns, of_one_length
from rheos.core.operators.row_expressions import refusal
from rheos.sql import types
from rheos.sql.expressions.table import (
    ANY,
    BYTES,
    TEXT,
    Compiler,
    Takes,
    Typed,
    computes_named,
    function,
    optional,
)
from rheos.sql.value_functions import of_values

_CONDITION = Takes("a condition", lambda of: of == types.BOOLEAN, types.BOOLEAN)
_HINT = "the query ends the job here: correct the record, or filter it out with WHERE"


@computes_named("assert_true")
def assert_true(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ASSERT_TRUE(condition[, message]): NULL, or the end of the job."""
    condition, *message = compiler.given(node, [_CONDITION, optional(TEXT)])
    default = pl.lit(f"{compiler.sql.written(node.expressions[0])} is not true")
    text = message[0].expr if message else default
    return _ended(compiler, node, ~condition.expr.fill_null(False), text)


@computes_named("raise_error")
def raise_error(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile RAISE_ERROR(message), which ends the job if its branch is taken."""
    [message] = compiler.given(node, [TEXT])
    return _ended(compiler, node, pl.lit(True), message.expr)


def _ended(compiler: Compiler, node: exp.Expr, where: pl.Expr, text: pl.Expr) -> Typed:
    where = pl.all_horizontal(where, *(each.fill_null(False) for each in compiler.reached))
    call = partial(_refused, written=compiler.sql.written(node))
    return Typed(of_columns(call, [where, text], types.NULL), types.NULL, node)


def _refused(columns: Sequence[pl.Series], *, written: str) -> pl.Series:
    """Return nulls.

    Raises:
        ComputeError: a row is marked.
    """
    marked, texts = of_one_length(columns)
    failing = texts.filter(marked)
    if len(failing):
        raise refusal(" ".join(str(failing[0] or written).split()), _HINT)
    return pl.Series(marked.name, [None] * len(marked), dtype=pl.Null)


@computes_named("equal_null")
def equal_null(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile EQUAL_NULL(a, b), which is a <=> b."""
    compiler.given(node, [ANY, ANY])
    one, other = node.expressions
    return compiler.compile(exp.NullSafeEQ(this=one, expression=other))


@function("luhn_check", {"digits": TEXT}, types.BOOLEAN)
def luhn_check(digits: pl.Expr) -> pl.Expr:
    return of_values(_has_luhn_digit, [digits], types.BOOLEAN)


_DIGITS = re.compile(r"[0-9]+")


def _has_luhn_digit(text: str) -> bool:
    """Return whether the last digit of a number is that of Luhn's algorithm."""
    if not _DIGITS.fullmatch(text):
        return False
    total = sum(map(int, text[-1::-2]))
    return (total + sum(sum(divmod(2 * int(digit), 10)) for digit in text[-2::-2])) % 10 == 0


# --- UTF-8 --------------------------------------------------------------------------------------------


@function("is_valid_utf8", {"data": BYTES}, types.BOOLEAN)
def is_valid_utf8(data: pl.Expr) -> pl.Expr:
    return of_values(_is_text, [data], types.BOOLEAN)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@function("make_valid_utf8", {"data": BYTES}, types.TEXT)
def make_valid_utf8(data: pl.Expr) -> pl.Expr:
    """Decode bytes. Those that are no UTF-8 become U+FFFD."""
    made = types.cast(data, pl.Binary(), types.TEXT)
    assert made is not None
    return made


@function(("validate_utf8", "try_validate_utf8"), {"data": BYTES}, types.TEXT)
def validate_utf8(data: pl.Expr) -> pl.Expr:
    return of_values(_decoded, [data], types.TEXT)


def _decoded(data: bytes) -> str | None:
    return data.decode() if _is_text(data) else None
