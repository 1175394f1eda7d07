"""Functions of regular expressions as PostgreSQL has them: with flags, a begin, and the n-th match."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.patterns import constant_pattern, refuse_empty
from rheos.sql.expressions.table import (
    CONSTANT_TEXT,
    CONSTANT_WHOLE,
    TEXT,
    Compiler,
    Takes,
    Typed,
    computes_named,
    optional,
)
from rheos.sql.java_patterns import RustPattern, UnknownPatternError
from rheos.sql.postgres_patterns import java_pattern, rust_replacement
from rheos.sql.text import kind
from rheos.sql.text_bounds import replaced_matches

_TEXTS = pl.List(types.TEXT)
_PLACE, _FLAGS = optional(CONSTANT_WHOLE, 1), optional(CONSTANT_TEXT, "")


@dataclass(frozen=True)
class _Call:
    """Arguments of a call: the string from its begin on, the pattern, and constants by name."""

    text: pl.Expr
    written: Typed
    form: RustPattern
    flags: str
    numbers: dict[str, int]


def _read_arguments(compiler: Compiler, node: exp.Anonymous, **numbers: int) -> _Call:
    """Return the arguments of f(text, pattern, numbers..., flags), whose numbers have defaults; numbers
    may also follow the flags."""
    takes: list[Takes] = [TEXT, CONSTANT_TEXT]
    given = node.expressions[2:]
    place = next((at for at, each in enumerate(given) if each.is_string), len(given))
    optionals: list[Takes] = [_PLACE] * len(numbers)
    if place < len(given):
        optionals = [*[_PLACE] * place, _FLAGS, *[_PLACE] * (len(numbers) - place)]
    text, pattern, *others = compiler.given(node, [*takes, *optionals])
    flags = str(others.pop(place).constant) if place < len(given) else ""
    known = {**numbers, **{name: each.constant for name, each in zip(numbers, others, strict=False)}}
    if any(each < 0 for each in known.values()) or known.get("begin") == 0:
        raise compiler.sql.error(f"{kind(node)} counts from 1", node, "write 1 for the first one")
    return _Call(
        text.expr.str.slice(known.get("begin", 1) - 1),
        pattern,
        _form(compiler, pattern, flags),
        flags,
        known,
    )


def _form(compiler: Compiler, pattern: Typed, flags: str) -> RustPattern:
    try:
        java = java_pattern(pattern.constant, flags)
    except UnknownPatternError as error:
        raise compiler.sql.error(f"this is not a valid pattern: {error}", pattern.node) from None
    return constant_pattern(compiler, replace(pattern, constant=java))


def _not_computed(compiler: Compiler, node: exp.Expr, what: str) -> Exception:
    return compiler.sql.error(f"{kind(node)} with {what} is not computed", node, "leave it out")


@computes_named("regexp_match")
def match(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile REGEXP_MATCH: the groups of the first match, or the match of a pattern without groups."""
    of = _read_arguments(compiler, node)
    count = len(of.form.groups)
    parts = [of.text.str.extract(of.form.text, group) for group in range(1, count + 1)]
    made = pl.concat_list(parts or [of.text.str.extract(of.form.text, 0)])
    found = of.text.str.contains(of.form.text)
    return Typed(pl.when(found).then(made), _TEXTS, node)


@computes_named("regexp_matches")
def matches(compiler: Compiler, node: exp.Anonymous) -> Typed:
    raise compiler.sql.error(
        "REGEXP_MATCHES() returns rows",
        node,
        "write REGEXP_MATCH for the first match, or REGEXP_EXTRACT_ALL for an array of all",
    )


@computes_named("regexp_split_to_array")
def split(compiler: Compiler, node: exp.Anonymous) -> Typed:
    of = _read_arguments(compiler, node)
    refuse_empty(compiler, of.written, of.form)
    return Typed(of.text.str.split(of.form.text, literal=False), _TEXTS, node)


@computes_named("pg.regexp_count")
def count(compiler: Compiler, node: exp.Anonymous) -> Typed:
    of = _read_arguments(compiler, node, begin=1)
    refuse_empty(compiler, of.written, of.form)
    return Typed(of.text.str.count_matches(of.form.text).cast(types.INT), types.INT, node)


@computes_named("pg.regexp_like")
def like(compiler: Compiler, node: exp.Anonymous) -> Typed:
    of = _read_arguments(compiler, node)
    return Typed(of.text.str.contains(of.form.text), types.BOOLEAN, node)


@computes_named("pg.regexp_instr")
def instr(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile REGEXP_INSTR(text, pattern, begin): the place of the first match, or 0."""
    of = _read_arguments(compiler, node, begin=1, nth=1, end=0, group=0)
    if of.numbers["nth"] != 1 or of.numbers["end"] or of.numbers["group"]:
        raise _not_computed(compiler, node, "another match, its end, or a group")
    before = of.text.cast(pl.Binary()).bin.head(of.text.str.find(of.form.text, strict=False))
    place = before.cast(types.TEXT).str.len_chars().cast(types.INT) + of.numbers["begin"]
    return Typed(pl.when(of.text.is_not_null()).then(place.fill_null(0)), types.INT, node)


@computes_named("pg.regexp_substr")
def substr(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile REGEXP_SUBSTR(text, pattern, begin, n, flags, group): null if nothing matches."""
    of = _read_arguments(compiler, node, begin=1, nth=1, group=0)
    nth, group = of.numbers["nth"], of.numbers["group"]
    if group > len(of.form.groups):
        return Typed(pl.lit(None, types.TEXT), types.TEXT, node)
    if nth <= 1:
        return Typed(of.text.str.extract(of.form.text, group), types.TEXT, node)
    if group:
        raise _not_computed(compiler, node, "a group of another match than the first")
    refuse_empty(compiler, of.written, of.form)
    found = of.text.str.extract_all(of.form.text).list.get(nth - 1, null_on_oob=True)
    return Typed(found, types.TEXT, node)


@computes_named("pg.substring")
def substring(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile SUBSTRING(text FROM pattern): the first group, or the match if there is no group."""
    if len(node.expressions) == 3:
        raise _not_computed(compiler, node, "ESCAPE")
    of = _read_arguments(compiler, node)
    found = of.text.str.extract(of.form.text, min(1, len(of.form.groups)))
    return Typed(found, types.TEXT, node)


@computes_named("pg.regexp_replace")
def replace_matches(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile REGEXP_REPLACE(text, pattern, replacement[, begin[, n]][, flags]): the first match, or
    all of them with the flag g or if n is 0."""
    if len(node.expressions) < 3:
        raise compiler.sql.error(f"{kind(node)} lacks an argument", node, "write (s, 'a+', 'b', 'g')")
    text, pattern, new, *others = node.expressions
    call = exp.Anonymous(this=node.name, expressions=[text, pattern, *others])
    call.meta.update(node.meta)
    of = _read_arguments(compiler, call, begin=1, nth=1)
    by = compiler.compile(new)
    if not isinstance(by.constant, str):
        raise compiler.sql.error(f"{kind(node)} takes a constant replacement", new, "write '#'")
    if of.numbers["nth"] > 1:
        raise _not_computed(compiler, node, "another match than the first")
    rust = rust_replacement(by.constant, len(of.form.groups))
    if rust is None:
        raise compiler.sql.error(
            "the pattern has no such group", new, r"write '\1' for the first group"
        )
    if "g" in of.flags or of.numbers["nth"] == 0:
        refuse_empty(compiler, of.written, of.form)
        made = partial(
            replaced_matches,
            pattern=of.form.text,
            by=rust,
            references=rust.count("${"),
            written=compiler.sql.written(node),
        )
        replaced = of_columns(made, [of.text], types.TEXT)
    else:
        replaced = of.text.str.replace(of.form.text, rust)
    begin = of.numbers["begin"]
    if begin > 1:
        whole = compiler.text(text, kind(node)).expr
        replaced = pl.concat_str(whole.str.head(begin - 1), replaced)
    return Typed(replaced, types.TEXT, node)
