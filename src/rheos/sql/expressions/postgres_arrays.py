"""Array functions of PostgreSQL, which count from 1."""

from __future__ import annotations

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.array_functions import (
    ARRAY,
    compared_elements,
    inner_type,
    is_same,
    with_element,
)
from rheos.sql.expressions.maps import MAP, value_at
from rheos.sql.expressions.table import (
    ANY,
    CONSTANT_WHOLE,
    SMALL_WHOLE,
    TEXT,
    WHOLE,
    Compiler,
    Typed,
    computes_named,
    function,
    optional,
)
from rheos.sql.postgres_values import levels_of
from rheos.sql.text import kind

_TEXTS = pl.List(types.TEXT)
_SIZES = ("pg.array_length", "array_upper", "array_lower")


@computes_named(*_SIZES)
def size(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ARRAY_LENGTH(list, dimension), ARRAY_UPPER and ARRAY_LOWER: null of an empty array."""
    value, *dimension = compiler.given(node, [ARRAY, optional(CONSTANT_WHOLE)])
    if value.type == types.NULL:
        return value
    of, kind_ = value.expr, value.type
    for _ in range(1, dimension[0].constant if dimension else 1):
        inner = kind_.inner if isinstance(kind_, pl.List) else types.NULL
        if not isinstance(inner, pl.List):
            return Typed(pl.lit(None, types.INT), types.INT, node)
        of, kind_ = of.list.first(), inner
    length = of.list.len().cast(types.INT)
    found = pl.lit(1, types.INT) if node.name.casefold() == "array_lower" else length
    return Typed(pl.when(length > 0).then(found), types.INT, node)


@computes_named("array_ndims")
def dimensions(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, [ARRAY])
    if value.type == types.NULL:
        return value
    made = pl.when(value.expr.list.len() > 0).then(pl.lit(levels_of(value.type), types.INT))
    return Typed(made, types.INT, node)


@computes_named("array_dims")
def bounds(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ARRAY_DIMS: `[1:2][1:3]`."""
    [value] = compiler.given(node, [ARRAY])
    if value.type == types.NULL:
        return value
    parts, of = [], value.expr
    for _ in range(levels_of(value.type)):
        parts += [pl.lit("[1:"), of.list.len().cast(types.TEXT), pl.lit("]")]
        of = of.list.first()
    made = pl.when(value.expr.list.len() > 0).then(pl.concat_str(parts))
    return Typed(made, types.TEXT, node)


@computes_named("pg.cardinality")
def cardinality(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile CARDINALITY: the number of elements at all levels."""
    [value] = compiler.given(node, [ARRAY])
    flat = value.expr
    for _ in range(levels_of(value.type) - 1):
        flat = flat.list.eval(pl.element().list.explode(empty_as_null=False, keep_nulls=False))
    return Typed(flat.list.len().cast(types.INT), types.INT, node)


@computes_named("pg.array_prepend")
def prepend(compiler: Compiler, node: exp.Anonymous) -> Typed:
    compiler.given(node, [ANY, ARRAY])
    made = exp.Anonymous(this="array_prepend", expressions=node.expressions[::-1])
    made.meta.update(node.meta)
    return compiler.compile(made)


# --- elements by value --------------------------------------------------------------------------------


def _match_elements(compiler: Compiler, node: exp.Anonymous) -> tuple[Typed, Typed, pl.Expr]:
    """Return the array and the element of a call, and for each element whether it is the same; a null
    is the same as a null."""
    call = exp.Anonymous(this=node.name, expressions=node.expressions[:2])
    call.meta.update(node.meta)
    value, element = with_element(compiler, call)
    return value, element, compared_elements(value, element).list.eval(is_same(nulls=True))


@computes_named("pg.array_position")
def position(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ARRAY_POSITION(list, element[, begin]): null if the array lacks the element."""
    _, _, same = _match_elements(compiler, node)
    skipped = pl.lit(0, types.INT)
    if len(node.expressions) == 3:
        _, _, begin = compiler.given(node, [ARRAY, ANY, SMALL_WHOLE])
        skipped = (begin.expr - 1).clip(lower_bound=0)
    rest = same.list.slice(skipped)
    at = rest.list.arg_max().cast(types.INT) + 1 + skipped
    return Typed(pl.when(rest.list.any()).then(at), types.INT, node)


@computes_named("array_positions")
def positions(compiler: Compiler, node: exp.Anonymous) -> Typed:
    _, _, same = _match_elements(compiler, node)
    places = same.list.eval(pl.element().arg_true().cast(types.INT) + 1)
    return Typed(places, pl.List(types.INT), node)


@computes_named("pg.array_remove")
def remove(compiler: Compiler, node: exp.Anonymous) -> Typed:
    value, element, _ = _match_elements(compiler, node)
    kept = pl.element().filter(~is_same(nulls=True)).struct.field("one")
    return Typed(compared_elements(value, element).list.eval(kept), value.type, node)


@computes_named("array_replace")
def replace(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ARRAY_REPLACE(list, old, new)."""
    compiler.given(node, [ARRAY, ANY, ANY])
    value, old, _ = _match_elements(compiler, node)
    new = compiler.cast(compiler.compile(node.expressions[2]), inner_type(value))
    pairs = compared_elements(value, old, new)
    field = pl.element().struct.field
    made = pl.when(is_same(nulls=True)).then(field("new")).otherwise(field("one"))
    return Typed(pairs.list.eval(made), value.type, node)


# --- parts --------------------------------------------------------------------------------------------


@computes_named("pg.element")
def element(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile list[1], null beyond the list; and map['key']."""
    if isinstance(compiler.compile(node.expressions[0]).type, pl.Map):
        of_map, key = compiler.given(node, [MAP, ANY])
        return value_at(compiler, of_map, key, node)
    value, place = compiler.given(node, [ARRAY, WHOLE])
    at = pl.when(place.expr > 0).then(place.expr - 1)
    return Typed(value.expr.list.get(at, null_on_oob=True), inner_type(value), node)


@computes_named("pg.slice")
def slice_(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile list[2:3], both of which bounds may be missing."""
    value, first, last = compiler.given(node, [ARRAY, WHOLE, WHOLE])
    size = value.expr.list.len().cast(types.BIGINT)
    missing = [isinstance(each, exp.Null) for each in node.expressions[1:]]
    begin = pl.lit(1, types.BIGINT) if missing[0] else first.expr.clip(lower_bound=1)
    end = size if missing[1] else pl.min_horizontal(last.expr, size)
    there = begin.is_not_null() & (size if missing[1] else last.expr).is_not_null()
    made = value.expr.list.slice(begin - 1, (end - begin + 1).clip(lower_bound=0))
    return Typed(pl.when(there & value.expr.is_not_null()).then(made), value.type, node)


@computes_named("trim_array")
def trim(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile TRIM_ARRAY(list, n): without the last n elements; null if there are fewer."""
    value, count = compiler.given(node, [ARRAY, SMALL_WHOLE])
    size = value.expr.list.len().cast(types.INT)
    fits = count.expr.is_between(0, size)
    return Typed(pl.when(fits).then(value.expr.list.head(size - count.expr)), value.type, node)


@computes_named("array_fill")
def fill(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ARRAY_FILL(value, ARRAY[n])."""
    _, sizes = compiler.given(node, [ANY, ARRAY])
    of = node.expressions[1]
    if not isinstance(of, exp.Array) or len(of.expressions) != 1:
        raise compiler.sql.error(
            f"{kind(node)} takes the size of one dimension", sizes.node, "write ARRAY_FILL(0, ARRAY[3])"
        )
    made = exp.Anonymous(this="array_repeat", expressions=[node.expressions[0], *of.expressions])
    made.meta.update(node.meta)
    return compiler.compile(made)


@computes_named("array_sum")
def total(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ARRAY_SUM: null of an empty array."""
    [value] = compiler.given(node, [ARRAY])
    inner = types.signed(inner_type(value))
    if not types.is_number(inner):
        raise compiler.wrong_type(f"{kind(node)} takes an ARRAY of numbers", value, "name numbers")
    of = types.BIGINT if types.is_integer(inner) else inner
    kept = value.expr.list.drop_nulls().cast(pl.List(of))
    made = kept.list.eval(pl.element().sum()).list.first()
    return Typed(pl.when(kept.list.len() > 0).then(made), of, node)


# --- arrays and strings -------------------------------------------------------------------------------


@function(
    "string_to_array", {"text": TEXT, "between": TEXT, "null": optional(TEXT)}, pl.List(types.TEXT)
)
def string_to_array(text: pl.Expr, between: pl.Expr, null: pl.Expr | None = None) -> pl.Expr:
    """Return the parts between separators; without a separator all characters. Parts that equal `null`
    become null."""
    none, whole = pl.lit([], dtype=pl.List(types.TEXT)), pl.concat_list(text)
    parts = (
        pl.when(text == "")
        .then(none)
        .when(between == "")
        .then(whole)
        .when(between.is_null())
        .then(text.str.split(""))
        .otherwise(text.str.split(between))
    )
    made = pl.when(text.is_not_null()).then(parts)
    if null is None:
        return made
    replaced = pl.concat_list(null)
    return pl.when(null.is_null()).then(made).otherwise(_with_nulls(made, replaced.list.first()))


def _with_nulls(parts: pl.Expr, null: pl.Expr) -> pl.Expr:
    pairs = compared_elements(
        Typed(parts, pl.List(types.TEXT), exp.null()), Typed(null, types.TEXT, exp.null())
    )
    kept = pl.when(~is_same()).then(pl.element().struct.field("one"))
    return pairs.list.eval(kept)
