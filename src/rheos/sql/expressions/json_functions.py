"""JSON functions of Spark and PostgreSQL, over strings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import json_types, json_values, types, variant_schemas, variants
from rheos.sql.expressions.format_options import (
    TIMES,
    check_mode,
    formatters,
    is_on,
    options_of,
    parsers,
    schema_type,
)
from rheos.sql.expressions.table import (
    ANY,
    TEXT,
    Compiler,
    Typed,
    computes,
    computes_named,
    function,
    optional,
)
from rheos.sql.json_columns import JsonWriter, json_texts
from rheos.sql.json_parser import JsonArrow
from rheos.sql.json_paths import VariantPath, spark_path
from rheos.sql.text import kind
from rheos.sql.value_functions import of_values

_MOST_KEYS = 30
"""Keys of a call of JSON_EXTRACT_PATH."""
_TEXTS = pl.List(types.TEXT)


JSON_TEXT = replace(TEXT, what="a STRING of JSON")
_CONSTANT = replace(TEXT, what="a constant string", constant=True)


@computes_named("get_json_object")
def get_json_object(compiler: Compiler, node: exp.Anonymous) -> Typed:
    document, path = compiler.given(node, (JSON_TEXT, TEXT))
    if not path.is_constant:
        by = of_values(json_values.spark_object_by, [document.expr, path.expr], types.TEXT)
        return Typed(by, types.TEXT, node)
    steps = None if path.constant is None else spark_path(path.constant)
    if steps is None:  # Spark returns null for a malformed path.
        return Typed(pl.lit(None, types.TEXT), types.TEXT, node)
    made = partial(json_values.spark_object, path=steps)
    return Typed(of_values(made, [document.expr], types.TEXT), types.TEXT, node)


@function("json_array_length", {"this": TEXT}, types.INT)
def json_array_length(this: pl.Expr) -> pl.Expr:
    return of_values(json_values.array_length, [this], types.INT)


@function("json_object_keys", {"this": TEXT}, _TEXTS)
def json_object_keys(this: pl.Expr) -> pl.Expr:
    return of_values(json_values.object_keys, [this], _TEXTS)


@function(("json_typeof", "jsonb_typeof"), {"this": JSON_TEXT}, types.TEXT)
def json_typeof(this: pl.Expr) -> pl.Expr:
    return of_values(json_values.kind_of_text, [this], types.TEXT)


@computes_named("to_json")
def to_json(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile TO_JSON(value[, options]). Fields that are null are left out by default."""
    value, *_ = compiler.given(node, (ANY, optional(ANY)))
    options = options_of(compiler, node, node.expressions[1:], ("ignoreNullFields", "sortKeys", *TIMES))
    if not isinstance(value.type, pl.Struct | pl.List | pl.Map):
        raise compiler.wrong_type(
            f"{kind(node)} takes a STRUCT, an ARRAY, a MAP or a VARIANT", value, "write STRUCT(...)"
        )
    if not _has_keys(value.type):
        raise compiler.wrong_type(
            f"{kind(node)} takes a MAP whose keys are STRING, BOOLEAN or integers",
            value,
            "write TRANSFORM_KEYS(m, (k, v) -> CAST(k AS STRING))",
        )
    writer = JsonWriter(
        keep_nulls=not is_on(compiler, options, "ignoreNullFields", default=True),
        sort_keys=is_on(compiler, options, "sortKeys", default=False),
        formats=formatters(compiler, node, options),
    )
    made = partial(json_texts, writer=writer)
    return Typed(of_columns(made, [value.expr], types.TEXT), types.TEXT, node)


def _has_keys(of: Any) -> bool:
    """Return whether the keys of all maps in a type can be keys in JSON."""
    match of:
        case pl.Map():
            key: Any = of.key
            return (key in (types.TEXT, types.BOOLEAN) or types.is_integer(key)) and _has_keys(of.value)
        case pl.List():
            return _has_keys(of.inner)
        case pl.Struct():
            return all(_has_keys(field.dtype) for field in of.fields)
    return True


@computes_named("from_json")
def from_json(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile FROM_JSON(string, schema[, options]). The schema is DDL, such as 'a INT, b STRING', or a
    type, such as 'ARRAY<INT>'."""
    document, schema, *_ = compiler.given(node, (JSON_TEXT, _CONSTANT, optional(ANY)))
    to = schema_type(compiler, schema)
    if not isinstance(to, pl.Struct | pl.List | pl.Map) or not json_types.has_json_form(to):
        raise compiler.sql.error(
            f"{kind(node)} cannot read {types.name(to)}", schema.node, "read it as STRING, then CAST it"
        )
    options = options_of(compiler, node, node.expressions[2:], ("mode", *TIMES))
    check_mode(compiler, options)
    made = partial(json_types.read, kind=to, formats=parsers(compiler, options))
    return Typed(of_columns(made, [document.expr], to), to, node)


@function("schema_of_json", {"this": JSON_TEXT}, types.TEXT)
def schema_of_json(this: pl.Expr) -> pl.Expr:
    return of_values(variant_schemas.schema_of_json, [this], types.TEXT)


def json_tuple(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Return the row of JSON_TUPLE(document, 'a', 'b') as a list of one struct: c0, c1. Raise
    ProgramError, SchemaError.
    """
    document, *keys = compiler.given(node, (JSON_TEXT, _CONSTANT, *[optional(_CONSTANT)] * _MOST_KEYS))
    fields = {
        f"c{place}": of_values(
            partial(json_values.tuple_field, key=key.constant), [document.expr], types.TEXT
        )
        for place, key in enumerate(keys)
    }
    row = pl.struct([field.alias(name) for name, field in fields.items()])
    return Typed(pl.concat_list(row), pl.List(pl.Struct(dict.fromkeys(fields, types.TEXT))), node)


# --- PostgreSQL ---------------------------------------------------------------------------------------


@computes(JsonArrow)
def arrow(compiler: Compiler, node: JsonArrow) -> Typed:
    """Compile `->` and `->>` with a key or an index, `#>` and `#>>` with '{a,0,b}'."""
    compiler.sql.only(node, ("this", "expression", "as_text", "is_path"))
    key = compiler.compile(node.expression)
    if not key.is_constant or not isinstance(key.constant, str | int) or isinstance(key.constant, bool):
        raise compiler.sql.error(
            "a JSON operator takes a constant key or index",
            node.expression,
            "write payload -> 'key', or GET_JSON_OBJECT(payload, path)",
        )
    path: VariantPath = (key.constant,)
    if node.args.get("is_path"):
        path = tuple(_step(each.strip(' "')) for each in str(key.constant).strip("{}").split(","))
    return _find_by_path(
        compiler, node, compiler.compile(node.this), path, as_text=bool(node.args["as_text"])
    )


def _find_by_path(
    compiler: Compiler, node: exp.Expr, value: Typed, path: VariantPath, *, as_text: bool
) -> Typed:
    if value.type == types.VARIANT:
        text = variants.documents(value.expr)
    elif value.type in (types.TEXT, types.NULL):
        text = compiler.cast(value, types.TEXT).expr
    else:
        raise compiler.wrong_type(
            "a JSON operator reads a STRING or a VARIANT", value, "name a column of JSON"
        )
    made = partial(json_values.arrow, path=path, as_text=as_text)
    return Typed(of_values(made, [text], types.TEXT), types.TEXT, node)


@computes_named("json_extract_path", "json_extract_path_text")
def extract_path(compiler: Compiler, node: exp.Anonymous) -> Typed:
    value, *keys = compiler.given(node, (ANY, *[optional(_CONSTANT)] * _MOST_KEYS))
    path = tuple(_step(key.constant) for key in keys)
    return _find_by_path(compiler, node, value, path, as_text=node.name.lower().endswith("text"))


def _step(key: str) -> str | int:
    """Return a part of a path in PostgreSQL: a number selects an element."""
    return int(key) if re.fullmatch("-?[0-9]+", key) else key


def as_json(values: Sequence[Typed], are_json: Sequence[bool]) -> list[pl.Expr]:
    """Return values as columns of JSON text. Those that are JSON already are not quoted again."""
    made = []
    for value, is_json in zip(values, are_json, strict=True):
        if value.type == types.VARIANT:
            made.append(of_values(variants.shown, [variants.documents(value.expr)], types.TEXT))
        elif is_json:
            made.append(value.expr)
        else:
            text = partial(json_texts, writer=JsonWriter(keep_nulls=True))
            made.append(of_columns(text, [value.expr], types.TEXT))
    return made
