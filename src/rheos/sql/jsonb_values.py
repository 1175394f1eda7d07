"""Functions of PostgreSQL's jsonb, of single documents as strings.

`rheos.sql.value_functions` applies them to columns. Results are canonical: an object has each key once,
shorter keys first, so that equal documents are equal strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import polars as pl

from rheos.core.graph.row_functions import of_one_length
from rheos.sql.json_documents import Document, MalformedJsonError, Members, Number, parsed, quoted
from rheos.sql.json_documents import written as compact
from rheos.sql.json_paths import MissingError, StandardPath, all_at
from rheos.sql.json_values import json_text

P = ParamSpec("P")
_MOST_EXPONENT = 400
"""Numbers with larger exponents remain as they are written."""


def canonical(value: Document) -> Document:
    """Return a document with sorted keys, without duplicate ones, and with plain numbers."""
    match value:
        case Members():
            members = {key: canonical(each) for key, each in value.pairs}
            return Members(sorted(members.items(), key=lambda pair: _key_order(pair[0])))
        case list():
            return [canonical(each) for each in value]
        case Number():
            number = Decimal(value)
            return Number(f"{number:f}") if abs(number.adjusted()) <= _MOST_EXPONENT else value
    return value


def _key_order(key: str) -> tuple[int, bytes]:
    data = key.encode()
    return len(data), data


def canonical_text(text: str) -> str | None:
    """Return a document in its canonical form; None if it is malformed."""
    try:
        return compact(canonical(parsed(text)))
    except MalformedJsonError:
        return None


def _of_document(
    compute: Callable[Concatenate[Document, P], Document],
) -> Callable[Concatenate[str, P], str | None]:
    """Return the function for texts; None for a malformed document."""

    @wraps(compute)
    def of_text(text: str, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        try:
            return compact(canonical(compute(parsed(text), *args, **kwargs)))
        except MalformedJsonError:
            return None

    return of_text


def _members(value: Members) -> dict[str, Document]:
    return dict(value.pairs)


# --- operators ----------------------------------------------------------------------------------------


@_of_document
def concatenated(value: Document, other: str) -> Document:
    """Compute `||`: members of both objects, or elements of both arrays."""
    right = parsed(other)
    if isinstance(value, Members) and isinstance(right, Members):
        return Members([*value.pairs, *right.pairs])
    lists = [each if isinstance(each, list) else [each] for each in (value, right)]
    return [*lists[0], *lists[1]]


@_of_document
def without_key(value: Document, key: str) -> Document:
    """Compute `- 'key'`: without a member, or without the strings that equal it."""
    return _without_keys(value, [key])


@_of_document
def without_keys(value: Document, keys: Sequence[str]) -> Document:
    return _without_keys(value, keys)


def _without_keys(value: Document, keys: Sequence[str]) -> Document:
    if isinstance(value, Members):
        return Members([pair for pair in value.pairs if pair[0] not in keys])
    if isinstance(value, list):
        return [each for each in value if not (_is_text(each) and each in keys)]
    return value


def _is_text(value: Document) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


@_of_document
def without_element(value: Document, place: int) -> Document:
    """Compute `- 1`: without the element at a place from 0, or from -1 back."""
    if isinstance(value, list) and -len(value) <= place < len(value):
        at = place % len(value)
        return value[:at] + value[at + 1 :]
    return value


@_of_document
def without_path(value: Document, path: Sequence[str]) -> Document:
    """Compute `#-`: without the member or element at a path."""
    return _changed(value, path, lambda old: None, removes=True)


def contains(text: str, part: str) -> bool | None:
    """Compute `@>`: whether all of the second document occurs in the first."""
    try:
        whole, wanted = parsed(text), parsed(part)
    except MalformedJsonError:
        return None
    if isinstance(whole, list) and not isinstance(wanted, list | Members):
        return any(_contains(each, wanted) for each in whole)
    return _contains(whole, wanted)


def _contains(whole: Document, part: Document) -> bool:
    match whole, part:
        case Members(), Members():
            have = _members(whole)
            return all(
                key in have and _contains(have[key], each) for key, each in _members(part).items()
            )
        case list(), list():
            return all(any(_contains(each, wanted) for each in whole) for wanted in part)
        case Number(), Number():
            return Decimal(whole) == Decimal(part)
    return type(whole) is type(part) and whole == part


def has_key(text: str, key: str) -> bool | None:
    """Compute `?`: whether a string is a key of the object, or an element of the array."""
    try:
        value = parsed(text)
    except MalformedJsonError:
        return None
    match value:
        case Members():
            return any(name == key for name, _ in value.pairs)
        case list():
            return any(_is_text(each) and each == key for each in value)
    return _is_text(value) and value == key


def has_keys(text: str, keys: Sequence[str], *, every: bool) -> bool | None:
    """Compute `?&` and `?|`."""
    found = [has_key(text, key) for key in keys if key is not None]
    return None if None in found else (all(found) if every else any(found))


# --- changes at a path --------------------------------------------------------------------------------


@_of_document
def with_value(value: Document, path: Sequence[str], new: str, create: bool = True) -> Document:
    """Compute JSONB_SET."""
    made = parsed(new)
    return _changed(value, path, lambda old: made, adds=create)


@_of_document
def with_inserted(value: Document, path: Sequence[str], new: str, after: bool = False) -> Document:
    """Compute JSONB_INSERT: a new member, or a new element before or after that of the path."""
    *way, last = path or [""]
    made = parsed(new)

    def inserted(old: Document) -> Document:
        if isinstance(old, Members):
            return old if last in _members(old) else Members([*old.pairs, (last, made)])
        place = _place(last)
        if not isinstance(old, list) or place is None:
            return old
        at = max(place + len(old) if place < 0 else place, 0) + after
        return [*old[:at], made, *old[at:]]

    return inserted(value) if not way else _changed(value, way, inserted)


def _place(step: str) -> int | None:
    return int(step) if re.fullmatch(r"-?[0-9]{1,9}", step) else None


def _changed(
    value: Document,
    path: Sequence[str],
    change: Callable[[Document], Document],
    *,
    adds: bool = False,
    removes: bool = False,
) -> Document:
    """Return a document with another value at a path, if that exists. `adds` is whether a missing last
    step is added."""
    if not path:
        return value
    step, *rest = path
    if isinstance(value, Members):
        members = _members(value)
        if step not in members:
            return Members([*value.pairs, (step, change(None))]) if adds and not rest else value
        if rest:
            members[step] = _changed(members[step], rest, change, adds=adds, removes=removes)
        elif removes:
            del members[step]
        else:
            members[step] = change(members[step])
        return Members([*members.items()])
    place = _place(step)
    if not isinstance(value, list) or place is None:
        return value
    if not -len(value) <= place < len(value):
        added = [change(None)] if adds and not rest else []
        return [*added, *value] if place < 0 else [*value, *added]
    at = place % len(value)
    if removes and not rest:
        return value[:at] + value[at + 1 :]
    new = _changed(value[at], rest, change, adds=adds, removes=removes) if rest else change(value[at])
    return [*value[:at], new, *value[at + 1 :]]


# --- functions ----------------------------------------------------------------------------------------


@_of_document
def without_nulls(value: Document) -> Document:
    """Compute JSONB_STRIP_NULLS: without the members that are null, at all levels."""
    return _without_nulls(value)


def _without_nulls(value: Document) -> Document:
    match value:
        case Members():
            return Members([(k, _without_nulls(each)) for k, each in value.pairs if each is not None])
        case list():
            return [_without_nulls(each) for each in value]
    return value


def pretty(text: str) -> str | None:
    """Compute JSONB_PRETTY: on several lines, indented by four spaces."""
    try:
        return _pretty(canonical(parsed(text)), "\n")
    except MalformedJsonError:
        return None


def _pretty(value: Document, line: str) -> str:
    inner = f"{line}    "
    if isinstance(value, Members) and value.pairs:
        lines = [f"{inner}{quoted(key)}: {_pretty(each, inner)}" for key, each in value.pairs]
        return "{" + ",".join(lines) + line + "}"
    if isinstance(value, list) and value:
        return "[" + ",".join(inner + _pretty(each, inner) for each in value) + line + "]"
    return compact(value)


def found_by_path(text: str, *, path: StandardPath, first: bool) -> str | None:
    """Compute JSONB_PATH_QUERY_FIRST and JSONB_PATH_QUERY_ARRAY."""
    try:
        found = all_at(parsed(text), path)
    except (MalformedJsonError, MissingError):
        return None
    if first:
        return compact(canonical(found[0])) if found else None
    return compact(canonical([*found]))


def object_of_texts(
    keys: Sequence[str | None], values: Sequence[str | None] | None = None
) -> str | None:
    """Compute JSONB_OBJECT of keys and values, in one array in turn, or in two; None if they do not
    match."""
    names, given = (keys[::2], keys[1::2]) if values is None else (keys, values)
    if len(names) != len(given) or None in names:
        return None
    return compact(canonical(Members([*zip(map(str, names), given, strict=True)])))


# --- values as JSON -----------------------------------------------------------------------------------


def texts_of_values(columns: Sequence[pl.Series]) -> pl.Series:
    """Return the values of a column as JSON, with times as PostgreSQL writes them. A row function."""
    [values] = columns
    exact = values.cast(pl.String).cast(pl.Float64) if values.dtype == pl.Float32 else values
    made = [None if each is None else _value_text(each) for each in exact.to_list()]
    return pl.Series(values.name, made, pl.String())


def _value_text(value: Any) -> str:
    match value:
        case datetime():
            zoned = value.astimezone(UTC) if value.tzinfo else value
            return f'"{zoned.isoformat()}"'
        case date():
            return f'"{value.isoformat()}"'
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case list():
            return "[" + ",".join("null" if each is None else _value_text(each) for each in value) + "]"
        case dict():
            pairs = (f"{quoted(k)}:{'null' if v is None else _value_text(v)}" for k, v in value.items())
            return "{" + ",".join(pairs) + "}"
    return json_text(value)


def built(columns: Sequence[pl.Series], *, keys: bool, sorts: bool) -> pl.Series:
    """Compute JSONB_BUILD_OBJECT and JSONB_BUILD_ARRAY of columns of JSON. A row function.

    Args:
        columns: Values as JSON, null for NULL. With `keys`, a column of keys before each of them.
        keys: Whether the result is an object.
        sorts: Whether the result is canonical.
    """
    columns = of_one_length(columns)
    rows = zip(*(each.to_list() for each in columns), strict=True)
    texts = [_built_object(row) if keys else f"[{','.join(map(_or_null, row))}]" for row in rows]
    if sorts:
        texts = [canonical_text(each) if each is not None else None for each in texts]
    return pl.Series(columns[0].name, texts, pl.String())


def _or_null(text: str | None) -> str:
    return "null" if text is None else text


def _built_object(row: Sequence[str | None]) -> str | None:
    if None in row[::2]:
        return None
    pairs = zip(row[::2], row[1::2], strict=True)
    return "{" + ",".join(f"{quoted(key or '')}:{_or_null(value)}" for key, value in pairs) + "}"
