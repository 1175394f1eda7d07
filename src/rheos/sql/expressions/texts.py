"""String functions. Positions in a string count characters, from 1."""

from __future__ import annotations

import operator
from functools import partial, reduce

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import byte_characters, text_bounds, types
from rheos.sql.expressions.array_functions import concatenated
from rheos.sql.expressions.arrays import listed
from rheos.sql.expressions.table import (
    CAST,
    CHARACTERS,
    SMALL_WHOLE,
    TEXT,
    TEXT_OF_BYTES,
    Compiler,
    Typed,
    computes,
    function,
    optional,
)
from rheos.sql.text import kind
from rheos.sql.text_bounds import joined, repeated, replaced


@function(exp.Upper, {"this": TEXT}, types.TEXT)
def upper(this: pl.Expr) -> pl.Expr:
    return this.str.to_uppercase()


@function(exp.Lower, {"this": TEXT}, types.TEXT)
def lower(this: pl.Expr) -> pl.Expr:
    return this.str.to_lowercase()


@computes(exp.Length)
def length(compiler: Compiler, node: exp.Length) -> Typed:
    """Compile LENGTH: the number of characters, or of bytes if the value is BINARY."""
    compiler.sql.only(node, ("this",))
    value = compiler.compile(node.this)
    size = value.expr.bin.size() if value.type == pl.Binary() else None
    if size is None:
        size = compiler.text(node.this, "LENGTH").expr.str.len_chars()
    return Typed(size.cast(types.INT), types.INT, node)


@computes(exp.Reverse)
def reverse(compiler: Compiler, node: exp.Reverse) -> Typed:
    compiler.sql.only(node, ("this",))
    value = compiler.compile(node.this)
    if isinstance(value.type, pl.List):
        return Typed(value.expr.list.reverse(), value.type, node)
    if value.type == pl.Binary():
        backwards = byte_characters.characters(value.expr).str.split("").list.reverse().list.join("")
        return Typed(byte_characters.bytes_of(backwards), value.type, node)
    # Polars keeps together what is drawn as one sign; Spark does not.
    characters = compiler.text(node.this, "REVERSE").expr.str.split("")
    return Typed(characters.list.reverse().list.join(""), types.TEXT, node)


_SIDES = {"LEADING": "strip_chars_start", "TRAILING": "strip_chars_end", "BOTH": "strip_chars"}


@computes(exp.Trim)
def trim(compiler: Compiler, node: exp.Trim) -> Typed:
    compiler.sql.only(node, ("this", "expression", "position"))
    separator_node = node.args.get("expression")
    side = str(node.args.get("position") or "BOTH").upper()
    signs = pl.lit(" ") if separator_node is None else compiler.text(separator_node, "TRIM").expr
    return Typed(trimmed(compiler.text(node.this, "TRIM").expr, signs, side), types.TEXT, node)


@function("btrim", {"this": TEXT_OF_BYTES, "signs": optional(TEXT_OF_BYTES)}, types.TEXT)
def btrim(this: pl.Expr, signs: pl.Expr | None = None) -> pl.Expr:
    return trimmed(this, pl.lit(" ") if signs is None else signs, "BOTH")


def trimmed(text: pl.Expr, signs: pl.Expr, side: str) -> pl.Expr:
    # To Polars no characters are those of white space.
    made = pl.when(signs == "").then(text).otherwise(getattr(text.str, _SIDES[side])(signs))
    return pl.when(signs.is_not_null()).then(made)


@computes(exp.Concat, exp.DPipe)
def concat(compiler: Compiler, node: exp.Concat | exp.DPipe) -> Typed:
    compiler.sql.only(node, ("expressions", "this", "expression", "safe", "coalesce"))
    parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
    values = [compiler.compile(each) for each in parts]
    if any(isinstance(each.type, pl.List) for each in values):
        if isinstance(node, exp.DPipe):
            values = [_as_list(each) for each in values]
        return concatenated(compiler, node, values)
    if values and all(each.type == pl.Binary() for each in values):
        return Typed(reduce(operator.add, (each.expr for each in values)), pl.Binary(), node)
    # Other values are converted to strings, as in Spark.
    texts = [compiler.cast(each, types.TEXT).expr for each in values]
    return Typed(pl.concat_str(texts), types.TEXT, node)


def _as_list(value: Typed) -> Typed:
    """Return an operand of `||` as an array: an element is one of a single element."""
    if isinstance(value.type, pl.List) or value.type == types.NULL:
        return value
    return Typed(listed([value.expr], value.type), pl.List(value.type), value.node)


@computes(exp.ConcatWs)
def concat_ws(compiler: Compiler, node: exp.ConcatWs) -> Typed:
    """Compile CONCAT_WS: it joins strings and elements of arrays of strings, without nulls."""
    compiler.sql.only(node, ("expressions", "safe", "coalesce", "flatten"))
    first, *parts = node.expressions
    between = compiler.text(first, "CONCAT_WS").expr
    values = [compiler.compile(each) for each in parts]
    if not values:
        return Typed(pl.when(between.is_not_null()).then(pl.lit("")), types.TEXT, node)
    lists = []
    for value in values:
        if isinstance(value.type, pl.List):
            lists.append(
                compiler.cast(value, pl.List(types.TEXT)).expr.fill_null(
                    pl.lit([], pl.List(types.TEXT))
                )
            )
        else:
            lists.append(pl.concat_list(compiler.cast(value, types.TEXT).expr))
    listed = pl.concat_list(lists).list.drop_nulls()
    made = listed.list.join(between)
    if any(isinstance(value.type, pl.List) for value in values):
        join = partial(joined, written=compiler.sql.written(node))
        made = of_columns(join, [listed, between], types.TEXT)
    return Typed(pl.when(between.is_not_null()).then(made), types.TEXT, node)


# --- parts --------------------------------------------------------------------------------------------

_MOST, _LEAST = (1 << 31) - 1, -(1 << 31)


@function(
    exp.Substring,
    {"this": CHARACTERS, "start": SMALL_WHOLE, "length": optional(SMALL_WHOLE)},
    types.TEXT,
)
def substring(this: pl.Expr, start: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    place = start.cast(types.BIGINT)
    taken = pl.lit(_MOST, types.BIGINT) if length is None else length.cast(types.BIGINT)
    # Positions before the first character are empty; from the end they count from -1.
    size = this.str.len_chars().cast(types.BIGINT)
    begin = pl.when(place > 0).then(place - 1).when(place < 0).then(size + place).otherwise(0)
    end = (begin + taken).clip(_LEAST, _MOST)
    first, last = begin.clip(lower_bound=0), end.clip(lower_bound=0)
    made = this.str.slice(first, (last - first).clip(lower_bound=0))
    there = start.is_not_null() if length is None else start.is_not_null() & length.is_not_null()
    return pl.when(there).then(made)


@function(exp.Left, {"this": CHARACTERS, "expression": SMALL_WHOLE}, types.TEXT)
def left(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    made = this.str.head(expression.clip(lower_bound=0))
    return pl.when(expression.is_not_null()).then(made)


@function(exp.Right, {"this": TEXT, "expression": SMALL_WHOLE}, types.TEXT)
def right(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    made = this.str.tail(expression.clip(lower_bound=0))
    return pl.when(expression.is_not_null()).then(made)


@function(
    exp.StrPosition,
    {"this": TEXT, "substr": TEXT, "position": optional(SMALL_WHOLE)},
    types.INT,
)
def position(this: pl.Expr, substr: pl.Expr, position: pl.Expr | None = None) -> pl.Expr:
    """Compile LOCATE: the position in characters, or 0 if not found. The search starts at `position`.
    Polars counts bytes."""
    if position is None:
        return _place(this, substr)
    skipped = (position.cast(types.BIGINT) - 1).clip(lower_bound=0)
    found = _place(this.str.slice(skipped), substr)
    place = pl.when(substr == "").then(1).when(found > 0).then(found + skipped).otherwise(0)
    both = this.is_not_null() & substr.is_not_null()
    # Spark has 0, and not null, where nobody says from where on.
    begun = pl.when((position > 0).fill_null(False)).then(place).otherwise(0)
    return pl.when(position.is_null()).then(0).when(both).then(begun).cast(types.INT)


def _place(text: pl.Expr, part: pl.Expr) -> pl.Expr:
    before = text.str.split(part).list.first().str.len_chars().cast(types.BIGINT)
    place = pl.when(part == "").then(1).when(text.str.contains(part, literal=True)).then(before + 1)
    return pl.when(text.is_not_null() & part.is_not_null()).then(place.otherwise(0)).cast(types.INT)


@computes(exp.Replace)
def replace(compiler: Compiler, node: exp.Replace) -> Typed:
    compiler.sql.only(node, ("this", "expression", "replacement"), " in REPLACE()")
    by = node.args.get("replacement")
    parts = [compiler.text(each, "REPLACE()") for each in (node.this, node.expression)]
    parts.append(Typed(pl.lit(""), types.TEXT, node) if by is None else compiler.text(by, "REPLACE()"))
    made = partial(replaced, written=compiler.sql.written(node))
    return Typed(of_columns(made, [each.expr for each in parts], types.TEXT), types.TEXT, node)


# --- repeated -----------------------------------------------------------------------------------------


@computes(exp.Repeat)
def repeat(compiler: Compiler, node: exp.Repeat) -> Typed:
    compiler.sql.only(node, ("this", "times"))
    return repeat_text(compiler, node, compiler.text(node.this, "REPEAT").expr, node.args.get("times"))


def repeat_text(compiler: Compiler, node: exp.Expr, text: pl.Expr, times: exp.Expr | None) -> Typed:
    """Repeat a string, by a number in the query."""
    number = _count(compiler, times, kind(node).removesuffix("()"))
    return Typed(_repeated(compiler, node, text, number), types.TEXT, node)


def _repeated(compiler: Compiler, node: exp.Expr, text: pl.Expr, times: pl.Expr) -> pl.Expr:
    made = partial(repeated, written=compiler.sql.written(node))
    return of_columns(made, [text, times], types.TEXT)


def _count(compiler: Compiler, node: exp.Expr | None, what: str) -> pl.Expr:
    """Compile a number of characters or repetitions. A constant must be at most `MOST_TEXT_BYTES`."""
    value = compiler.compile(node)
    if not types.is_integer(types.signed(value.type)) and value.type != types.NULL:
        raise compiler.wrong_type(f"{what} takes a whole number", value, CAST, at=node)
    if isinstance(value.constant, int) and value.constant > text_bounds.MOST_TEXT_BYTES:
        raise compiler.sql.error(
            f"{what} returns strings of at most {text_bounds.MOST_TEXT_BYTES:,} bytes",
            node,
            "use a smaller number",
        )
    return compiler.cast(compiler.cast(value, types.INT), types.BIGINT).expr


@computes(exp.Pad)
def pad(compiler: Compiler, node: exp.Pad) -> Typed:
    compiler.sql.only(node, ("this", "expression", "fill_pattern", "is_left"))
    is_left, fill = node.args.get("is_left"), node.args.get("fill_pattern")
    what = "LPAD" if is_left else "RPAD"
    width = _count(compiler, node.expression, what)
    is_binary = compiler.compile(node.this).type == pl.Binary()
    if is_binary:
        data = [
            compiler.compile(node.this),
            compiler.compile(exp.HexString(this="00") if fill is None else fill),
        ]
        if data[1].type != pl.Binary():
            raise compiler.wrong_type(f"{what} of a BINARY takes a BINARY", data[1], CAST)
        text, sign = (byte_characters.characters(each.expr) for each in data)
    else:
        text = compiler.text(node.this, what).expr
        sign = pl.lit(" ") if fill is None else compiler.text(fill, what).expr
    wide = width.clip(lower_bound=0)
    size, unit = (each.str.len_chars().cast(types.BIGINT) for each in (text, sign))
    lacking = (wide - size).clip(lower_bound=0)
    times = pl.when(unit > 0).then((lacking + unit - 1) // unit).otherwise(0)
    # If the string, its width or the sign is null, so is the result, because the padding is null.
    times = pl.when(lacking.is_not_null()).then(times)
    filling = _repeated(compiler, node, sign, times).str.head(lacking)
    kept = text.str.head(wide)
    padded = pl.concat_str([filling, kept] if is_left else [kept, filling])
    if is_binary:
        return Typed(byte_characters.bytes_of(padded), pl.Binary(), node)
    return Typed(padded, types.TEXT, node)
