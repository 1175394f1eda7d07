"""Parts of strings by separators, and strings made of other ones by character."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.choices import chosen_of
from rheos.sql.expressions.table import (
    CHARACTERS,
    SMALL_WHOLE,
    TEXT,
    Compiler,
    Typed,
    computes_named,
    function,
    optional,
)
from rheos.sql.expressions.texts import repeat_text, substring
from rheos.sql.value_functions import of_values

# --- by separators ------------------------------------------------------------------------------------


@function("split_part", {"text": TEXT, "between": TEXT, "place": SMALL_WHOLE}, types.TEXT)
def split_part(text: pl.Expr, between: pl.Expr, place: pl.Expr) -> pl.Expr:
    """Return the part at a place from 1, or from -1 back; an empty string beyond the parts."""
    parts = pl.when(between == "").then(pl.concat_list(text)).otherwise(text.str.split(between))
    index = pl.when(place > 0).then(place - 1).when(place < 0).then(place)
    found = parts.list.get(index, null_on_oob=True).fill_null("")
    return pl.when(text.is_not_null() & between.is_not_null() & index.is_not_null()).then(found)


@function("split_index", {"text": TEXT, "between": TEXT, "place": SMALL_WHOLE}, types.TEXT)
def split_index(text: pl.Expr, between: pl.Expr, place: pl.Expr) -> pl.Expr:
    """Return the part at a place from 0, as in Flink; null beyond the parts."""
    index = pl.when(place >= 0).then(place)
    return text.str.split(between).list.get(index, null_on_oob=True)


@function("substring_index", {"text": TEXT, "between": TEXT, "count": SMALL_WHOLE}, types.TEXT)
def substring_index(text: pl.Expr, between: pl.Expr, count: pl.Expr) -> pl.Expr:
    return of_values(_up_to, [text, between, count], types.TEXT)


def _up_to(text: str, between: str, count: int) -> str:
    """Return what precedes the n-th separator, or what follows it, counted from the end. Separators
    may overlap.
    """
    if not between:
        return ""
    at = -1 if count > 0 else len(text) - len(between) + 1
    for _ in range(abs(count)):
        at = text.find(between, at + 1) if count > 0 else text.rfind(between, 0, at + len(between) - 1)
        if at < 0:
            return text
    return "" if count == 0 else text[:at] if count > 0 else text[at + len(between) :]


@function("find_in_set", {"text": TEXT, "texts": TEXT}, types.INT)
def find_in_set(text: pl.Expr, texts: pl.Expr) -> pl.Expr:
    return of_values(_place_in_set, [text, texts], types.INT)


def _place_in_set(text: str, texts: str) -> int:
    parts = texts.split(",")
    return parts.index(text) + 1 if text in parts else 0


# --- by character -------------------------------------------------------------------------------------


@function(
    exp.Overlay,
    {"this": CHARACTERS, "expression": CHARACTERS, "from_": SMALL_WHOLE, "for_": optional(SMALL_WHOLE)},
    types.TEXT,
)
def overlay(this: pl.Expr, expression: pl.Expr, from_: pl.Expr, for_: pl.Expr | None = None) -> pl.Expr:
    length = expression.str.len_chars().cast(types.INT)
    if for_ is not None:
        length = pl.when(for_ < 0).then(length).when(for_ >= 0).then(for_)
    before, behind = substring(this, pl.lit(1), from_ - 1), substring(this, from_ + length)
    return pl.concat_str(before, expression, behind)


@function("translate", {"text": TEXT, "old": TEXT, "new": TEXT}, types.TEXT)
def translate(text: pl.Expr, old: pl.Expr, new: pl.Expr) -> pl.Expr:
    return of_values(_translated, [text, old, new], types.TEXT)


def _translated(text: str, old: str, new: str) -> str:
    places = {ord(char): new[at : at + 1] for at, char in reversed([*enumerate(old)])}
    return text.translate(places)


@function("initcap", {"text": TEXT}, types.TEXT)
def initcap(text: pl.Expr) -> pl.Expr:
    return of_values(_capitalised, [text], types.TEXT)


def _capitalised(text: str) -> str:
    return " ".join(map(_capitalised_word, text.split(" ")))


def _capitalised_word(word: str) -> str:
    lower = word.lower()
    # The last sigma of a word has another form, which its first letters decide.
    rest = lower[1:] if len(lower) == len(word) else word[1:].lower()
    return word[:1].title() + rest


@computes_named("space")
def space(compiler: Compiler, node: exp.Anonymous) -> Typed:
    compiler.given(node, [SMALL_WHOLE])
    return repeat_text(compiler, node, pl.lit(" "), node.expressions[0])


@computes_named("elt")
def elt(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ELT(n, a, b): the n-th of the values, or null."""
    place, *values = node.expressions or [exp.null()]
    [at] = compiler.given(exp.Anonymous(this="elt", expressions=[place]), [SMALL_WHOLE])
    of = [compiler.cast(compiler.compile(each), types.TEXT) for each in values]
    if not of:
        raise compiler.sql.error("ELT() takes a number and values", node, "write ELT(n, 'a', 'b')")
    return chosen_of(compiler, node, [at.expr == number for number in range(1, len(of) + 1)], of)


# --- compared -----------------------------------------------------------------------------------------


@function("levenshtein", {"text": TEXT, "other": TEXT, "most": optional(SMALL_WHOLE)}, types.INT)
def levenshtein(text: pl.Expr, other: pl.Expr, most: pl.Expr | None = None) -> pl.Expr:
    """Return the number of edits; -1 if it is greater than `most`."""
    edits = of_values(_edits, [text, other], types.INT)
    if most is None:
        return edits
    within = pl.when(edits <= most).then(edits).otherwise(-1)
    return pl.when(edits.is_not_null() & most.is_not_null()).then(within)


def _edits(text: str, other: str) -> int:
    before: Sequence[int] = range(len(other) + 1)
    for row, char in enumerate(text, start=1):
        made = [row]
        for column, found in enumerate(other, start=1):
            replaced = before[column - 1] + (char != found)
            made.append(min(made[-1] + 1, before[column] + 1, replaced))
        before = made
    return before[-1]


@function("soundex", {"text": TEXT}, types.TEXT)
def soundex(text: pl.Expr) -> pl.Expr:
    return of_values(_soundex, [text], types.TEXT)


_SOUNDS = "01230127022455012623017202"
"""Digit of each letter of the alphabet; 7 for letters that are ignored."""


def _soundex(text: str) -> str:
    codes = [ord(char.upper()) - 65 if char.isascii() else -1 for char in text]
    if not codes or not 0 <= codes[0] < 26:
        return text
    made, last = chr(codes[0] + 65), _SOUNDS[codes[0]]
    for code in codes[1:]:
        sound = _SOUNDS[code] if 0 <= code < 26 else "0"
        if sound == "7":
            continue
        if sound not in ("0", last) and len(made) < 4:
            made += sound
        last = sound
    return made.ljust(4, "0")
