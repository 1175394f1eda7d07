"""JSON functions of the SQL standard, as Flink has them: JSON_VALUE, JSON_QUERY, JSON_EXISTS,
JSON_OBJECT, JSON_ARRAY and IS JSON.
"""

from __future__ import annotations

from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import json_values, types
from rheos.sql.expressions.casts import named_type
from rheos.sql.expressions.json_functions import JSON_TEXT, as_json
from rheos.sql.expressions.table import CAST, TEXT, Compiler, Typed, computes
from rheos.sql.json_parser import (
    JsonArray,
    JsonArrow,
    JsonClauses,
    JsonExists,
    JsonObject,
    JsonQuery,
    JsonValue,
)
from rheos.sql.json_paths import StandardPath, standard_path
from rheos.sql.text import kind
from rheos.sql.value_functions import of_values


def _read(compiler: Compiler, node: JsonClauses, *clauses: str) -> tuple[pl.Expr, StandardPath]:
    """Return the document and the path of a call. Raise ProgramError, SchemaError."""
    compiler.sql.only(node, ("expressions", *clauses), f" of {kind(node)}")
    document, path = compiler.given(node, (JSON_TEXT, TEXT))
    made = standard_path(path.constant) if isinstance(path.constant, str) else None
    if made is None:
        raise compiler.sql.error(
            f"{kind(node)} takes a constant path of keys, indexes and wildcards",
            path.node,
            "write '$.a[0].b', 'lax $.a' or 'strict $.a[*]'",
        )
    return document.expr, made


def _refusing(compiler: Compiler, node: exp.Expr, found: pl.Expr, marks: tuple[str, ...]) -> pl.Expr:
    accept = partial(json_values.accepted, marks=marks, written=compiler.sql.written(node))
    return of_values(accept, [found], types.TEXT) if marks else found


@computes(JsonValue)
def json_value(compiler: Compiler, node: JsonValue) -> Typed:
    """Compile JSON_VALUE: the scalar at a path, by default as a STRING. If the path finds nothing, the
    result is null.
    """
    text, path = _read(compiler, node, "returning", "on_empty", "on_error")
    returning = node.args.get("returning")
    to = types.TEXT if returning is None else named_type(compiler.sql, returning)
    found = of_values(partial(json_values.scalar, path=path), [text], types.TEXT)
    chosen: list[tuple[str, pl.Expr]] = []
    refused: list[str] = []
    for mark, clause in (
        (json_values.EMPTY, node.args.get("on_empty")),
        (json_values.ERROR, node.args.get("on_error")),
    ):
        if clause == "ERROR":
            refused.append(mark)
            continue
        instead = pl.lit(None, dtype=to)
        if isinstance(clause, exp.Expr):
            instead = compiler.cast(compiler.compile(clause), to).expr
        elif clause not in (None, "NULL"):
            raise compiler.sql.error(
                f"{kind(node)} does not support {clause} here", node, "write NULL, ERROR or DEFAULT"
            )
        chosen.append((mark, instead))
    found = _refusing(compiler, node, found, tuple(refused))
    made = types.cast(found, types.TEXT, to)
    if made is None:
        raise compiler.sql.wrong_type(f"{kind(node)} cannot return {types.name(to)}", node, CAST)
    for mark, instead in chosen:
        made = pl.when(found == mark).then(instead).otherwise(made)
    return Typed(made, to, node)


_EMPTY_TEXTS = {"EMPTY ARRAY": "[]", "EMPTY OBJECT": "{}"}


@computes(JsonQuery)
def json_query(compiler: Compiler, node: JsonQuery) -> Typed:
    """Compile JSON_QUERY: the object or array at a path as JSON. If the path finds nothing, the result
    is null.
    """
    text, path = _read(compiler, node, "returning", "wrapper", "on_empty", "on_error")
    returning = node.args.get("returning")
    if returning is not None and named_type(compiler.sql, returning) != types.TEXT:
        raise compiler.sql.error(f"{kind(node)} returns a STRING", returning, "leave out RETURNING")
    wrapper = node.args.get("wrapper")
    read = partial(json_values.fragment, path=path, wrapper=wrapper)
    found = of_values(read, [text], types.TEXT)
    clauses = {
        json_values.EMPTY: node.args.get("on_empty"),
        json_values.ERROR: node.args.get("on_error"),
    }
    for clause in clauses.values():
        if clause not in (None, "NULL", "ERROR", *_EMPTY_TEXTS):
            raise compiler.sql.error(
                f"{kind(node)} takes NULL, ERROR, EMPTY ARRAY or EMPTY OBJECT ON EMPTY or ON ERROR",
                node,
            )
    found = _refusing(
        compiler, node, found, tuple(mark for mark, clause in clauses.items() if clause == "ERROR")
    )
    made = found
    for mark, clause in clauses.items():
        instead = pl.lit(_EMPTY_TEXTS.get(str(clause)), dtype=types.TEXT)
        made = pl.when(found == mark).then(instead).otherwise(made)
    return Typed(made, types.TEXT, node)


_CONDITIONS = {None: False, "TRUE": True, "FALSE": False, "UNKNOWN": None}


@computes(JsonExists)
def json_exists(compiler: Compiler, node: JsonExists) -> Typed:
    """Compile JSON_EXISTS: whether a path finds a value. A malformed document is false by default."""
    text, path = _read(compiler, node, "on_error")
    clause = node.args.get("on_error")
    if isinstance(clause, exp.Expr) or clause not in _CONDITIONS:
        raise compiler.sql.error(
            f"{kind(node)} takes TRUE, FALSE or UNKNOWN ON ERROR", node, "leave out ON ERROR"
        )
    holds = partial(json_values.exists, path=path, on_error=_CONDITIONS[clause])
    return Typed(of_values(holds, [text], types.BOOLEAN), types.BOOLEAN, node)


_MADE_OF_JSON = (JsonObject, JsonArray, JsonQuery, JsonArrow)
"""Calls whose result JSON_OBJECT and JSON_ARRAY insert as JSON, not as a string."""


@computes(JsonObject, JsonArray)
def constructed(compiler: Compiler, node: JsonObject | JsonArray) -> Typed:
    """Compile JSON_OBJECT, with null for NULL by default, and JSON_ARRAY, without NULL by default."""
    compiler.sql.only(node, ("expressions", "on_null"))
    keys = isinstance(node, JsonObject)
    clause = node.args.get("on_null")
    if clause not in (None, "NULL", "ABSENT"):
        raise compiler.sql.error(f"{kind(node)} takes NULL or ABSENT ON NULL", node)
    keep = clause == "NULL" if clause else keys
    given = [compiler.compile(each) for each in node.expressions]
    values = given[1::2] if keys else given
    nodes = node.expressions[1::2] if keys else node.expressions
    parts = as_json(values, [isinstance(each, _MADE_OF_JSON) for each in nodes])
    if keys:
        names = [compiler.text(each, kind(node)).expr for each in node.expressions[::2]]
        parts = [part for pair in zip(names, parts, strict=True) for part in pair]
    if not parts:
        return Typed(pl.lit("{}" if keys else "[]"), types.TEXT, node)
    made = of_columns(partial(json_values.joined, keys=keys, keep_nulls=keep), parts, types.TEXT)
    return Typed(made, types.TEXT, node)


def is_json(compiler: Compiler, node: exp.Is) -> Typed:
    """Compile IS JSON, also of a VALUE, SCALAR, ARRAY or OBJECT."""
    of = node.expression
    compiler.sql.only(of, ("this",), " of IS JSON")
    holds = partial(json_values.is_json, of=of.this or None)
    text = compiler.text(node.this, "IS JSON").expr
    return Typed(of_values(holds, [text], types.BOOLEAN), types.BOOLEAN, node)
