"""VARIANT: PARSE_JSON, paths, and casts to other types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.errors import ProgramError
from rheos.core.graph.row_functions import of_columns
from rheos.sql import json_values, types, variant_edits, variant_schemas, variants
from rheos.sql.expressions.casts import cast_variant, named_type, variant_of
from rheos.sql.expressions.json_functions import JSON_TEXT
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
from rheos.sql.json_documents import Document
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


VARIANT = Takes("a VARIANT", lambda kind: kind in (types.VARIANT, types.NULL), types.VARIANT)
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
    value, path, *to = compiler.given(node, (VARIANT, _NAME, optional(_NAME)))
    steps = _path(compiler, node, path)
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


def _path(compiler: Compiler, node: exp.Anonymous, path: Typed) -> VariantPath:
    steps = variant_path(path.constant)
    if steps is None:
        raise compiler.sql.error(
            f"{kind(node)} takes a constant path of keys and indexes", path.node, "write '$.a.b[0]'"
        )
    return steps


computes_named("variant_get")(partial(_get, tries=False))
computes_named("try_variant_get")(partial(_get, tries=True))


_NESTED = Takes("a STRUCT or an ARRAY", lambda kind: isinstance(kind, pl.Struct | pl.List))


@computes_named("to_variant_object")
def to_variant_object(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, (_NESTED,))
    return Typed(variant_of(value), types.VARIANT, node)


@computes_named("is_variant_null")
def is_variant_null(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, (VARIANT,))
    made = (variants.documents(value.expr) == "null").fill_null(False)
    return Typed(made, types.BOOLEAN, node)


# --- changes of documents -----------------------------------------------------------------------------


_FLAG = Takes("TRUE or FALSE", lambda kind: kind == types.BOOLEAN, types.BOOLEAN, constant=True)


def _edit(
    compiler: Compiler, node: exp.Anonymous, *, of: Callable[..., Document], takes: tuple[Takes, ...]
) -> Typed:
    """Compile VARIANT_SET(v, '$.a', 1) and similar calls, and with TRY_ those that are null where the
    path does not fit."""
    value, path, new, *flags = compiler.given(node, takes)
    steps = _path(compiler, node, path)
    if not steps and of is not variant_edits.append_at:
        raise _root(compiler, node, path)
    if any(isinstance(step, int) and step > variant_edits.MOST_PLACE for step in steps):
        raise compiler.sql.error(
            f"an index of {kind(node)} is at most {variant_edits.MOST_PLACE:,}", path.node
        )
    edit = partial(of, path=steps)
    if flags:
        edit = partial(edit, creates=flags[0].constant)
    document = new.expr if new.type == types.VARIANT else variant_of(new)
    return _edited(compiler, node, edit, [value.expr, document])


def _root(compiler: Compiler, node: exp.Expr, path: Typed) -> ProgramError:
    what = f"{kind(node)} changes a part of a document, not the whole"
    return compiler.sql.error(what, path.node, "write '$.a'")


def _edited(
    compiler: Compiler, node: exp.Anonymous, edit: Callable[..., Document], values: list[pl.Expr]
) -> Typed:
    tries = node.name.casefold().startswith("try_")
    compute = partial(variant_edits.edited, edit=edit, call=compiler.sql.written(node), tries=tries)
    made = of_values(compute, [variants.documents(value) for value in values], types.TEXT)
    return Typed(variants.of_documents(made), types.VARIANT, node)


for _name, _of, _takes in (
    ("variant_set", variant_edits.set_at, (VARIANT, _NAME, ANY, optional(_FLAG))),
    ("variant_insert", variant_edits.insert_at, (VARIANT, _NAME, ANY)),
    ("variant_array_append", variant_edits.append_at, (VARIANT, _NAME, ANY)),
):
    computes_named(_name, f"try_{_name}")(partial(_edit, of=_of, takes=_takes))


@computes_named("variant_delete")
def variant_delete(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile VARIANT_DELETE(v, '$.a', '$.b[0]'). A path that is NULL deletes nothing."""
    takes = (VARIANT, *[replace(TEXT, what="a constant path")] * max(1, len(node.expressions) - 1))
    value, *given = compiler.given(node, takes)
    paths = []
    for path in given:
        if not path.is_constant and not isinstance(path.node, exp.Null):
            raise compiler.sql.error(f"{kind(node)} takes constant paths", path.node, "write '$.a'")
        if path.constant is not None:
            paths.append(_path(compiler, node, path))
            if not paths[-1]:
                raise _root(compiler, node, path)
    return _edited(compiler, node, partial(variant_edits.delete_at, paths=tuple(paths)), [value.expr])


@computes_named("variant_strip_nulls")
def variant_strip_nulls(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile VARIANT_STRIP_NULLS(v), and with FALSE without elements of arrays."""
    value, *flags = compiler.given(node, (VARIANT, optional(_FLAG)))
    edit = partial(variant_edits.strip_nulls, arrays=flags[0].constant if flags else True)
    return _edited(compiler, node, edit, [value.expr])


@computes_named("is_valid_variant")
def is_valid_variant(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, (VARIANT,))
    return Typed(pl.when(value.expr.is_not_null()).then(True), types.BOOLEAN, node)


@computes_named("schema_of_variant")
def schema_of_variant(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, (VARIANT,))
    made = of_values(variant_schemas.schema_of, [variants.documents(value.expr)], types.TEXT)
    return Typed(made, types.TEXT, node)
