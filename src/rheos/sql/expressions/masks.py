"""Strings with other characters: MASK, QUOTE; and how similar strings are."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import ANY, TEXT, Compiler, Typed, computes_named, function, optional
from rheos.sql.text import kind
from rheos.sql.value_functions import of_values

_MASKED = ("X", "x", "n", None)
"""Defaults for letters in upper case, letters in lower case, digits, and other characters."""


@computes_named("mask")
def mask(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile MASK(string[, upper[, lower[, digit[, other]]]]). NULL keeps the characters of a kind."""
    text, *given = compiler.given(node, [TEXT, *[optional(ANY)] * 4])
    for each in given:
        one = isinstance(each.constant, str) and len(each.constant) == 1
        if not one and each.type != types.NULL:
            raise compiler.sql.error(
                f"{kind(node)} takes constant strings of one character, or NULL",
                each.node,
                "write MASK(name, 'X', 'x', 'n')",
            )
    by = (*(each.constant for each in given), *_MASKED[len(given) :])
    return Typed(of_values(partial(_masked, by=by), [text.expr], types.TEXT), types.TEXT, node)


def _masked(text: str, *, by: tuple[str | None, ...]) -> str:
    upper, lower, digit, other = by

    def replaced(char: str) -> str:
        if char.isupper():
            instead = upper
        elif char.islower():
            instead = lower
        else:
            instead = digit if char.isdecimal() else other
        return char if instead is None else instead

    return "".join(map(replaced, text))


@function("quote", {"text": TEXT}, types.TEXT)
def quote(text: pl.Expr) -> pl.Expr:
    """Return the string as a literal of SQL."""
    return pl.lit("'") + text.str.replace_all("'", "\\'", literal=True) + pl.lit("'")


@function("sentences", {"text": TEXT, "language": optional(TEXT), "country": optional(TEXT)},
          pl.List(pl.List(types.TEXT)))  # fmt: skip
def sentences(text: pl.Expr, language: pl.Expr | None, country: pl.Expr | None) -> pl.Expr:
    """Return the words of each sentence."""
    return of_values(_sentences, [text], pl.List(pl.List(types.TEXT)))


_END_OF_SENTENCE = re.compile(r"(?<=[.!?。！？])[\"')\]]*\s+|\n{2,}|(?<=[。！？])")
_WORD = re.compile(r"\w+(?:[.'’:]\w+)*")


def _sentences(text: str) -> list[list[str]]:
    found = [_WORD.findall(sentence) for sentence in _END_OF_SENTENCE.split(text)]
    return [words for words in found if words]


@function("jaro_winkler_similarity", {"one": TEXT, "other": TEXT}, types.DOUBLE)
def jaro_winkler(one: pl.Expr, other: pl.Expr) -> pl.Expr:
    return of_values(_jaro_winkler, [one, other], types.DOUBLE)


_PREFIX_WEIGHT = 0.1
_LONGEST_PREFIX = 4


def _jaro_winkler(one: str, other: str) -> float:
    """Return the similarity from 0 to 1, which counts a common beginning more."""
    first, second = _units(one), _units(other)
    jaro = _jaro(first, second)
    prefix = 0
    for left, right in zip(first[:_LONGEST_PREFIX], second, strict=False):
        if left != right:
            break
        prefix += 1
    return jaro + prefix * _PREFIX_WEIGHT * (1 - jaro)


def _units(text: str) -> list[int]:
    """Return the characters as Java has them, of 16 bits."""
    return array("H", text.encode("utf-16-le")).tolist()


def _jaro(one: Sequence[int], other: Sequence[int]) -> float:
    if one == other:
        return 1.0
    reach = max(max(len(one), len(other)) // 2 - 1, 0)
    taken = [False] * len(other)
    matched = []
    for place, char in enumerate(one):
        for at in range(max(place - reach, 0), min(place + reach + 1, len(other))):
            if not taken[at] and other[at] == char:
                taken[at] = True
                matched.append(char)
                break
    if not matched:
        return 0.0
    others = [char for char, is_taken in zip(other, taken, strict=True) if is_taken]
    moved = sum(left != right for left, right in zip(matched, others, strict=True)) / 2
    count = len(matched)
    return (count / len(one) + count / len(other) + (count - moved) / count) / 3
