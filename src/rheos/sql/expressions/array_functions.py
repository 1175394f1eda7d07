"""Functions that make arrays of other arrays and of numbers: SEQUENCE, ARRAY_UNION, SLICE."""

from __future__ import annotations

from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.arrays import list_of, listed
from rheos.sql.expressions.table import (
    ANY,
    SMALL_WHOLE,
    TEXT,
    Compiler,
    Takes,
    Typed,
    computes,
    computes_named,
    optional,
)
from rheos.sql.list_rows import PLACE, insert_elements, repeat_elements, zip_elements
from rheos.sql.text import kind
from rheos.sql.text_bounds import joined

_ONE, _OTHER, _NEW = "one", "other", "new"


def is_same(*, nulls: bool = False) -> pl.Expr:
    """Return whether an element of `compared_elements` equals the value. `nulls` is whether a null
    equals a null."""
    one, other = (pl.element().struct.field(name) for name in (_ONE, _OTHER))
    return one.eq_missing(other) if nulls else (one == other).fill_null(False)


ARRAY = Takes("an ARRAY", lambda of: isinstance(of, pl.List))
_TEXTS = pl.List(types.TEXT)


def inner_type(value: Typed) -> pl.DataType:
    """Return the type of the elements of an array."""
    inner = value.type.inner if isinstance(value.type, pl.List) else types.NULL
    assert isinstance(inner, pl.DataType)
    return inner


def with_element(compiler: Compiler, node: exp.Anonymous) -> tuple[Typed, Typed]:
    """Return the array and the element of a call, in one type."""
    value, element = compiler.given(node, [ARRAY, ANY])
    first = Typed(pl.lit(None), inner_type(value), value.node)
    _, inner = compiler.common([first, element], kind(node))
    return compiler.cast(value, pl.List(inner)), compiler.cast(element, inner)


@computes_named("array_append", "array_prepend")
def append(compiler: Compiler, node: exp.Anonymous) -> Typed:
    value, element = with_element(compiler, node)
    parts = [value.expr, listed([element.expr], element.type)]
    if node.name.casefold() == "array_prepend":
        parts.reverse()
    made = pl.when(value.expr.is_not_null()).then(pl.concat_list(parts))
    return Typed(made, value.type, node)


@computes_named("array_insert")
def insert(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ARRAY_INSERT(list, place, element): places count from 1, or from the end with -1. Nulls
    fill the places between."""
    if len(node.expressions) != 3:
        raise compiler.sql.error(
            f"{kind(node)} takes an ARRAY, a place and an element",
            node,
            "write ARRAY_INSERT(list, 1, x)",
        )
    of, at, what = node.expressions
    [place] = compiler.given(_call_of(node, [at]), [SMALL_WHOLE])
    value, element = with_element(compiler, _call_of(node, [of, what]))
    compute = partial(insert_elements, written=compiler.sql.written(node))
    made = of_columns(compute, [value.expr, place.expr, element.expr], value.type)
    return Typed(made, value.type, node)


def _call_of(node: exp.Expr, arguments: list[exp.Expr]) -> exp.Anonymous:
    call = exp.Anonymous(this=kind(node).removesuffix("()"), expressions=arguments)
    call.meta.update(node.meta)
    return call


def compared_elements(value: Typed, element: Typed, new: Typed | None = None) -> pl.Expr:
    """Return the elements of an array as structs of the element, of the value to compare it with, and
    of another value."""
    inner = inner_type(value)
    given = [value, element] if new is None else [value, element, new]
    names = (_ONE, _OTHER, _NEW)[: len(given)]
    type_ = pl.List(pl.Struct({**dict.fromkeys(names, inner), PLACE: types.INT}))
    zipped = partial(zip_elements, lists=1, names=names)
    return of_columns(zipped, [each.expr for each in given], type_)


@computes(exp.ArrayPosition)
def position(compiler: Compiler, node: exp.ArrayPosition) -> Typed:
    """Compile ARRAY_POSITION, which counts from 1 and is 0 if the array lacks the element."""
    value, element = _of_one_type(compiler, node)
    found = compared_elements(value, element).list.eval(is_same())
    at = pl.when(found.list.any()).then(found.list.arg_max().cast(types.BIGINT) + 1).otherwise(0)
    there = value.expr.is_not_null() & element.expr.is_not_null()
    return Typed(pl.when(there).then(at), types.BIGINT, node)


@computes(exp.ArrayRemove)
def remove(compiler: Compiler, node: exp.ArrayRemove) -> Typed:
    value, element = _of_one_type(compiler, node)
    kept = pl.element().filter(~is_same()).struct.field(_ONE)
    made = compared_elements(value, element).list.eval(kept)
    return Typed(pl.when(element.expr.is_not_null()).then(made), value.type, node)


def _of_one_type(compiler: Compiler, node: exp.ArrayPosition | exp.ArrayRemove) -> tuple[Typed, Typed]:
    compiler.sql.only(node, ("this", "expression", "null_propagation"))
    call = exp.Anonymous(this=kind(node), expressions=[node.this, node.expression])
    call.meta.update(node.meta)
    return with_element(compiler, call)


@computes(exp.ArrayReverse)
def reverse(compiler: Compiler, node: exp.ArrayReverse) -> Typed:
    compiler.sql.only(node, ("this",))
    value, _ = list_of(compiler, node, node.this)
    return Typed(value.expr.list.reverse(), value.type, node)


@computes(exp.ArraysZip)
def arrays_zip(compiler: Compiler, node: exp.ArraysZip) -> Typed:
    """Compile ARRAYS_ZIP: structs of the elements at each place. Nulls fill shorter arrays."""
    compiler.sql.only(node, ("expressions",))
    if not node.expressions:
        raise compiler.sql.error("ARRAYS_ZIP() is missing an argument", node, "name arrays")
    named: dict[str, Typed] = {}
    for place, each in enumerate(node.expressions):
        name = each.name if isinstance(each, exp.Column) else str(place)
        named[name if name not in named else str(place)] = list_of(compiler, node, each)[0]
    fields = {name: inner_type(value) for name, value in named.items()}
    zipped = of_columns(
        partial(zip_elements, lists=len(named), names=tuple(named)),
        [value.expr for value in named.values()],
        pl.List(pl.Struct({**fields, PLACE: types.INT})),
    )
    made = zipped.list.eval(pl.struct(*(pl.element().struct.field(name) for name in fields)))
    return Typed(made, pl.List(pl.Struct(fields)), node)


@computes_named("array_union", "array_intersect", "array_except")
def set_operation(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile operations of arrays as sets, in the order in which elements occur."""
    values, type_ = compiler.common(compiler.given(node, [ARRAY, ARRAY]), kind(node))
    one, other = (each.expr for each in values)
    match node.name.casefold():
        case "array_union":
            made = pl.concat_list([one, other]).list.unique(maintain_order=True)
        case "array_intersect":
            made = _exclude_elements(one, _exclude_elements(one, other))
        case _:
            made = _exclude_elements(one, other)
    if types.is_floating(inner_type(values[0])):
        made = made.list.eval(pl.when(pl.element() == 0).then(0.0).otherwise(pl.element()))
    return Typed(pl.when(one.is_not_null() & other.is_not_null()).then(made), type_, node)


def _exclude_elements(one: pl.Expr, other: pl.Expr) -> pl.Expr:
    """Return the different elements of a list that another list lacks, in their order."""
    first = other.list.unique(maintain_order=True)
    return pl.concat_list([first, one]).list.unique(maintain_order=True).list.slice(first.list.len())


@computes_named("arrays_overlap")
def overlap(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ARRAYS_OVERLAP: null if only a null could be the common element."""
    values, _ = compiler.common(compiler.given(node, [ARRAY, ARRAY]), kind(node))
    one, other = (each.expr for each in values)
    common = one.list.drop_nulls().list.set_intersection(other.list.drop_nulls()).list.len() > 0
    has_null = [each.list.len() > each.list.drop_nulls().list.len() for each in (one, other)]
    unknown = (one.list.len() > 0) & (other.list.len() > 0) & (has_null[0] | has_null[1])
    made = pl.when(common).then(True).when(~unknown).then(False)
    there = one.is_not_null() & other.is_not_null()
    return Typed(pl.when(there).then(made), types.BOOLEAN, node)


@computes_named("array_concat", "array_cat")
def concat(compiler: Compiler, node: exp.Anonymous) -> Typed:
    return concatenated(compiler, node, compiler.given(node, [ARRAY] * max(1, len(node.expressions))))


def concatenated(compiler: Compiler, node: exp.Expr, values: list[Typed]) -> Typed:
    """Return the elements of all arrays; null if an array is null."""
    arrays, type_ = compiler.common(values, kind(node))
    return Typed(pl.concat_list([each.expr for each in arrays]), type_, node)


@computes_named("array_compact")
def compact(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, [ARRAY])
    return Typed(value.expr.list.drop_nulls(), value.type, node)


@computes_named("flatten")
def flatten(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile FLATTEN: the elements of arrays in an array; null if one of those is null."""
    [value] = compiler.given(node, [ARRAY])
    inner = inner_type(value)
    if not isinstance(inner, pl.List):
        raise compiler.wrong_type(f"{kind(node)} takes an ARRAY of ARRAYs", value, "leave it out")
    flat = value.expr.list.eval(pl.element().list.explode(empty_as_null=False, keep_nulls=False))
    has_null = value.expr.list.eval(pl.element().is_null().any()).list.first()
    empty = pl.when(value.expr.list.len() == 0).then(pl.lit([], dtype=inner))
    return Typed(empty.when(~has_null).then(flat), inner, node)


@computes_named("array_join", "array_to_string")
def join(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ARRAY_JOIN, which leaves nulls out unless a third argument replaces them."""
    value, between, *instead = compiler.given(node, [ARRAY, TEXT, optional(TEXT)])
    element = Typed(pl.element(), inner_type(value), value.node)
    texts = value.expr.list.eval(compiler.cast(element, types.TEXT).expr)
    if instead and isinstance(instead[0].constant, str):
        texts = texts.list.eval(pl.element().fill_null(pl.lit(instead[0].constant)))
    elif instead:
        raise compiler.sql.error("the replacement of nulls must be a constant", instead[0].node)
    parts = [texts.list.drop_nulls(), between.expr]
    made = of_columns(partial(joined, written=compiler.sql.written(node)), parts, types.TEXT)
    there = value.expr.is_not_null() & between.expr.is_not_null()
    return Typed(pl.when(there).then(made), types.TEXT, node)


@computes_named("array_repeat")
def repeat(compiler: Compiler, node: exp.Anonymous) -> Typed:
    value, times = compiler.given(node, [ANY, SMALL_WHOLE])
    type_ = pl.List(value.type)
    compute = partial(repeat_elements, written=compiler.sql.written(node))
    return Typed(of_columns(compute, [value.expr, times.expr], type_), type_, node)


@computes_named("slice", "array_slice")
def slice_(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile SLICE(list, begin, length), and ARRAY_SLICE(list, begin, end), which count from 1."""
    value, begin, length = compiler.given(node, [ARRAY, SMALL_WHOLE, SMALL_WHOLE])
    size = value.expr.list.len().cast(types.INT)
    first = pl.when(begin.expr > 0).then(begin.expr - 1).when(begin.expr < 0).then(size + begin.expr)
    if node.name.casefold() == "array_slice":
        last = pl.when(length.expr < 0).then(size + length.expr + 1).otherwise(length.expr)
        count = (last - first).clip(lower_bound=0)
    else:
        count = pl.when(length.expr >= 0).then(length.expr)
    inside = first.is_between(0, size)
    kept = value.expr.list.slice(first.clip(lower_bound=0), count)
    made = pl.when(inside).then(kept).otherwise(pl.lit([], dtype=value.type))
    there = value.expr.is_not_null() & first.is_not_null() & count.is_not_null()
    return Typed(pl.when(there).then(made), value.type, node)


@computes_named("array_first", "array_last")
def first(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, [ARRAY])
    of = value.expr.list
    made = of.first() if node.name.casefold() == "array_first" else of.last()
    return Typed(made, inner_type(value), node)


@computes_named("get")
def get(compiler: Compiler, node: exp.Anonymous) -> Typed:
    value, place = compiler.given(node, [ARRAY, SMALL_WHOLE])
    at = pl.when(place.expr >= 0).then(place.expr)
    return Typed(value.expr.list.get(at, null_on_oob=True), inner_type(value), node)


def list_in_list(compiler: Compiler, node: exp.Expr, one: Typed, other: Typed) -> Typed:
    """Return whether an array has all elements of another. A null is in no array."""
    (whole, part), _ = compiler.common([one, other], kind(node))
    missing = _exclude_elements(part.expr, whole.expr.list.drop_nulls())
    there = whole.expr.is_not_null() & part.expr.is_not_null()
    return Typed(pl.when(there).then(missing.list.len() == 0), types.BOOLEAN, node)
