"""JSON functions and operators of PostgreSQL, over strings."""

from __future__ import annotations

from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import json_values, jsonb_values, types, variants
from rheos.sql.expressions.array_functions import list_in_list
from rheos.sql.expressions.json_functions import JSON_TEXT
from rheos.sql.expressions.postgres_casts import cast_value
from rheos.sql.expressions.table import (
    ANY,
    CONSTANT_TEXT,
    TEXT,
    Compiler,
    Takes,
    Typed,
    computes_named,
    function,
    optional,
)
from rheos.sql.json_documents import parsed
from rheos.sql.json_parser import JsonArray, JsonArrow, JsonObject, JsonQuery
from rheos.sql.json_paths import standard_path
from rheos.sql.text import kind
from rheos.sql.value_functions import of_values

_TEXTS = pl.List(types.TEXT)
_FLAG = Takes("a BOOLEAN", lambda of: of == types.BOOLEAN, types.BOOLEAN, optional=True)


def texts_of(compiler: Compiler, node: exp.Expr) -> Typed:
    """Compile an array of strings, or a constant such as '{a,b}'."""
    value = compiler.compile(node)
    if value.type not in (types.TEXT, _TEXTS, types.NULL):
        raise compiler.wrong_type("this takes an ARRAY of STRINGs", value, "write ARRAY['a', 'b']")
    made = value.expr.cast(_TEXTS) if value.type == types.NULL else value.expr
    converted = cast_value(made, value.type, _TEXTS) if value.type == types.TEXT else made
    assert converted is not None
    return Typed(converted, _TEXTS, node)


# --- operators ----------------------------------------------------------------------------------------


@computes_named("pg.contains")
def contains(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile `@>`: of arrays whether it has all elements of the other, or of JSON."""
    one, other = (compiler.compile(each) for each in node.expressions)
    if isinstance(one.type, pl.List) or isinstance(other.type, pl.List):
        return list_in_list(compiler, node, one, other)
    whole, part = compiler.given(node, [JSON_TEXT, JSON_TEXT])
    made = of_values(jsonb_values.contains, [whole.expr, part.expr], types.BOOLEAN)
    return Typed(made, types.BOOLEAN, node)


@function("pg.has_key", {"document": JSON_TEXT, "key": TEXT}, types.BOOLEAN)
def has_key(document: pl.Expr, key: pl.Expr) -> pl.Expr:
    return of_values(jsonb_values.has_key, [document, key], types.BOOLEAN)


@computes_named("pg.has_all_keys", "pg.has_any_key")
def has_keys(compiler: Compiler, node: exp.Anonymous) -> Typed:
    document, keys = node.expressions
    texts = [compiler.text(document, "?& and ?|").expr, texts_of(compiler, keys).expr]
    test = partial(_has_keys, every=node.name == "pg.has_all_keys")
    return Typed(of_values(test, [texts[0], _joined(texts[1])], types.BOOLEAN), types.BOOLEAN, node)


def _joined(keys: pl.Expr) -> pl.Expr:
    """Return arrays of strings as JSON, because `of_values` takes values that are hashable."""
    return of_columns(jsonb_values.texts_of_values, [keys], types.TEXT)


def _keys(array: str) -> list[str]:
    keys = parsed(array)
    assert isinstance(keys, list), "`_joined` writes an array"
    return [str(each) for each in keys if each is not None]


def _has_keys(text: str, keys: str, *, every: bool) -> bool | None:
    return jsonb_values.has_keys(text, _keys(keys), every=every)


@function(("pg.json_concat", "jsonb_concat"), {"one": JSON_TEXT, "other": JSON_TEXT}, types.TEXT)
def concat(one: pl.Expr, other: pl.Expr) -> pl.Expr:
    return of_values(jsonb_values.concatenated, [one, other], types.TEXT)


@computes_named("pg.json_delete", "jsonb_delete")
def delete(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile `-` of JSON: without a key, an element by its place, or keys."""
    document, what = compiler.given(node, [JSON_TEXT, ANY])
    if types.is_integer(what.type):
        made = of_values(jsonb_values.without_element, [document.expr, what.expr], types.TEXT)
    elif isinstance(what.type, pl.List):
        keys = _joined(texts_of(compiler, node.expressions[1]).expr)
        made = of_values(_without_keys, [document.expr, keys], types.TEXT)
    else:
        key = compiler.text(node.expressions[1], kind(node)).expr
        made = of_values(jsonb_values.without_key, [document.expr, key], types.TEXT)
    return Typed(made, types.TEXT, node)


def _without_keys(text: str, keys: str) -> str | None:
    return jsonb_values.without_keys(text, _keys(keys))


@computes_named("pg.delete_path", "jsonb_delete_path")
def delete_path(compiler: Compiler, node: exp.Anonymous) -> Typed:
    document, path = compiler.given(node, [JSON_TEXT, ANY])
    way = _joined(texts_of(compiler, path.node).expr)
    return Typed(of_values(_without_path, [document.expr, way], types.TEXT), types.TEXT, node)


def _without_path(text: str, path: str) -> str | None:
    return jsonb_values.without_path(text, _keys(path))


# --- changes ------------------------------------------------------------------------------------------


@computes_named("jsonb_set", "jsonb_insert")
def changed(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile JSONB_SET(document, path, value[, creates]) and JSONB_INSERT(..., [after])."""
    document, path, new, *flag = compiler.given(node, [JSON_TEXT, ANY, JSON_TEXT, _FLAG])
    way = _joined(texts_of(compiler, path.node).expr)
    sets = node.name.casefold() == "jsonb_set"
    choice = flag[0].expr if flag else pl.lit(sets)
    compute = _with_value if sets else _with_inserted
    return Typed(
        of_values(compute, [document.expr, way, new.expr, choice], types.TEXT), types.TEXT, node
    )


def _with_value(text: str, path: str, new: str, create: bool) -> str | None:
    return jsonb_values.with_value(text, _keys(path), new, create)


def _with_inserted(text: str, path: str, new: str, after: bool) -> str | None:
    return jsonb_values.with_inserted(text, _keys(path), new, after)


@function(("jsonb_strip_nulls", "json_strip_nulls"), {"document": JSON_TEXT}, types.TEXT)
def strip_nulls(document: pl.Expr) -> pl.Expr:
    return of_values(jsonb_values.without_nulls, [document], types.TEXT)


@function("jsonb_pretty", {"document": JSON_TEXT}, types.TEXT)
def pretty(document: pl.Expr) -> pl.Expr:
    return of_values(jsonb_values.pretty, [document], types.TEXT)


@function("jsonb_array_length", {"document": JSON_TEXT}, types.INT)
def array_length(document: pl.Expr) -> pl.Expr:
    return of_values(json_values.array_length, [document], types.INT)


# --- paths --------------------------------------------------------------------------------------------


@computes_named("jsonb_path_exists", "jsonb_path_query_first", "jsonb_path_query_array")
def found_by_path(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile functions of a constant path of keys, indexes and wildcards."""
    document, path = compiler.given(node, [JSON_TEXT, CONSTANT_TEXT])
    steps = standard_path(path.constant)
    if steps is None:
        raise compiler.sql.error(
            f"{kind(node)} takes a constant path of keys, indexes and wildcards, without filters",
            path.node,
            "write '$.a[0].b' or '$.a[*]'",
        )
    name = node.name.casefold()
    if name == "jsonb_path_exists":
        test = partial(json_values.exists, path=steps, on_error=None)
        return Typed(of_values(test, [document.expr], types.BOOLEAN), types.BOOLEAN, node)
    read = partial(jsonb_values.found_by_path, path=steps, first=name.endswith("first"))
    return Typed(of_values(read, [document.expr], types.TEXT), types.TEXT, node)


# --- values as JSON -----------------------------------------------------------------------------------

_JSON_TYPES = (exp.DType.JSON, exp.DType.JSONB)
_MADE_OF_JSON = (JsonObject, JsonArray, JsonQuery)
_RETURN_JSON = (
    *("json_build_object", "jsonb_build_object", "json_build_array", "jsonb_build_array", "to_json"),
    *("to_jsonb", "jsonb_set", "jsonb_insert", "jsonb_strip_nulls", "json_strip_nulls", "jsonb_object"),
    *("jsonb_path_query_first", "jsonb_path_query_array", "json_extract_path", "jsonb_extract_path"),
    *(
        "pg.json_concat",
        "pg.json_delete",
        "pg.delete_path",
        "row_to_json",
        "array_to_json",
        "json_scalar",
    ),
    "jsonb_concat",
)


def returns_json(node: exp.Expr) -> bool:
    """Return whether an expression is JSON, as far as the words of the query tell."""
    node = node.unnest()
    match node:
        case exp.Cast():
            return node.to.this in _JSON_TYPES
        case JsonArrow():
            return not node.args.get("as_text")
        case exp.Anonymous():
            return node.name.casefold() in _RETURN_JSON
    return isinstance(node, _MADE_OF_JSON)


def as_jsonb(value: Typed) -> pl.Expr:
    """Return a value as JSON; null for NULL."""
    if value.type == types.VARIANT:
        return of_values(variants.shown, [variants.documents(value.expr)], types.TEXT)
    if value.type == types.NULL or returns_json(value.node):
        return value.expr.cast(types.TEXT)
    return of_columns(jsonb_values.texts_of_values, [value.expr], types.TEXT)


@computes_named("to_jsonb", "array_to_json", "row_to_json", "json_scalar", "pg.to_json")
def to_jsonb(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, [ANY])
    return Typed(as_jsonb(value), types.TEXT, node)


@computes_named("json_build_object", "jsonb_build_object", "json_build_array", "jsonb_build_array")
def build(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile JSONB_BUILD_OBJECT(key, value, ...) and JSONB_BUILD_ARRAY(value, ...)."""
    name = node.name.casefold()
    keys = name.endswith("object")
    if keys and len(node.expressions) % 2:
        raise compiler.sql.error(
            f"{kind(node)} takes keys and values in turn", node, "write ('a', 1, 'b', 2)"
        )
    if not node.expressions:
        return Typed(pl.lit("{}" if keys else "[]"), types.TEXT, node)
    parts = []
    for place, each in enumerate(node.expressions):
        value = compiler.compile(each)
        is_key = keys and place % 2 == 0
        text = cast_value(value.expr, value.type, types.TEXT) if is_key else as_jsonb(value)
        if text is None:
            raise compiler.wrong_type("a key is a STRING", value, "write 'name'", at=each)
        parts.append(text)
    made = partial(jsonb_values.built, keys=keys, sorts=name.startswith("jsonb"))
    return Typed(of_columns(made, parts, types.TEXT), types.TEXT, node)


@computes_named("jsonb_object")
def object_of_texts(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile JSONB_OBJECT(keys_and_values) and JSONB_OBJECT(keys, values), of arrays of strings."""
    compiler.given(node, [ANY, optional(ANY)])
    lists = [_joined(texts_of(compiler, each).expr) for each in node.expressions]
    return Typed(of_values(_object_of_texts, lists, types.TEXT), types.TEXT, node)


def _object_of_texts(*arrays: str) -> str | None:
    lists = [parsed(each) for each in arrays]
    return jsonb_values.object_of_texts(*lists)  # type: ignore[arg-type]
