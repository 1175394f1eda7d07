"""Maps and structs: their constructors, and the parts of maps."""

from __future__ import annotations

from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.array_functions import ARRAY, inner_type
from rheos.sql.expressions.table import (
    ANY,
    TEXT,
    Compiler,
    Takes,
    Typed,
    computes,
    computes_named,
    optional,
)
from rheos.sql.list_rows import PLACE, zip_elements
from rheos.sql.map_joins import KEY, VALUE
from rheos.sql.text import kind

MAP = Takes("a MAP", lambda of: isinstance(of, pl.Map))


def type_of_map(compiler: Compiler, node: exp.Expr, value: Typed) -> tuple[pl.DataType, pl.DataType]:
    """Return the types of the keys and of the values of an argument. Raise SchemaError for NULL."""
    if not isinstance(value.type, pl.Map):
        raise compiler.wrong_type(f"{kind(node)} takes a MAP", value, "write MAP('a', 1)")
    return parts_of(value.type)


def parts_of(type_: pl.DataType) -> tuple[pl.DataType, pl.DataType]:
    """Return the types of the keys and of the values of a map."""
    assert isinstance(type_, pl.Map)
    assert isinstance(type_.key, pl.DataType)
    assert isinstance(type_.value, pl.DataType)
    return type_.key, type_.value


def entries_type(type_: pl.DataType) -> pl.List:
    """Return the type of a map's entries, as a list of structs."""
    key, value = parts_of(type_)
    return pl.List(pl.Struct({KEY: key, VALUE: value}))


@computes_named("map")
def map_(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile MAP(key, value, ...). Of equal keys the last value counts."""
    return _map(compiler, node, node.expressions)


def _map(compiler: Compiler, node: exp.Expr, given: list[exp.Expr]) -> Typed:
    if not given or len(given) % 2:
        raise compiler.sql.error("MAP takes keys and values in turn", node, "write MAP('a', 1, 'b', 2)")
    every = [compiler.compile(each) for each in given]
    keys, key = compiler.common(every[::2], "MAP")
    values, value = compiler.common(every[1::2], "MAP")
    entries = [
        pl.struct(one.expr.alias(KEY), other.expr.alias(VALUE))
        for one, other in zip(keys, values, strict=True)
    ]
    return Typed(pl.concat_list(entries).list.to_map(), pl.Map(key, value), node)


def map_of_bracket(compiler: Compiler, node: exp.Bracket) -> Typed | None:
    """Compile MAP['a', 1] as Flink writes it; None if the node is another one."""
    of = node.this
    is_map = isinstance(of, exp.Column) and of.name.upper() == "MAP" and len(node.expressions) > 1
    return _map(compiler, node, node.expressions) if is_map else None


@computes_named("map_from_arrays")
def map_from_arrays(compiler: Compiler, node: exp.Anonymous) -> Typed:
    keys, values = compiler.given(node, [ARRAY, ARRAY])
    names = (KEY, VALUE)
    zipped = pl.List(pl.Struct({KEY: inner_type(keys), VALUE: inner_type(values), PLACE: types.INT}))
    made = of_columns(partial(zip_elements, lists=2, names=names), [keys.expr, values.expr], zipped)
    entry = pl.struct(*(pl.element().struct.field(name) for name in names))
    type_ = pl.Map(inner_type(keys), inner_type(values))
    return Typed(made.list.eval(entry).list.to_map(), type_, node)


@computes_named("map_from_entries")
def map_from_entries(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, [ARRAY])
    entry = inner_type(value)
    if not isinstance(entry, pl.Struct) or len(entry.fields) != 2:
        raise compiler.wrong_type(
            f"{kind(node)} takes an ARRAY of STRUCTs of two fields", value, "write STRUCT(k, v)"
        )
    key, of = (each.dtype for each in entry.fields)
    fields = (pl.element().struct.field(each.name) for each in entry.fields)
    renamed = [field.alias(name) for field, name in zip(fields, (KEY, VALUE), strict=True)]
    made = value.expr.list.eval(pl.struct(*renamed)).list.to_map()
    return Typed(made, pl.Map(key, of), node)


@computes_named("map_keys", "map_values", "map_entries")
def parts(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, [MAP])
    key, of = type_of_map(compiler, node, value)
    match node.name.casefold():
        case "map_keys":
            return Typed(value.expr.map.keys(), pl.List(key), node)
        case "map_values":
            return Typed(value.expr.map.values(), pl.List(of), node)
    return Typed(value.expr.map.entries(), entries_type(value.type), node)


@computes_named("map_contains_key")
def contains_key(compiler: Compiler, node: exp.Anonymous) -> Typed:
    value, key = compiler.given(node, [MAP, ANY])
    asked = compiler.cast(key, type_of_map(compiler, node, value)[0])
    found = pl.when(asked.expr.is_not_null()).then(value.expr.map.contains_key(asked.expr))
    return Typed(found, types.BOOLEAN, node)


def value_at(compiler: Compiler, value: Typed, key: Typed, node: exp.Expr) -> Typed:
    """Return the value of a key; null if the map lacks it."""
    wanted, of = parts_of(value.type)
    return Typed(value.expr.map.get(compiler.cast(key, wanted).expr), of, node)


@computes_named("map_concat", "map_union")
def map_concat(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile MAP_CONCAT. Of equal keys the last value counts."""
    values = compiler.given(node, [MAP] * max(1, len(node.expressions)))
    type_of_map(compiler, node, values[0])
    if any(each.type != values[0].type for each in values):
        raise compiler.sql.error(
            f"{kind(node)} takes maps of one type", node, "convert keys and values with CAST"
        )
    entries = pl.concat_list([each.expr.map.entries() for each in values])
    return Typed(entries.list.to_map(), values[0].type, node)


@computes_named("str_to_map")
def str_to_map(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile STR_TO_MAP(string[, between pairs[, between key and value]])."""
    text, *between = compiler.given(node, [TEXT, optional(TEXT), optional(TEXT)])
    signs = [each.constant for each in between] + [",", ":"][len(between) :]
    for sign, each in zip(signs, between, strict=False):
        if not isinstance(sign, str) or len(sign) != 1 or sign in ".^$*+?()[{\\|":
            raise compiler.sql.error(
                f"{kind(node)} takes constant separators of one character",
                each.node,
                "write STR_TO_MAP(s, ',', ':')",
            )
    pair = pl.element().str.splitn(signs[1], 2)
    fields = [pair.struct.field(f"field_{place}").alias(name) for place, name in ((0, KEY), (1, VALUE))]
    made = text.expr.str.split(signs[0]).list.eval(pl.struct(*fields)).list.to_map()
    return Typed(made, pl.Map(types.TEXT, types.TEXT), node)


# --- structs ------------------------------------------------------------------------------------------


@computes(exp.Struct)
def struct(compiler: Compiler, node: exp.Struct) -> Typed:
    """Compile STRUCT(a, b AS c) and NAMED_STRUCT('a', 1). Fields without a name are col1, col2."""
    compiler.sql.only(node, ("expressions",))
    named = {}
    for place, each in enumerate(node.expressions, start=1):
        has_name = isinstance(each, exp.PropertyEQ | exp.Alias)
        of = each.expression if isinstance(each, exp.PropertyEQ) else each.unalias()
        name = (each.this.name if isinstance(each, exp.PropertyEQ) else each.alias) if has_name else ""
        named[name or of.name or f"col{place}"] = compiler.compile(of)
    return _struct(compiler, node, named)


@computes_named("row")
def row(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ROW(a, b), whose fields are named as in Flink: f0, f1."""
    fields = {f"f{place}": compiler.compile(each) for place, each in enumerate(node.expressions)}
    return _struct(compiler, node, fields)


def _struct(compiler: Compiler, node: exp.Expr, named: dict[str, Typed]) -> Typed:
    if not named or len(named) < len(node.expressions):
        raise compiler.sql.error(
            "a STRUCT has fields with different names", node, "write NAMED_STRUCT('a', 1, 'b', 2)"
        )
    for value in named.values():
        if value.type == types.NULL:
            raise compiler.sql.wrong_type(
                "NULL has no type here", value.node, "write CAST(NULL AS STRING)"
            )
    made = pl.struct(*(value.expr.alias(name) for name, value in named.items()))
    return Typed(made, pl.Struct({name: value.type for name, value in named.items()}), node)
