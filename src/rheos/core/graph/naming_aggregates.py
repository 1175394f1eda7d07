"""Advice for calls that pass aggregates without names, as in pandas and PySpark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from rheos.core.aggregates import KINDS, Agg
from rheos.core.foreign_names import folded, words


def naming(given: object, example: str) -> str:
    """Return advice on how to name aggregates that were passed as one argument, such as `{"cents":
    "sum"}`.

    Args:
        given: A dict by column, a list, a name, an aggregate or an expression.
        example: A call of the method with a named aggregate.

    Returns:
        The advice, or an empty string if the argument is something else.
    """
    named = ", ".join(f"{name}={written}" for name, written in _named(given, ""))
    return f"name each result: {example.partition('(')[0]}({named})" if named else ""


def _named(given: object, column: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the code of each aggregate. An empty `column` means that it is unknown."""
    match given:
        case Mapping():
            for name, each in given.items():
                yield from _named(each, str(name))
        case Agg():
            of = f'"{given.column}"' if given.column else ""
            yield column or given.column or "n", f"rh.agg.{given.kind}({of})"
        case pl.Expr():
            name = given.meta.output_name(raise_if_undetermined=False) or "total"
            yield column or name, f'rh.col("{name}")...'
        case str():
            yield column or "total", _suggest_call(given, column or "price")
        case Sequence():
            for each in given:
                for name, written in _named(each, column):
                    many = column and isinstance(each, str)
                    yield (f"{column}_{each}" if many else name), written


def _suggest_call(kind: str, column: str) -> str:
    ours = words("agg").get(folded(kind), f'rh.agg.{kind}("{column}")')
    if kind in ("count", "size", "len"):
        return "rh.agg.count()"
    if kind in KINDS or ours.startswith("rh.agg."):
        return re.sub(r'"\w+"', f'"{column}"', ours, count=1)
    return f'rh.agg.sum("{column}")'
