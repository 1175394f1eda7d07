"""Functions of texts. Places in a text count characters, from 1."""

from __future__ import annotations

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.comparisons import check_pattern
from rheos.sql.expressions.table import (
    CONSTANT_TEXT,
    CONSTANT_WHOLE,
    TEXT,
    WHOLE,
    Compiler,
    Typed,
    computes,
    function,
    optional,
)


@function(exp.Upper, {"this": TEXT}, types.TEXT)
def upper(this: pl.Expr) -> pl.Expr:
    return this.str.to_uppercase()


@function(exp.Lower, {"this": TEXT}, types.TEXT)
def lower(this: pl.Expr) -> pl.Expr:
    return this.str.to_lowercase()


@function(exp.Length, {"this": TEXT}, types.INT)
def length(this: pl.Expr) -> pl.Expr:
    return this.str.len_chars().cast(types.INT)


@function(exp.Reverse, {"this": TEXT}, types.TEXT)
def reverse(this: pl.Expr) -> pl.Expr:
    return this.str.reverse()


@computes(exp.Trim)
def trim(compiler: Compiler, node: exp.Trim) -> Typed:
    compiler.sql.only(node, ("this", "expression", "position"))
    value = compiler.cast(_text(compiler, node.this, "TRIM"), types.TEXT).expr
    signs = " "
    if node.args.get("expression") is not None:
        said = compiler.compile(node.expression)
        if not isinstance(said.constant, str):
            raise compiler.sql.error(
                "TRIM takes characters that stand in the SQL", node.expression, "write TRIM('x' FROM a)"
            )
        signs = said.constant
    match str(node.args.get("position") or "BOTH").upper():
        case "LEADING":
            made = value.str.strip_chars_start(signs)
        case "TRAILING":
            made = value.str.strip_chars_end(signs)
        case _:
            made = value.str.strip_chars(signs)
    return Typed(made, types.TEXT, node)


def _text(compiler: Compiler, node: exp.Expr, what: str) -> Typed:
    value = compiler.compile(node)
    if value.type not in (types.TEXT, types.NULL):
        raise compiler.wrong_type(
            f"{what} takes a STRING", value, "say what you mean by CAST(... AS STRING)", at=node
        )
    return compiler.cast(value, types.TEXT)


@computes(exp.Concat)
def concat(compiler: Compiler, node: exp.Concat) -> Typed:
    compiler.sql.only(node, ("expressions", "safe", "coalesce"))
    return _joined(compiler, node, node.expressions)


@computes(exp.DPipe)
def pipes(compiler: Compiler, node: exp.DPipe) -> Typed:
    compiler.sql.only(node, ("this", "expression", "safe"))
    return _joined(compiler, node, [node.this, node.expression])


def _joined(compiler: Compiler, node: exp.Expr, parts: list[exp.Expr]) -> Typed:
    # What is no text is written as one, as Spark does.
    texts = [compiler.cast(compiler.compile(each), types.TEXT).expr for each in parts]
    return Typed(pl.concat_str(texts), types.TEXT, node)


@computes(exp.ConcatWs)
def concat_ws(compiler: Compiler, node: exp.ConcatWs) -> Typed:
    compiler.sql.only(node, ("expressions", "safe", "coalesce", "flatten"))
    first, *parts = node.expressions
    between = compiler.compile(first)
    if not isinstance(between.constant, str) or not parts:
        raise compiler.sql.error(
            "CONCAT_WS takes a separator that stands in the SQL, and texts", first, "write ', '"
        )
    texts = [compiler.cast(compiler.compile(each), types.TEXT).expr for each in parts]
    made = pl.concat_str(texts, separator=between.constant, ignore_nulls=True)
    return Typed(made, types.TEXT, node)


@function(
    exp.Substring,
    {"this": TEXT, "start": WHOLE, "length": optional(WHOLE)},
    types.TEXT,
)
def substring(this: pl.Expr, start: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    size = this.str.len_chars().cast(types.BIGINT)
    # Before the first character lie places without one; from the end it counts from -1.
    begin = pl.when(start > 0).then(start - 1).when(start < 0).then(size + start).otherwise(0)
    first = pl.max_horizontal(begin, pl.lit(0, dtype=types.BIGINT))
    if length is None:
        return pl.when(start.is_not_null()).then(this.str.slice(first))
    taken = pl.max_horizontal(begin + length - first, pl.lit(0, dtype=types.BIGINT))
    return pl.when(start.is_not_null() & length.is_not_null()).then(this.str.slice(first, taken))


@function(exp.Left, {"this": TEXT, "expression": WHOLE}, types.TEXT)
def left(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    return this.str.slice(0, pl.when(expression > 0).then(expression).otherwise(0))


@function(exp.Right, {"this": TEXT, "expression": WHOLE}, types.TEXT)
def right(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    return this.str.tail(pl.when(expression > 0).then(expression).otherwise(0))


@function(exp.StrPosition, {"this": TEXT, "substr": CONSTANT_TEXT}, types.INT, ("position",))
def position(this: pl.Expr, substr: str) -> pl.Expr:
    """In characters, 0 where it is not there; Polars counts bytes."""
    before = this.str.split(substr).list.first() if substr else pl.lit("")
    found = this.str.contains(substr, literal=True)
    place = pl.when(found).then(before.str.len_chars().cast(types.INT) + 1).otherwise(0)
    return pl.when(this.is_not_null()).then(place.cast(types.INT))


@computes(exp.Replace)
def replace(compiler: Compiler, node: exp.Replace) -> Typed:
    compiler.sql.only(node, ("this", "expression", "replacement"))
    value = _text(compiler, node.this, "REPLACE").expr
    old = compiler.compile(node.expression)
    new = node.args.get("replacement")
    made = _text(compiler, new, "REPLACE") if new is not None else None
    if not isinstance(old.constant, str) or (made and not isinstance(made.node, exp.Literal)):
        raise compiler.sql.error(
            "REPLACE takes texts that stand in the SQL", node, "write REPLACE(name, 'a', 'b')"
        )
    if not old.constant:
        return Typed(value, types.TEXT, node)
    by = "" if new is None else str(new.this)
    return Typed(value.str.replace_all(old.constant, by, literal=True), types.TEXT, node)


@computes(exp.RegexpExtract)
def regexp_extract(compiler: Compiler, node: exp.RegexpExtract) -> Typed:
    compiler.sql.only(node, ("this", "expression", "group", "null_if_pos_overflow"))
    value = _text(compiler, node.this, "REGEXP_EXTRACT").expr
    pattern, group = compiler.compile(node.expression), node.args.get("group")
    number = 1 if group is None else compiler.compile(group).constant
    if not isinstance(pattern.constant, str) or not isinstance(number, int):
        raise compiler.sql.error(
            "REGEXP_EXTRACT takes a pattern and a group that stand in the SQL",
            node,
            "write REGEXP_EXTRACT(url, '/([a-z]+)', 1)",
        )
    check_pattern(compiler, pattern)
    found = value.str.extract(pattern.constant, number)
    # What is not found is an empty text in Spark.
    return Typed(pl.when(value.is_not_null()).then(found.fill_null("")), types.TEXT, node)


@computes(exp.RegexpReplace)
def regexp_replace(compiler: Compiler, node: exp.RegexpReplace) -> Typed:
    compiler.sql.only(node, ("this", "expression", "replacement"))
    value = _text(compiler, node.this, "REGEXP_REPLACE").expr
    pattern, new = compiler.compile(node.expression), compiler.compile(node.args["replacement"])
    if not isinstance(pattern.constant, str) or not isinstance(new.constant, str):
        raise compiler.sql.error(
            "REGEXP_REPLACE takes a pattern and a text that stand in the SQL",
            node,
            "write REGEXP_REPLACE(name, '[0-9]+', '#')",
        )
    check_pattern(compiler, pattern)
    if "$" in new.constant or "\\" in new.constant:
        raise compiler.sql.error("groups in what replaces are not computed yet", new.node)
    return Typed(value.str.replace_all(pattern.constant, new.constant), types.TEXT, node)


@computes(exp.Pad)
def pad(compiler: Compiler, node: exp.Pad) -> Typed:
    compiler.sql.only(node, ("this", "expression", "fill_pattern", "is_left"))
    value = _text(compiler, node.this, "LPAD" if node.args.get("is_left") else "RPAD").expr
    width, fill = compiler.compile(node.expression).constant, node.args.get("fill_pattern")
    sign = " " if fill is None else compiler.compile(fill).constant
    if not isinstance(width, int) or not isinstance(sign, str) or len(sign) != 1:
        raise compiler.sql.error(
            "a text is padded to a length by one character, which stand in the SQL",
            node,
            "write LPAD(id, 8, '0')",
        )
    wide = max(width, 0)
    padded = (
        value.str.pad_start(wide, sign) if node.args.get("is_left") else value.str.pad_end(wide, sign)
    )
    return Typed(padded.str.slice(0, wide), types.TEXT, node)


@function(exp.Repeat, {"this": TEXT, "times": CONSTANT_WHOLE}, types.TEXT)
def repeat(this: pl.Expr, times: int) -> pl.Expr:
    if times < 1:
        return pl.when(this.is_not_null()).then(pl.lit(""))
    return pl.concat_str([this] * min(times, 1000))


@function(exp.RegexpSplit, {"this": TEXT, "expression": CONSTANT_TEXT}, pl.List(pl.String()))
def split(this: pl.Expr, expression: str) -> pl.Expr:
    return this.str.split(expression)
