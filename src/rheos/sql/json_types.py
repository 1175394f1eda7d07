"""Columns of any type from JSON documents: FROM_JSON, and casts of VARIANT to structs and arrays.

Columns are built level by level. Leaves become strings first and are cast as a column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa

from rheos.sql import types, variants
from rheos.sql.json_columns import SCALAR, Formats
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


def column_of(
    values: Sequence[Document | Absent],
    kind: pl.DataType,
    leaf: Leaf,
    formats: Formats = MappingProxyType({}),
) -> pl.Series:
    """Return the documents as a column of a type, with null where a value does not fit."""
    if kind == types.VARIANT:
        texts = [None if isinstance(each, Absent) else variants.canonical(each) for each in values]
        frame = pl.DataFrame({"text": pl.Series(texts, dtype=types.TEXT)})
        return frame.select(variants.of_documents(pl.col("text"))).to_series()
    match kind:
        case pl.Struct():
            return _structs(values, kind, leaf, formats)
        case pl.List():
            return _lists(values, kind, leaf, formats)
        case pl.Map():
            return _maps(values, kind, leaf, formats)
    scalars = [None if isinstance(each, Absent) else leaf(each, kind) for each in values]
    made = types.cast(pl.col(SCALAR), types.TEXT, kind)
    assert made is not None, "the type was checked when the query was planned"
    frame = pl.DataFrame({SCALAR: pl.Series(scalars, dtype=types.TEXT)})
    if (format_ := formats.get(kind)) is not None:  # Numbers are no strings of a format.
        is_number = pl.Series([isinstance(each, Number) for each in values], dtype=types.BOOLEAN)
        made = pl.when(is_number).then(made).otherwise(format_)
    return frame.select(made).to_series()


def _structs(
    values: Sequence[Document | Absent], kind: pl.Struct, leaf: Leaf, formats: Formats
) -> pl.Series:
    # The last of several members with one key counts.
    objects = [dict(each.pairs) if isinstance(each, Members) else None for each in values]
    fields = []
    for field in kind.fields:
        inner = [_ABSENT if each is None else each.get(field.name, _ABSENT) for each in objects]
        assert isinstance(field.dtype, pl.DataType)
        fields.append(column_of(inner, field.dtype, leaf, formats).rename(field.name))
    frame = pl.DataFrame(fields)
    there = pl.Series([each is not None for each in objects], dtype=types.BOOLEAN)
    return frame.select(pl.when(there).then(pl.struct(pl.all())).alias("structs")).to_series()


def _lists(
    values: Sequence[Document | Absent], kind: pl.List, leaf: Leaf, formats: Formats
) -> pl.Series:
    lists = [each if isinstance(each, list) else None for each in values]
    assert isinstance(kind.inner, pl.DataType)
    offsets, inner, missing = _elements(lists, kind.inner, leaf, formats)
    made = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), inner.to_arrow(), mask=missing)
    return pl.Series(pl.from_arrow(made)).cast(kind)


def _maps(values: Sequence[Document | Absent], kind: pl.Map, leaf: Leaf, formats: Formats) -> pl.Series:
    # The last of several members with one key counts.
    objects = [dict(each.pairs) if isinstance(each, Members) else None for each in values]
    assert isinstance(kind.value, pl.DataType)
    members = [None if each is None else [*each.values()] for each in objects]
    offsets, inner, missing = _elements(members, kind.value, leaf, formats)
    keys = pa.array([key for each in objects for key in each or ()], pa.large_string())
    entries = pa.StructArray.from_arrays([keys, inner.to_arrow()], ["key", "value"])
    made = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), entries, mask=missing)
    frame = pl.Series(pl.from_arrow(made)).to_frame(SCALAR)
    return frame.select(pl.col(SCALAR).list.to_map()).to_series().cast(kind)


def _elements(
    groups: Sequence[list[Document] | None], kind: pl.DataType, leaf: Leaf, formats: Formats
) -> tuple[list[int], pl.Series, pa.Array]:
    """Return where the elements of each array or object begin, the elements as a column, and which
    results are null."""
    offsets = [0]
    for each in groups:
        offsets.append(offsets[-1] + len(each or ()))
    elements = [each for one in groups for each in one or ()]
    inner = column_of(elements, kind, leaf, formats)
    missing = [each is None for each in groups]
    if leaf is spark_leaf:  # An element that does not fit makes the array or the map null.
        bad = [
            value is not None and null for value, null in zip(elements, inner.is_null(), strict=True)
        ]
        spans = pairwise(offsets)
        missing = [each or any(bad[a:b]) for each, (a, b) in zip(missing, spans, strict=True)]
    return offsets, inner, pa.array(missing, pa.bool_())


# --- FROM_JSON ----------------------------------------------------------------------------------------


def read(columns: Sequence[pl.Series], *, kind: pl.DataType, formats: Formats) -> pl.Series:
    """Compute FROM_JSON. A document of another type has null fields, or is null for an array or a
    map."""
    [texts] = columns
    distinct = texts.unique().drop_nulls()
    made = column_of([_root(text, kind) for text in distinct.to_list()], kind, spark_leaf, formats)
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
        case pl.Map():
            value: Any = kind.value
            return kind.key == types.TEXT and has_json_form(value)
        case pl.Binary() | pl.Null() | pl.Duration():
            return False
    return True
