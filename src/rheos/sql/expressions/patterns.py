"""LIKE, and functions of regular expressions."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.expression_trees import FAILURES
from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.table import Compiler, Typed, computes
from rheos.sql.java_patterns import RustPattern, UnknownPatternError, rust_pattern, rust_replacement
from rheos.sql.text_bounds import replaced_matches

_READ_AS = (
    "patterns follow Java, without lookahead, lookbehind, possessive quantifiers and back-references"
)


# --- LIKE ---------------------------------------------------------------------------------------------


@computes(exp.Like, exp.ILike)
def like(compiler: Compiler, node: exp.Like | exp.ILike) -> Typed:
    return _like(compiler, node, "\\")


@computes(exp.Escape)
def escape(compiler: Compiler, node: exp.Escape) -> Typed:
    compiler.sql.only(node, ("this", "expression"))
    sign = node.expression
    if not isinstance(node.this, exp.Like | exp.ILike) or len(sign.name) != 1:
        raise compiler.sql.not_computed(node, "write LIKE '...' ESCAPE '!'")
    return _like(compiler, node.this, sign.name)


def _like(compiler: Compiler, node: exp.Like | exp.ILike, sign: str) -> Typed:
    compiler.sql.only(node, ("this", "expression", "negate"))
    if isinstance(node.expression, exp.Any | exp.All):
        return _like_each(compiler, node, sign)
    value, pattern = compiler.compile(node.this), compiler.compile(node.expression)
    if value.type not in (types.TEXT, types.NULL) or not isinstance(pattern.constant, str):
        raise compiler.sql.wrong_type(
            "LIKE compares a STRING with a constant pattern",
            node if value.type == types.TEXT else value.node,
            "write name LIKE 'a%'",
        )
    text, form = compiler.cast(value, types.TEXT).expr, pattern.constant
    if isinstance(node, exp.ILike):
        # As Spark has it: both in small letters.
        text = text.str.to_lowercase()
        form = pl.select(pl.lit(form).str.to_lowercase()).item()
    found = text.str.contains(f"(?s)^{_regex(form, sign)}$")
    return Typed(~found if node.args.get("negate") else found, types.BOOLEAN, node)


def _like_each(compiler: Compiler, node: exp.Like | exp.ILike, sign: str) -> Typed:
    """Compile LIKE ANY and LIKE ALL, which compare with each of several patterns."""
    within = node.expression.this.unnest()
    patterns = within.expressions if isinstance(within, exp.Tuple) else [within]
    each = [
        _like(compiler, type(node)(**{**node.args, "expression": pattern}), sign).expr
        for pattern in patterns
    ]
    join = pl.any_horizontal if isinstance(node.expression, exp.Any) else pl.all_horizontal
    return Typed(join(each), types.BOOLEAN, node)


@computes(exp.SimilarTo)
def similar_to(compiler: Compiler, node: exp.SimilarTo) -> Typed:
    """Compile SIMILAR TO: the standard's patterns of `%`, `_`, and signs of regular expressions."""
    compiler.sql.only(node, ("this", "expression"))
    text, pattern = compiler.compile(node.this), compiler.compile(node.expression)
    if text.type not in (types.TEXT, types.NULL) or not isinstance(pattern.constant, str):
        raise compiler.sql.wrong_type(
            "SIMILAR TO compares a STRING with a constant pattern",
            node,
            "write name SIMILAR TO '(a|b)%'",
        )
    signs = {"%": ".*", "_": ".", **{char: f"\\{char}" for char in ".^$"}}
    parts = re.findall(r"\\.|\[[^\]]*\]|.", pattern.constant, re.DOTALL)
    made = "".join(signs.get(part, part) for part in parts)
    form = constant_pattern(compiler, replace(pattern, constant=f"(?s)^(?:{made})$"))
    found = compiler.cast(text, types.TEXT).expr.str.contains(form.text)
    return Typed(found, types.BOOLEAN, node)


def _regex(pattern: str, sign: str) -> str:
    made, signs = "", iter(pattern)
    for char in signs:
        if char == sign:
            made += re.escape(next(signs, sign))
        else:
            made += {"%": ".*", "_": "."}.get(char) or re.escape(char)
    return made


# --- regular expressions ------------------------------------------------------------------------------


@computes(exp.RegexpLike, exp.RegexpILike)
def regexp_like(compiler: Compiler, node: exp.RegexpLike | exp.RegexpILike) -> Typed:
    compiler.sql.only(node, ("this", "expression", "full_match"))
    value, pattern = compiler.compile(node.this), compiler.compile(node.expression)
    if value.type not in (types.TEXT, types.NULL) or not isinstance(pattern.constant, str):
        raise compiler.sql.wrong_type(
            "RLIKE compares a STRING with a constant pattern",
            node,
            "write name RLIKE '^a'",
        )
    if isinstance(node, exp.RegexpILike):
        pattern = replace(pattern, constant=f"(?i){pattern.constant}")
    form = constant_pattern(compiler, pattern, asks=True)
    text = compiler.cast(value, types.TEXT).expr
    return Typed(text.str.contains(form.text), types.BOOLEAN, node)


@computes(exp.RegexpExtract)
def regexp_extract(compiler: Compiler, node: exp.RegexpExtract) -> Typed:
    compiler.sql.only(node, ("this", "expression", "group", "null_if_pos_overflow"))
    value = compiler.text(node.this, "REGEXP_EXTRACT").expr
    pattern, group = compiler.compile(node.expression), node.args.get("group")
    number = None if group is None else compiler.compile(group).constant
    if not isinstance(pattern.constant, str) or (group and not isinstance(number, int)):
        raise compiler.sql.error(
            "REGEXP_EXTRACT takes a constant pattern and a constant group",
            node,
            "write REGEXP_EXTRACT(url, '/([a-z]+)', 1)",
        )
    form = constant_pattern(compiler, pattern)
    found = value.str.extract(form.text, group_number(compiler, pattern, form, number))
    # If nothing is found, Spark returns an empty string.
    return Typed(pl.when(value.is_not_null()).then(found.fill_null("")), types.TEXT, node)


def group_number(compiler: Compiler, pattern: Typed, form: RustPattern, number: int | None) -> int:
    """Return the number of the group to extract. Raise ProgramError if it does not exist."""
    # Without a group in the pattern only the whole match can be meant, as in Flink.
    number = min(1, len(form.groups)) if number is None else number
    if not 0 <= number <= len(form.groups):
        raise compiler.sql.error(
            f"the pattern has {len(form.groups)} groups, so group {number} does not exist",
            pattern.node,
            "put the part to extract in parentheses; group 0 is the whole match",
        )
    return number


@computes(exp.RegexpReplace)
def regexp_replace(compiler: Compiler, node: exp.RegexpReplace) -> Typed:
    compiler.sql.only(node, ("this", "expression", "replacement", "position"))
    value = compiler.text(node.this, "REGEXP_REPLACE").expr
    pattern, new = (compiler.compile(node.args.get(name)) for name in ("expression", "replacement"))
    position = node.args.get("position")
    begin = 1 if position is None else compiler.compile(position).constant
    if position is not None and (not isinstance(begin, int) or begin < 1):
        raise compiler.sql.error(
            "REGEXP_REPLACE takes the constant position from which it replaces",
            position,
            "write 1 for the beginning of the string; it always replaces all matches",
        )
    if not isinstance(pattern.constant, str) or not isinstance(new.constant, str):
        raise compiler.sql.error(
            "REGEXP_REPLACE takes a constant pattern and a constant replacement",
            node,
            "write REGEXP_REPLACE(name, '[0-9]+', '#')",
        )
    form = constant_pattern(compiler, pattern)
    try:
        by = rust_replacement(new.constant, form.groups)
    except UnknownPatternError as error:
        raise compiler.sql.error(
            str(error), new.node, "write REGEXP_REPLACE(x, '(a)', '<$1>')"
        ) from None
    if by and not form.text.startswith("^"):
        refuse_empty(compiler, pattern, form)
    made = partial(
        replaced_matches,
        pattern=form.text,
        by=by,
        references=by.count("${"),
        written=compiler.sql.written(node),
    )
    if begin == 1:
        return Typed(of_columns(made, [value], types.TEXT), types.TEXT, node)
    rest = of_columns(made, [value.str.slice(begin - 1)], types.TEXT)
    replaced = pl.concat_str(value.str.head(begin - 1), rest)
    longer = value.str.len_chars() >= begin
    return Typed(pl.when(longer).then(replaced).otherwise(value), types.TEXT, node)


@computes(exp.RegexpSplit)
def split(compiler: Compiler, node: exp.RegexpSplit) -> Typed:
    """Compile SPLIT: the parts between the matches of a pattern. The last of `limit` parts is the
    rest."""
    compiler.sql.only(node, ("this", "expression", "limit"))
    value = compiler.text(node.this, "SPLIT").expr
    pattern, limit = compiler.compile(node.expression), node.args.get("limit")
    most = -1 if limit is None else compiler.compile(limit).constant
    if not isinstance(pattern.constant, str) or not isinstance(most, int):
        raise compiler.sql.error(
            "SPLIT takes a constant pattern and a constant limit",
            node,
            "write SPLIT(name, '[,;]')",
        )
    if not pattern.constant:
        # Every character is a part.
        parts = pl.when(value == "").then(pl.lit([""], dtype=_TEXTS)).otherwise(value.str.split(""))
        return Typed(_at_most(parts, parts, most), _TEXTS, node)
    form = constant_pattern(compiler, pattern)
    refuse_empty(compiler, pattern, form)
    parts = value.str.split(form.text, literal=False)
    return Typed(
        _at_most(parts, value.str.split(form.text, literal=False, inclusive=True), most), _TEXTS, node
    )


_TEXTS = pl.List(pl.String())


def _at_most(parts: pl.Expr, whole: pl.Expr, most: int) -> pl.Expr:
    """Return at most `most` parts; `whole` has each part with all that follows it."""
    if most <= 0:
        return parts
    last = whole.list.slice(most - 1).list.join("")
    return (
        pl.when(parts.list.len() > most)
        .then(pl.concat_list(parts.list.head(most - 1), last))
        .otherwise(parts)
    )


def constant_pattern(compiler: Compiler, pattern: Typed, *, asks: bool = False) -> RustPattern:
    """Return the pattern for Polars. Raises ProgramError if it is not a valid pattern."""
    try:
        made = rust_pattern(pattern.constant, asks=asks)
        pl.select(pl.lit("").str.contains(made.text))
    except UnknownPatternError as error:
        raise compiler.sql.error(
            f"this is not a valid pattern: {error}", pattern.node, _READ_AS
        ) from None
    except FAILURES as error:
        found = re.search(r"^error: (.*)$", str(error), re.MULTILINE)
        why = f": {found[1]}" if found else ""
        raise compiler.sql.error(f"this is not a valid pattern{why}", pattern.node, _READ_AS) from None
    return made


_PROBES = ("", "a", "a b", "1", "\n", " ", "aa", ".,")


def refuse_empty(compiler: Compiler, pattern: Typed, form: RustPattern) -> None:
    """Refuse a pattern that matches the empty string: Java and Rust count such matches differently."""
    found = pl.select(pl.Series(_PROBES).str.extract_all(form.text).explode()).to_series()
    if (found == "").any():
        raise compiler.sql.error(
            f"{pattern.constant!r} also matches empty strings",
            pattern.node,
            "match at least one character: + instead of *",
        )
