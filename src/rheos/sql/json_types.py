"""Columns of any type from JSON documents: FROM_JSON, and casts of VARIANT to structs and arrays.

Columns are built level by level. Leaves become strings first and are cast as a column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa

from rheos.sql import types, variants
from rheos.sql.json_documents import (
    Document,
    MalformedJsonError,
    Members,
    Number,
    java_number,
    parsed,
    written,
)
from rheos.sql.json_paths import Absent

Leaf: TypeAlias = Callable[[Document, pl.DataType], str | None]
"""Function that returns a scalar as the string from which it is cast to a type; None for null."""
_ABSENT = Absent.ABSENT


def column_of(values: Sequence[Document | Absent], kind: pl.DataType, leaf: Leaf) -> pl.Series:
    """Return the documents as a column of a type, with null where a value does not fit."""
    if kind == types.VARIANT:
        texts = [None if isinstance(each, Absent) else variants.canonical(each) for each in values]
        frame = pl.DataFrame({"text": pl.Series(texts, dtype=types.TEXT)})
        return frame.select(variants.of_documents(pl.col("text"))).to_series()
    match kind:
        case pl.Struct():
            return _structs(values, kind, leaf)
        case pl.List():
            return _lists(values, kind, leaf)
    scalars = [None if isinstance(each, Absent) else leaf(each, kind) for each in values]
    made = types.cast(pl.col("text"), types.TEXT, kind)
    assert made is not None, "the type was checked when the query was planned"
    return pl.DataFrame({"text": pl.Series(scalars, dtype=types.TEXT)}).select(made).to_series()


def _structs(values: Sequence[Document | Absent], kind: pl.Struct, leaf: Leaf) -> pl.Series:
    # The last of several members with one key counts.
    objects = [dict(each.pairs) if isinstance(each, Members) else None for each in values]
    fields = []
    for field in kind.fields:
        inner = [_ABSENT if each is None else each.get(field.name, _ABSENT) for each in objects]
        assert isinstance(field.dtype, pl.DataType)
        fields.append(column_of(inner, field.dtype, leaf).rename(field.name))
    frame = pl.DataFrame(fields)
    there = pl.Series([each is not None for each in objects], dtype=types.BOOLEAN)
    return frame.select(pl.when(there).then(pl.struct(pl.all())).alias("structs")).to_series()


def _lists(values: Sequence[Document | Absent], kind: pl.List, leaf: Leaf) -> pl.Series:
    lists = [each if isinstance(each, list) else None for each in values]
    offsets = [0]
    for each in lists:
        offsets.append(offsets[-1] + len(each or ()))
    assert isinstance(kind.inner, pl.DataType)
    elements = [each for one in lists for each in one or ()]
    inner = column_of(elements, kind.inner, leaf)
    missing = [each is None for each in lists]
    if leaf is spark_leaf:  # An element that does not fit makes the array null.
        bad = [
            value is not None and null for value, null in zip(elements, inner.is_null(), strict=True)
        ]
        spans = pairwise(offsets)
        missing = [each or any(bad[a:b]) for each, (a, b) in zip(missing, spans, strict=True)]
    whole = pa.array(offsets, pa.int64())
    made = pa.LargeListArray.from_arrays(whole, inner.to_arrow(), mask=pa.array(missing, pa.bool_()))
    return pl.Series(pl.from_arrow(made)).cast(kind)


# --- FROM_JSON ----------------------------------------------------------------------------------------


def read(columns: Sequence[pl.Series], *, kind: pl.DataType) -> pl.Series:
    """Compute FROM_JSON. A document of another type has null fields, or is null for an array."""
    [texts] = columns
    distinct = texts.unique().drop_nulls()
    made = column_of([_root(text, kind) for text in distinct.to_list()], kind, spark_leaf)
    places = pl.DataFrame({"text": distinct, "place": range(len(distinct))})
    found = texts.to_frame("text").join(places, on="text", how="left", maintain_order="left")
    return made.gather(found["place"]).rename(texts.name)


def _root(text: str, kind: pl.DataType) -> Document | Absent:
    if not text.strip():
        return _ABSENT
    try:
        value = parsed(text, whole=False, single_quotes=True)
    except MalformedJsonError:
        value = ""
    if isinstance(kind, pl.Struct) and kind != types.VARIANT and not isinstance(value, Members):
        return Members([])
    if isinstance(kind, pl.List) and isinstance(kind.inner, pl.Struct) and isinstance(value, Members):
        return [value]
    return value


_NAMED_REALS = {
    **dict.fromkeys(("NaN",), "NaN"),
    **dict.fromkeys(("Infinity", "+Infinity", "INF", "+INF"), "Infinity"),
    **dict.fromkeys(("-Infinity", "-INF"), "-Infinity"),
}


def spark_leaf(value: Document, kind: pl.DataType) -> str | None:
    """Return a scalar as FROM_JSON reads it: no number of a string, and no integer of a fraction."""
    is_number, is_text = isinstance(value, Number), isinstance(value, str)
    if value is None:
        return None
    if kind == types.TEXT:
        is_plain = is_text and not is_number
        return str(value) if is_plain else written(value, java_number)
    if kind == types.BOOLEAN:
        return written(value) if isinstance(value, bool) else None
    if types.is_integer(kind):
        return value if isinstance(value, Number) and value.is_integer else None
    if types.is_floating(kind):
        return str(value) if is_number else _NAMED_REALS.get(value) if isinstance(value, str) else None
    if types.is_decimal(kind):
        return str(value) if is_text else None
    if isinstance(value, Number):
        return _moment(value) if types.is_timestamp(kind) else None
    return str(value) if is_text else None


def _moment(seconds: Number) -> str | None:
    if not seconds.is_integer:
        return None
    try:
        return datetime.fromtimestamp(int(seconds), UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return None


# --- VARIANT ------------------------------------------------------------------------------------------


def cast_variants(columns: Sequence[pl.Series], *, kind: pl.DataType) -> pl.Series:
    """Cast documents of VARIANT to a type, with null where a value does not fit."""
    values = [_ABSENT if text is None else parsed(text) for text in columns[0].to_list()]
    return column_of(values, kind, variants.leaf).rename(columns[0].name)


def has_json_form(kind: pl.DataType) -> bool:
    """Return whether documents can be read as a type."""
    match kind:
        case pl.Struct():
            inner: list[Any] = [field.dtype for field in kind.fields]
            return all(map(has_json_form, inner))
        case pl.List():
            element: Any = kind.inner
            return has_json_form(element)
        case pl.Binary() | pl.Null() | pl.Duration():
            return False
    return True
