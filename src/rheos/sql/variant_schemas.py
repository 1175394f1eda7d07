"""Schemas of documents, as SCHEMA_OF_VARIANT writes them, OBJECT<a: BIGINT, b: ARRAY<STRING>>, and as
SCHEMA_OF_JSON does, STRUCT<a: BIGINT, b: ARRAY<STRING>>."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import polars as pl

from rheos.sql.json_documents import Document, MalformedJsonError, Members, Number, parsed
from rheos.sql.types import MOST_DIGITS

_LONG_DIGITS = 20
"""Digits of a BIGINT, next to a DECIMAL."""


@dataclass(frozen=True)
class _Decimal:
    digits: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.digits},{self.scale})"


@dataclass(frozen=True)
class _Array:
    inner: _Schema

    def __str__(self) -> str:
        return f"ARRAY<{self.inner}>"


@dataclass(frozen=True)
class _Object:
    fields: tuple[tuple[str, _Schema], ...]
    """By name, in the order of the names."""

    def __str__(self) -> str:
        return f"OBJECT<{', '.join(f'{_name(name)}: {of}' for name, of in self.fields)}>"


_Schema: TypeAlias = str | _Decimal | _Array | _Object
_VOID: _Schema = "VOID"
_LONG, _DOUBLE, _ANY = "BIGINT", "DOUBLE", "VARIANT"


def _name(name: str) -> str:
    is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII)
    return name if is_plain else "`" + name.replace("`", "``") + "`"


def _schema(value: Document) -> _Schema:
    match value:
        case None:
            return _VOID
        case bool():
            return "BOOLEAN"
        case Number():
            return _schema_of_number(value)
        case str():
            return "STRING"
        case Members():
            return _Object(tuple((name, _schema(each)) for name, each in value.pairs))
    return _Array(reduce(_merged, map(_schema, value), _VOID))


def _schema_of_number(number: Number) -> _Schema:
    whole, _, fraction = number.lstrip("-").partition(".")
    if "E" in number.upper():
        return _DOUBLE
    if number.is_integer and -(1 << 63) <= int(number) < 1 << 63:
        return _LONG
    digits = len((whole + fraction).lstrip("0"))
    return _Decimal(max(digits, len(fraction)), len(fraction))


def _merged(one: _Schema, other: _Schema) -> _Schema:
    """Return the schema of values of both."""
    match one, other:
        case _ if one == other or other == _VOID:
            return one
        case "VOID", _:
            return other
        case ("DOUBLE", "BIGINT" | _Decimal()) | ("BIGINT" | _Decimal(), "DOUBLE"):
            return _DOUBLE
        case ("BIGINT" | _Decimal(), "BIGINT" | _Decimal()):
            return _merged_decimals(_decimal(one), _decimal(other))
        case _Array(), _Array():
            return _Array(_merged(one.inner, other.inner))
        case _Object(), _Object():
            fields = dict(one.fields)
            for name, of in other.fields:
                fields[name] = _merged(fields.get(name, _VOID), of)
            return _Object(tuple(sorted(fields.items(), key=lambda field: field[0])))
    return _ANY


def _decimal(of: _Schema) -> _Decimal:
    return of if isinstance(of, _Decimal) else _Decimal(_LONG_DIGITS, 0)


def _merged_decimals(one: _Decimal, other: _Decimal) -> _Schema:
    scale = max(one.scale, other.scale)
    digits = max(one.digits - one.scale, other.digits - other.scale) + scale
    return _Decimal(digits, scale) if digits <= MOST_DIGITS else _DOUBLE


def schema_of_json(text: str) -> str | None:
    """Return the schema with which FROM_JSON reads a document; None if the document is malformed."""
    if not text.strip():
        return "STRING"
    try:
        schema = _schema(parsed(text, whole=False, single_quotes=True))
    except MalformedJsonError:
        return None
    return _readable(schema) or "STRUCT<>"


def _readable(schema: _Schema) -> str | None:
    """Return a schema without VOID and VARIANT; None for objects without members."""
    match schema:
        case _Object():
            fields = [(name, _readable(of)) for name, of in schema.fields]
            known = [f"{_name(name)}: {of}" for name, of in sorted(fields) if of is not None]
            return f"STRUCT<{', '.join(known)}>" if known else None
        case _Array():
            inner = _readable(schema.inner)
            return None if inner is None else f"ARRAY<{inner}>"
        case _Decimal():
            return str(schema) if schema.scale == 0 and schema.digits <= MOST_DIGITS else _DOUBLE
    return "STRING" if schema in (_VOID, _ANY) else schema


def schema_of(text: str) -> str:
    """Return the schema of a document of VARIANT."""
    return str(_schema(parsed(text)))


def merged_schema(texts: Iterable[str | None]) -> str:
    """Return the schema of all documents together; a null changes nothing."""
    return str(reduce(_merged, (_schema(parsed(text)) for text in texts if text is not None), _VOID))


def merged_schemas(columns: Sequence[pl.Series]) -> pl.Series:
    """Return the schema of the documents of each list."""
    [lists] = columns
    made = [None if texts is None else merged_schema(texts) for texts in lists.to_list()]
    return pl.Series(lists.name, made, pl.String())
