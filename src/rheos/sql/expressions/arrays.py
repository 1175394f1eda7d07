"""Arrays, and functions that read one array."""

from __future__ import annotations

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import Compiler, Typed, computes
from rheos.sql.text import kind


@computes(exp.Array)
def array(compiler: Compiler, node: exp.Array) -> Typed:
    """Compile ARRAY(a, b): a list of values of one type."""
    if not node.expressions:
        raise compiler.sql.error("an empty ARRAY has no type", node, "write ARRAY(CAST(NULL AS INT))")
    values, inner = compiler.common([compiler.compile(each) for each in node.expressions], "ARRAY")
    return Typed(listed([each.expr for each in values], inner), pl.List(inner), node)


def listed(parts: list[pl.Expr], inner: pl.DataType) -> pl.Expr:
    """Return values of a type as a list."""
    if not isinstance(inner, pl.List):
        return pl.concat_list(parts)
    # Polars would concatenate the lists.
    wrapped = pl.concat_list([pl.struct(part.alias("value")) for part in parts])
    return wrapped.list.eval(pl.element().struct.field("value"))


def list_of(compiler: Compiler, node: exp.Expr, of: exp.Expr) -> tuple[Typed, pl.DataType]:
    """Return an array, and the type of its elements. Raise SchemaError."""
    value = compiler.compile(of)
    if not isinstance(value.type, pl.List):
        raise compiler.wrong_type(f"{kind(node)} needs an ARRAY", value, "name a list", at=of)
    inner = value.type.inner
    assert isinstance(inner, pl.DataType)
    return value, inner


@computes(exp.ArrayMax, exp.ArrayMin)
def extreme(compiler: Compiler, node: exp.ArrayMax | exp.ArrayMin) -> Typed:
    """Compile ARRAY_MAX and ARRAY_MIN. NaN is the greatest number."""
    compiler.sql.only(node, ("this",))
    value, inner = list_of(compiler, node, node.this)
    found = value.expr.list.drop_nulls().list.sort()
    best = found.list.last() if isinstance(node, exp.ArrayMax) else found.list.first()
    return Typed(best, inner, node)


@computes(exp.ArrayDistinct)
def distinct(compiler: Compiler, node: exp.ArrayDistinct) -> Typed:
    compiler.sql.only(node, ("this",))
    value, _ = list_of(compiler, node, node.this)
    return Typed(value.expr.list.unique(maintain_order=True), value.type, node)


def sort_by_order(compiler: Compiler, node: exp.ArraySort) -> Typed:
    """Compile SORT_ARRAY, with nulls first, and ARRAY_SORT, with nulls last. Raise ProgramError or
    SchemaError."""
    compiler.sql.only(node, ("this", "nulls_first", "asc"))
    value, _ = list_of(compiler, node, node.this)
    first, rises = (node.args.get(name) for name in ("nulls_first", "asc"))
    if rises is not None and not isinstance(rises, exp.Boolean):
        raise compiler.sql.error(f"{kind(node)} takes TRUE or FALSE here", rises, "write FALSE")
    nulls_last = not (isinstance(first, exp.Boolean) and first.this)
    descending = rises is not None and not rises.this
    return Typed(value.expr.list.sort(descending=descending, nulls_last=nulls_last), value.type, node)


@computes(exp.ArrayContains)
def contains(compiler: Compiler, node: exp.ArrayContains) -> Typed:
    """Compile ARRAY_CONTAINS: null if the element is not found among nulls."""
    compiler.sql.only(node, ("this", "expression"))
    value, inner = list_of(compiler, node, node.this)
    element = compiler.cast(compiler.compile(node.expression), inner)
    found = value.expr.list.contains(element.expr)
    unknown = value.expr.list.len() > value.expr.list.drop_nulls().list.len()
    made = pl.when(found).then(True).when(~unknown).then(False)
    there = value.expr.is_not_null() & element.expr.is_not_null()
    return Typed(pl.when(there).then(made), types.BOOLEAN, node)
