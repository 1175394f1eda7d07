"""Elements of arrays, and fields of structs."""

from __future__ import annotations

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.maps import map_of_bracket, value_at
from rheos.sql.expressions.table import Compiler, Typed, computes, computes_named


@computes(exp.Bracket)
def element(compiler: Compiler, node: exp.Bracket) -> Typed:
    """Compile an element: `list[0]` counts from 0, ELEMENT_AT(list, 1) from 1, or from the end with -1.
    It is null if the list is too short."""
    compiler.sql.only(node, ("this", "expressions", "offset", "safe"))
    of_map = map_of_bracket(compiler, node)
    if of_map is not None:
        return of_map
    value = compiler.compile(node.this)
    if len(node.expressions) != 1:
        raise compiler.sql.error("[...] takes one place", node, "write list[0]")
    [place] = node.expressions
    at = compiler.compile(place)
    if isinstance(value.type, pl.Map):
        return value_at(compiler, value, at, node)
    if isinstance(value.type, pl.Struct) and isinstance(at.constant, str):
        return field(compiler, value, at.constant, node)
    if not isinstance(value.type, pl.List) or not types.is_integer(at.type):
        raise compiler.wrong_type(
            "[...] needs an ARRAY", value, "write list[0] for the first element", at=node
        )
    first = node.args.get("offset") or 0
    index = at.expr - first
    kind = value.type.inner
    assert isinstance(kind, pl.DataType)
    # In Polars negative places count from the end, as they do for ELEMENT_AT alone.
    from_end = at.expr if first else pl.lit(None, dtype=types.BIGINT)
    place = pl.when(at.expr >= first).then(index).when(at.expr < 0).then(from_end)
    found = value.expr.list.get(place, null_on_oob=True)
    return Typed(found, kind, node)


def field(compiler: Compiler, value: Typed, name: str, node: exp.Expr) -> Typed:
    """Compile a field of a struct. Raises SchemaError."""
    assert isinstance(value.type, pl.Struct)
    fields = {each.name: each.dtype for each in value.type.fields}
    found = next((each for each in fields if each.casefold() == name.casefold()), None)
    if found is None:
        raise compiler.sql.unknown("field", name, node, fields, "the fields here are")
    kind = fields[found]
    assert isinstance(kind, pl.DataType)
    return Typed(value.expr.struct.field(found), kind, node)


@computes(exp.Dot)
def dot(compiler: Compiler, node: exp.Dot) -> Typed:
    compiler.sql.only(node, ("this", "expression"))
    value = compiler.compile(node.this)
    if not isinstance(value.type, pl.Struct):
        raise compiler.wrong_type(
            "a dot selects a field of a STRUCT", value, "write column.field", at=node
        )
    return field(compiler, value, node.expression.name, node)


@computes(exp.ArraySize)
def array_size(compiler: Compiler, node: exp.ArraySize) -> Typed:
    compiler.sql.only(node, ("this",))
    return Typed(_length(compiler, node, node.this), types.INT, node)


@computes_named("size", "cardinality")
def size(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile SIZE. The size of a null list is -1, as in Spark."""
    if len(node.expressions) != 1:
        raise compiler.sql.error("SIZE needs an ARRAY", node, "name a list")
    return Typed(_length(compiler, node, node.expressions[0]).fill_null(-1), types.INT, node)


def _length(compiler: Compiler, node: exp.Expr, of: exp.Expr) -> pl.Expr:
    value = compiler.compile(of)
    if isinstance(value.type, pl.Map):
        return value.expr.map.len().cast(types.INT)
    if not isinstance(value.type, pl.List):
        raise compiler.wrong_type("SIZE needs an ARRAY or a MAP", value, "name a list", at=node)
    return value.expr.list.len().cast(types.INT)
