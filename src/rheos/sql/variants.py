"""VARIANT: a JSON document in a column.

A VARIANT is a struct with one string, the document with sorted keys and without spaces. So it passes
through state, exchanges and stored rows as any struct does, and NULL differs from the document `null`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import polars as pl

from rheos.core.operators.row_expressions import refusal
from rheos.sql import types
from rheos.sql.json_documents import (
    Document,
    MalformedJsonError,
    Members,
    Number,
    java_double,
    parsed,
    plain_decimal,
    written,
)
from rheos.sql.json_paths import Absent, VariantPath, at_path
from rheos.sql.json_values import json_text

_FIELD: Final = types.VARIANT.fields[0].name
_DOUBLE: Final = "E0"
"""Exponent of doubles that are written without one. Numbers without an exponent are decimals."""
_MOST_DIGITS = 38
_SHOWN_CHARACTERS = 60
"""Characters of a document that an error shows."""


def of_documents(texts: pl.Expr) -> pl.Expr:
    """Return documents as VARIANT; null stays null."""
    return pl.when(texts.is_not_null()).then(pl.struct(texts.alias(_FIELD)))


def documents(variants: pl.Expr) -> pl.Expr:
    """Return the documents of VARIANT as strings."""
    return variants.struct.field(_FIELD)


# --- documents ----------------------------------------------------------------------------------------


def document(text: str, *, call: str, tries: bool) -> str | None:
    """Compute PARSE_JSON, and with `tries` TRY_PARSE_JSON. `call` is the call in the query.

    Raises:
        ComputeError: the string is not a document, or an object has a key twice.
    """
    try:
        return canonical(parsed(text, whole=False))
    except MalformedJsonError as error:
        if tries:
            return None
        raise refusal(
            f"{call} received a string that is not valid JSON ({error}): {_begin(text)!r}",
            "use TRY_PARSE_JSON, which returns NULL",
        ) from None


def _begin(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def canonical(document: Document) -> str:
    """Write a document with sorted keys and one spelling for each number.

    Raises:
        MalformedJsonError: an object has a key twice.
    """
    return written(_sorted(document), _number)


def _sorted(value: Document) -> Document:
    match value:
        case Members():
            if len({key for key, _ in value.pairs}) < len(value.pairs):
                raise MalformedJsonError("an object has a key twice")
            return Members(sorted((key, _sorted(each)) for key, each in value.pairs))
        case list():
            return [_sorted(each) for each in value]
    return value


def _number(number: Number) -> str:
    if number.is_integer and -(1 << 63) <= int(number[:40]) < 1 << 63 and len(number) < 40:
        return str(int(number))
    if _is_decimal(number):
        return plain_decimal(number)
    made = java_double(float(number))
    if made.endswith("y"):
        raise MalformedJsonError("a number is too large")
    return made if "E" in made else f"{made}{_DOUBLE}"


def _is_decimal(number: Number) -> bool:
    """Return whether a number is a DECIMAL of up to 38 digits; others are doubles."""
    digits = number.lstrip("-")
    whole, _, fraction = digits.partition(".")
    return (
        "e" not in digits.lower()
        and len((whole + fraction).lstrip("0")) <= _MOST_DIGITS
        and len(fraction) <= _MOST_DIGITS
    )


def at(text: str, *, path: VariantPath) -> str | None:
    """Return the part of a document at a path; None if the path leads to nothing."""
    value = at_path(parsed(text), path)
    return None if isinstance(value, Absent) else written(value)


# --- casts --------------------------------------------------------------------------------------------


def _as_string(value: Document) -> str | None:
    if value is None:
        return None
    if isinstance(value, Number):
        return _shown_number(value)
    return value if isinstance(value, str) else written(value, _shown_number)


def _shown_number(number: Number) -> str:
    return number.removesuffix(_DOUBLE)


def shown(text: str) -> str:
    """Return a document as TO_JSON shows it."""
    return written(parsed(text), _shown_number) if _DOUBLE in text else text


def _as_number(value: Document) -> str | None:
    match value:
        case bool():
            return "1" if value else "0"
        case Number():
            return f"{Decimal(value):f}" if "E" in value else value
        case str():
            return value
    return None


def _as_boolean(value: Document) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case Number():
            return "true" if Decimal(value) else "false"
        case str():
            return value
    return None


def leaf(value: Document, kind: pl.DataType) -> str | None:
    """Return a scalar as the string from which it is cast to a type; None for `null`, and for a value
    that the type does not take.
    """
    if kind == types.TEXT:
        return _as_string(value)
    if kind == types.BOOLEAN:
        return _as_boolean(value)
    if types.is_number(kind):
        return _as_number(value)
    return value if isinstance(value, str) and not isinstance(value, Number) else None


def cast_or_refused(columns: Sequence[pl.Series], *, call: str, to: str) -> pl.Series:
    """Return the second column, the results of a cast of the first one, documents. `call` is the call
    in the query.

    Raises:
        ComputeError: the cast has no result for a document other than `null`.
    """
    texts, results = columns
    failed = texts.filter(results.is_null() & texts.is_not_null() & (texts != "null"))
    if len(failed):
        raise refusal(
            f"{call} cannot convert {_begin(failed[0])} to {to}",
            "use TRY_VARIANT_GET, which returns NULL",
        )
    return results


def documents_of(columns: Sequence[pl.Series]) -> pl.Series:
    """Convert values of other types to documents: scalars, structs and arrays."""
    [values] = columns
    made = [None if each is None else canonical(parsed(json_text(each))) for each in values.to_list()]
    return pl.Series(values.name, made, pl.String())
