"""Columns of the test rows, and helpers for the table of accepted expressions."""

from __future__ import annotations

import polars as pl
from polars import Expr, col

B, C, D, F, G, I, J, K = map(col, ("b", "c", "day", "f", "g", "i", "j", "k"))  # noqa: E741
S, T, U, Y, Z = map(col, ("s", "at", "u", "y", "z"))
L, LB, LI, LL, LS = map(col, ("lf", "lb", "li", "ll", "ls"))
A1, AB, AF, AI, AW = map(col, ("a1", "ab", "af", "ai", "aw"))
DEC, DU, M, ST, TM, TZ, OFF = map(col, ("dec", "du", "m", "st", "tm", "tz", "off"))
CATEGORIES = S.cast(pl.Categorical)
LETTERS = S.cast(pl.Enum(list("abcdefgh")), strict=False)
CATEGORY_LISTS = LS.cast(pl.List(pl.Categorical))

ROW_WISE: dict[str, list[Expr]] = {}


def takes(name: str, *exprs: Expr) -> None:
    ROW_WISE.setdefault(name, []).extend(exprs)


def each(space: str, names: str, *subjects: Expr) -> None:
    """Return calls of functions without arguments, for every subject."""
    for name in names.split():
        for subject in subjects:
            there = subject if space == "Expr" else getattr(subject, space)
            takes(f"{space}.{name}", getattr(there, name)())


def both(names: str, *pairs: tuple[Expr, object]) -> None:
    """Return calls of functions of two arguments, for every pair."""
    for name in names.split():
        takes(f"Expr.{name}", *(getattr(left, name)(right) for left, right in pairs))
