"""VARIANT: PARSE_JSON, paths, and casts to other types."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import json_values, types, variants
from rheos.sql.expressions.casts import cast_variant, named_type, variant_of
from rheos.sql.expressions.json_functions import JSON_TEXT
from rheos.sql.expressions.table import TEXT, Compiler, Takes, Typed, computes, computes_named, optional
from rheos.sql.json_parser import VariantExtract
from rheos.sql.json_paths import VariantPath, variant_path
from rheos.sql.schema_strings import schema_of
from rheos.sql.text import kind
from rheos.sql.value_functions import of_values


def _parse(compiler: Compiler, node: exp.Anonymous, *, tries: bool) -> Typed:
    [value] = compiler.given(node, (JSON_TEXT,))
    parse = partial(variants.document, call=compiler.sql.written(node), tries=tries)
    made = of_values(parse, [value.expr], types.TEXT)
    return Typed(variants.of_documents(made), types.VARIANT, node)


computes_named("parse_json")(partial(_parse, tries=False))
computes_named("try_parse_json")(partial(_parse, tries=True))


_VARIANT = Takes("a VARIANT", lambda kind: kind in (types.VARIANT, types.NULL), types.VARIANT)
_NAME = replace(TEXT, what="a constant string", constant=True)


@computes(VariantExtract)
def extract(compiler: Compiler, node: VariantExtract) -> Typed:
    """Compile `v:a.b[0]`: a VARIANT; of a string of JSON the result is a string."""
    compiler.sql.only(node, ("this", "expressions"))
    value = compiler.compile(node.this)
    path = tuple(each.name if each.is_string else int(each.name) for each in node.expressions)
    if value.type == types.VARIANT:
        return _find_variant(node, value.expr, path)
    if value.type != types.TEXT:
        raise compiler.wrong_type(
            ": reads a VARIANT or a STRING of JSON", value, "write PARSE_JSON(...)"
        )
    find = partial(json_values.arrow, path=path, as_text=True)
    return Typed(of_values(find, [value.expr], types.TEXT), types.TEXT, node)


def _find_variant(node: exp.Expr, value: pl.Expr, path: VariantPath) -> Typed:
    found = of_values(partial(variants.at, path=path), [variants.documents(value)], types.TEXT)
    return Typed(variants.of_documents(found), types.VARIANT, node)


def _get(compiler: Compiler, node: exp.Anonymous, *, tries: bool) -> Typed:
    """Compile VARIANT_GET(v, '$.a', 'int'), and TRY_VARIANT_GET, which is null where the cast fails."""
    value, path, *to = compiler.given(node, (_VARIANT, _NAME, optional(_NAME)))
    steps = variant_path(path.constant)
    if steps is None:
        raise compiler.sql.error(
            f"{kind(node)} takes a constant path of keys and indexes", path.node, "write '$.a.b[0]'"
        )
    found = _find_variant(node, value.expr, steps)
    if not to:
        return found
    parsed = schema_of(to[0].constant)
    if parsed is None:
        raise compiler.sql.error(f"{kind(node)} takes the name of a type", to[0].node, "write 'int'")
    wanted = named_type(compiler.sql, parsed, at=to[0].node)
    made = cast_variant(compiler, found, wanted, to[0].node)
    if tries or wanted == types.VARIANT:
        return Typed(made, wanted, node)
    check = partial(variants.cast_or_refused, call=compiler.sql.written(node), to=types.name(wanted))
    both = [variants.documents(found.expr), made]
    return Typed(of_columns(check, both, wanted), wanted, node)


computes_named("variant_get")(partial(_get, tries=False))
computes_named("try_variant_get")(partial(_get, tries=True))


_NESTED = Takes("a STRUCT or an ARRAY", lambda kind: isinstance(kind, pl.Struct | pl.List))


@computes_named("to_variant_object")
def to_variant_object(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, (_NESTED,))
    return Typed(variant_of(value), types.VARIANT, node)


@computes_named("is_variant_null")
def is_variant_null(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, (_VARIANT,))
    made = (variants.documents(value.expr) == "null").fill_null(False)
    return Typed(made, types.BOOLEAN, node)
