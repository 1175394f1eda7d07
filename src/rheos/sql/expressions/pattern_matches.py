"""Functions of what a regular expression matches: how many times, where, and which parts."""

from __future__ import annotations

import re

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.patterns import constant_pattern, group_number, refuse_empty
from rheos.sql.expressions.table import (
    CONSTANT_TEXT,
    CONSTANT_WHOLE,
    TEXT,
    Compiler,
    Typed,
    computes_named,
    optional,
)

_TEXTS = pl.List(types.TEXT)
_WITH_PATTERN = [TEXT, CONSTANT_TEXT]


@computes_named("regexp_count")
def regexp_count(compiler: Compiler, node: exp.Anonymous) -> Typed:
    text, pattern = compiler.given(node, _WITH_PATTERN)
    form = constant_pattern(compiler, pattern)
    refuse_empty(compiler, pattern, form)
    return Typed(text.expr.str.count_matches(form.text).cast(types.INT), types.INT, node)


@computes_named("regexp_instr")
def regexp_instr(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile REGEXP_INSTR: the place of the first match, from 1; 0 if nothing matches."""
    text, pattern, *_ = compiler.given(node, [*_WITH_PATTERN, optional(CONSTANT_WHOLE)])
    form = constant_pattern(compiler, pattern)
    before = text.expr.cast(pl.Binary()).bin.head(text.expr.str.find(form.text, strict=False))
    place = before.cast(types.TEXT).str.len_chars().cast(types.INT) + 1
    found = pl.when(text.expr.is_not_null()).then(place.fill_null(0))
    return Typed(found, types.INT, node)


@computes_named("regexp_substr")
def regexp_substr(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile REGEXP_SUBSTR: the first match, null if nothing matches."""
    text, pattern = compiler.given(node, _WITH_PATTERN)
    form = constant_pattern(compiler, pattern)
    return Typed(text.expr.str.extract(form.text, 0), types.TEXT, node)


_ANCHOR = re.compile(r"\\[bBAzG]|(?<!\\)\$|(?<![\\[])\^")


@computes_named("regexp_extract_all")
def regexp_extract_all(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile REGEXP_EXTRACT_ALL: the matches of a group. Without a number it is the first group."""
    text, pattern, *group = compiler.given(node, [*_WITH_PATTERN, optional(CONSTANT_WHOLE)])
    form = constant_pattern(compiler, pattern)
    refuse_empty(compiler, pattern, form)
    number = group_number(compiler, pattern, form, group[0].constant if group else None)
    found = text.expr.str.extract_all(form.text)
    if number:
        # The group is read from the match alone, which lacks what an anchor looks at.
        if _ANCHOR.search(pattern.constant):
            raise compiler.sql.error(
                "the groups of all matches cannot be extracted by a pattern with ^, $ or \\b",
                pattern.node,
                "extract group 0, or leave out the anchors",
            )
        part = pl.element().str.extract(form.text, number).fill_null("")
        found = found.list.eval(part)
    return Typed(found, _TEXTS, node)
