"""Functions of arrays, and functions of their elements: TRANSFORM(list, x -> x + 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import Columns, Compiler, Typed, computes, computes_named
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


def _list(compiler: Compiler, node: exp.Expr, of: exp.Expr) -> tuple[Typed, pl.DataType]:
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
    value, inner = _list(compiler, node, node.this)
    found = value.expr.list.drop_nulls().list.sort()
    best = found.list.last() if isinstance(node, exp.ArrayMax) else found.list.first()
    return Typed(best, inner, node)


@computes(exp.ArrayDistinct)
def distinct(compiler: Compiler, node: exp.ArrayDistinct) -> Typed:
    compiler.sql.only(node, ("this",))
    value, _ = _list(compiler, node, node.this)
    return Typed(value.expr.list.unique(maintain_order=True), value.type, node)


@computes(exp.ArraySort)
def sort(compiler: Compiler, node: exp.ArraySort) -> Typed:
    """Compile SORT_ARRAY, with nulls first, and ARRAY_SORT, with nulls last."""
    compiler.sql.only(node, ("this", "nulls_first", "asc"))
    value, _ = _list(compiler, node, node.this)
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
    value, inner = _list(compiler, node, node.this)
    element = compiler.cast(compiler.compile(node.expression), inner)
    found = value.expr.list.contains(element.expr)
    unknown = value.expr.list.len() > value.expr.list.drop_nulls().list.len()
    made = pl.when(found).then(True).when(~unknown).then(False)
    there = value.expr.is_not_null() & element.expr.is_not_null()
    return Typed(pl.when(there).then(made), types.BOOLEAN, node)


@dataclass(frozen=True)
class _Element:
    """The argument of a lambda as the only column that its body reads."""

    outside: Compiler
    name: str
    type: pl.DataType

    def column(self, node: exp.Column) -> Typed:
        if node.name.casefold() != self.name.casefold() or node.table:
            raise self.outside.sql.error(
                f"a function of elements reads only its argument {self.name}, not {node.name!r}",
                node,
                "compute the array with it first",
            )
        return Typed(pl.element(), self.type, node)


def _body(compiler: Compiler, node: exp.Expr, of: exp.Expr, given: exp.Expr) -> tuple[Typed, Typed]:
    """Return the array, and the body of a lambda over its elements. Raise ProgramError, SchemaError."""
    value, inner = _list(compiler, node, of)
    if not isinstance(given, exp.Lambda) or len(given.expressions) != 1:
        raise compiler.sql.error(
            f"{kind(node)} takes a function of one element", given or node, "write x -> x + 1"
        )
    columns: Columns = _Element(compiler, given.expressions[0].name, inner)
    body = given.this.transform(
        lambda part: (
            exp.column(part)
            if isinstance(part, exp.Identifier) and not isinstance(part.parent, exp.Column)
            else part
        )
    )
    return value, replace(compiler, columns=columns, instead=lambda each: None).compile(body)


@computes(exp.Transform)
def transform(compiler: Compiler, node: exp.Transform) -> Typed:
    value, body = _body(compiler, node, node.this, node.expression)
    return Typed(value.expr.list.eval(body.expr), pl.List(body.type), node)


@computes(exp.ArrayFilter)
def filter_(compiler: Compiler, node: exp.ArrayFilter) -> Typed:
    value, body = _body(compiler, node, node.this, node.expression)
    kept = pl.element().filter(_condition(compiler, body).fill_null(False))
    return Typed(value.expr.list.eval(kept), value.type, node)


def _condition(compiler: Compiler, body: Typed) -> pl.Expr:
    if body.type not in (types.BOOLEAN, types.NULL):
        raise compiler.wrong_type("the function must be a condition", body, "compare the element")
    return compiler.cast(body, types.BOOLEAN).expr


def _quantified(
    compiler: Compiler, node: exp.Expr, of: exp.Expr, given: exp.Expr, *, every: bool
) -> Typed:
    """Return whether a condition holds for all elements, or for any. Null is unknown."""
    value, body = _body(compiler, node, of, given)
    holds = _condition(compiler, body)
    made = holds.all(ignore_nulls=False) if every else holds.any(ignore_nulls=False)
    found = value.expr.list.eval(made).list.first()
    empty = pl.when(value.expr.list.len() == 0).then(pl.lit(every))
    return Typed(empty.otherwise(found), types.BOOLEAN, node)


@computes_named("forall")
def forall(compiler: Compiler, node: exp.Anonymous) -> Typed:
    if len(node.expressions) != 2:
        raise compiler.sql.error("FORALL takes an ARRAY and a function", node, "write x -> x > 0")
    return _quantified(compiler, node, *node.expressions, every=True)


@computes(exp.Exists)
def exists(compiler: Compiler, node: exp.Exists) -> Typed:
    """Compile EXISTS(list, x -> x > 0). EXISTS of a query is a condition of WHERE."""
    given = node.args.get("expression")
    if given is None:
        raise compiler.refused(node)
    return _quantified(compiler, node, node.this, given, every=False)
