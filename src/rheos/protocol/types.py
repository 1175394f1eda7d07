"""How Python's types map to Arrow's, and records to batches and back. One place for both.

| annotation | Arrow |
|---|---|
| bool, int, float, str, bytes | bool, int64, float64, string, binary |
| datetime, date, timedelta | timestamp[us, UTC], date32, duration[us] |
| Decimal | decimal128(38, 18) |
| X or None | X, nullable |
| list[X], dict[K, V] | list, map |
| a dataclass | struct |
| an Enum of str | string |
"""

from __future__ import annotations

import dataclasses
import enum
import keyword
import types
import typing
from collections import namedtuple
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.errors import SchemaError
from rheos.protocol.elements import Batch, strip_hidden, visible

_SIMPLE: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime: pa.timestamp("us", tz="UTC"),
    date: pa.date32(),
    timedelta: pa.duration("us"),
    Decimal: pa.decimal128(38, 18),
}

_HINT = (
    "use bool, int, float, str, bytes, datetime, date, timedelta, Decimal, list[...], dict[..., ...], "
    "a dataclass, or any of these with `| None`"
)


class TypeMismatch(Exception):  # noqa: N818 - its users name it as the thing it is
    """A record does not have the type that was declared. Operators turn it into a UserFunctionError."""

    def __init__(self, index: int, field: str | None, expected: str, given: Any) -> None:
        place = f"field {field!r}" if field else "a record"
        super().__init__(f"{place} should be {expected}, and is {type(given).__name__}: {given!r}")
        self.index = index
        self.field = field
        self.expected = expected
        self.given = given


# --- types ----------------------------------------------------------------------------------------


def arrow_type(annotation: Any) -> pa.DataType:
    """The Arrow type of an annotation. Raises SchemaError, which says what can be written."""
    annotation, _ = _without_none(annotation)
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list and args:
        return pa.list_(arrow_type(args[0]))
    if origin is dict and args:
        return pa.map_(arrow_type(args[0]), arrow_type(args[1]))
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return pa.struct(list(schema_of(annotation)))
    of_text = (
        isinstance(annotation, type)
        and issubclass(annotation, enum.Enum)
        and all(isinstance(member.value, str) for member in annotation)
    )
    if of_text:
        return pa.string()
    raise SchemaError(f"{_shown(annotation)} has no column type", hint=_HINT)


@lru_cache(maxsize=256)
def schema_of(record: type) -> pa.Schema:
    """The columns of a dataclass, in its order. Raises SchemaError."""
    if not dataclasses.is_dataclass(record):
        raise SchemaError(
            f"{_shown(record)} is not a dataclass",
            hint="decorate it with @dataclass, or give a pyarrow schema",
        )
    hints = typing.get_type_hints(record)
    fields = []
    for field in dataclasses.fields(record):
        try:
            kind = arrow_type(hints[field.name])
        except SchemaError as error:
            what = f"field {field.name!r} of {record.__name__}: {error.what}"
            raise SchemaError(what, hint=error.hint) from error
        fields.append(pa.field(field.name, kind, nullable=_without_none(hints[field.name])[1]))
    return pa.schema(fields)


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """The annotation without `| None`, and whether it had it."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        rest = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        if len(rest) == 1:
            return rest[0], True
    return annotation, False


def _shown(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


# --- batches to records ---------------------------------------------------------------------------


def row_type(schema: pa.Schema) -> Callable[..., Any]:
    """The type of the light named rows of a stream whose records have no dataclass."""
    return _row_type(tuple(visible(schema).names))


@lru_cache(maxsize=256)
def _row_type(names: tuple[str, ...]) -> Callable[..., Any]:
    fit = [n if n.isidentifier() and not keyword.iskeyword(n) and n[0] != "_" else "" for n in names]
    return namedtuple("Row", [n or f"_{i}" for i, n in enumerate(fit)], rename=True)


def columns_to_python(array: pa.Array) -> list[Any]:
    """The values of a column as Python objects; None where it is null."""
    kind = array.type
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and array.null_count == 0:
        return typing.cast("list[Any]", array.to_numpy(zero_copy_only=False).tolist())
    if pa.types.is_map(kind):
        return [None if value is None else dict(value) for value in array.to_pylist()]
    if pa.types.is_nested(kind):
        return typing.cast("list[Any]", array.to_pylist())
    return typing.cast("pl.Series", pl.from_arrow(array)).to_list()


def rows_of(batch: Batch, record: type | None) -> list[Any]:
    """The batch's rows, hidden columns left out: instances of the dataclass, or light named rows."""
    shown = strip_hidden(batch)
    if record is None:
        make = row_type(shown.schema)
        return list(map(make, *map(columns_to_python, shown.columns)))
    return _record_maker(record)(shown)


@lru_cache(maxsize=256)
def _record_maker(record: type) -> Callable[[Batch], list[Any]]:
    fields = [field for field in dataclasses.fields(record) if field.init]
    hints = typing.get_type_hints(record)
    names = [field.name for field in fields]
    converters = {name: c for name in names if (c := _from_arrow(hints[name])) is not None}
    by_keyword = any(field.kw_only for field in fields)

    def make(batch: Batch) -> list[Any]:
        columns = []
        for name in names:
            values = columns_to_python(batch.column(name))
            convert = converters.get(name)
            columns.append(values if convert is None else list(map(convert, values)))
        if by_keyword:
            return [record(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
        return list(map(record, *columns))

    return make


def _from_arrow(annotation: Any) -> Callable[[Any], Any] | None:
    """Makes nested values and enums what they are declared to be; None where nothing is to be done."""
    annotation, _ = _without_none(annotation)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return lambda value: None if value is None else annotation(value)
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        hints = typing.get_type_hints(annotation)
        inner = {f.name: _from_arrow(hints[f.name]) for f in dataclasses.fields(annotation)}

        def build(value: Any) -> Any:
            if value is None:
                return None
            return annotation(**{k: c(value[k]) if c else value[k] for k, c in inner.items()})

        return build
    if typing.get_origin(annotation) is list:
        element = _from_arrow(typing.get_args(annotation)[0])
        if element is not None:
            return lambda value: None if value is None else [element(item) for item in value]
    return None


# --- records to batches ---------------------------------------------------------------------------

_EXACT: dict[str, tuple[type, ...]] = {
    "int64": (int,),
    "double": (float, int),
    "string": (str,),
    "bool": (bool,),
    "binary": (bytes,),
}
"""What a value of these column types may be; for all others Arrow decides."""


def batch_of(rows: Sequence[Any], schema: pa.Schema, record: type | None = None) -> Batch:
    """A batch of the visible columns of `schema`. Rows are dataclass instances, named rows or dicts.

    Raises TypeMismatch, which names the row, the field and what was expected.
    """
    fields = list(visible(schema))
    if record is not None:
        _check_class(rows, record)
    columns = _values(rows, fields)
    arrays = [_array(values, field) for values, field in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _check_class(rows: Sequence[Any], record: type) -> None:
    if set(map(type, rows)) <= {record}:
        return
    for index, row in enumerate(rows):
        if not isinstance(row, record):
            raise TypeMismatch(index, None, record.__name__, row)


def _values(rows: Sequence[Any], fields: list[pa.Field]) -> list[list[Any]]:
    names = [field.name for field in fields]
    if rows and isinstance(rows[0], dict):
        try:
            return [[row[name] for row in rows] for name in names]
        except (KeyError, TypeError):
            pass
    else:
        try:
            return [list(map(attrgetter(name), rows)) for name in names]
        except AttributeError:
            pass
    for index, row in enumerate(rows):
        if not all(name in row if isinstance(row, dict) else hasattr(row, name) for name in names):
            raise TypeMismatch(index, None, f"a record with {', '.join(names)}", row)
    raise TypeMismatch(0, None, "all dicts or all objects", rows[0])


def _array(values: list[Any], field: pa.Field) -> pa.Array:
    kind = field.type
    allowed = _EXACT.get(str(kind))
    kinds = set(map(type, values))
    missing = type(None) in kinds
    if missing and not field.nullable:
        raise TypeMismatch(values.index(None), field.name, _expected(field), None)
    kinds.discard(type(None))
    if allowed is not None and not kinds <= set(allowed):
        values = [_plain(value) for value in values]
        for index, value in enumerate(values):
            if value is not None and not _fits(value, allowed):
                raise TypeMismatch(index, field.name, _expected(field), value)
    elif pa.types.is_nested(kind):
        values = [_plain(value) for value in values]
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        for index, value in enumerate(values):
            try:
                pa.array([value], kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                raise TypeMismatch(index, field.name, _expected(field), value) from None
        raise


def _fits(value: Any, allowed: tuple[type, ...]) -> bool:
    return isinstance(value, allowed) and (not isinstance(value, bool) or bool in allowed)


def _plain(value: Any) -> Any:
    """What Arrow can take: enums by value, dataclasses as dicts, numpy scalars as Python's."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, np.generic):
        return value.item()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _expected(field: pa.Field) -> str:
    return f"{field.type}{' or None' if field.nullable else ''}"
