"""Converts columns to Python objects and back. Every record takes this path, so it must be fast.

A value that does not fit its column raises TypeMismatch with the row, the field (nested ones as in
`lines[].price`) and the expected type. A value that no Python object can represent raises Unreadable.
No value is ever replaced by a similar one.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import typing
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.protocol import python_times
from rheos.core.protocol.annotations import hints_of
from rheos.core.protocol.annotations import without_none as without_none
from rheos.core.protocol.plain_values import is_missing, plain_value
from rheos.core.protocol.python_times import Unreadable as Unreadable
from rheos.core.protocol.record_makers import maker_of
from rheos.core.safe_strings import shown

Reader = Callable[[pa.Array], list[Any]]


class TypeMismatch(Exception):  # noqa: N818 - its users name it as the thing it is
    """A record that does not have its declared type. Operators convert this to a UserFunctionError."""

    def __init__(
        self, index: int, field: str | None, expected: str, given: Any, given_type: str | None = None
    ) -> None:
        place = f"field {field!r}" if field else "a record"
        kind = given_type or type(given).__name__
        super().__init__(f"{place} should be {expected}, but is {kind}: {shown(given)}")
        self.index = index
        self.field = field
        self.expected = expected
        self.given = given
        self.given_type = given_type

    def inside(self, field: str, index: int) -> TypeMismatch:
        """Return the same mismatch as seen from the enclosing column."""
        place = f"{field}{self.field or ''}"
        return TypeMismatch(index, place, self.expected, self.given, self.given_type)


# --- from Arrow -----------------------------------------------------------------------------------


_NUMBERS = frozenset(
    kind.id
    for kind in (
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
    )
)
_TEXTS = frozenset(kind.id for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()))
_MANY_ROWS = 128
"""Minimum number of rows for which NumPy converts numbers to a list faster than Arrow."""


def columns_to_python(array: pa.Array) -> list[Any]:
    """Return the values of a column as Python objects, nulls as None.

    Raise Unreadable for a value that no Python object can represent, such as a time in the year 10000.
    """
    kind = array.type
    id = kind.id
    if id in _TEXTS:
        return typing.cast("list[Any]", array.to_pylist())
    if id in _NUMBERS:
        by_numpy = len(array) >= _MANY_ROWS and array.null_count == 0
        return _listed(array) if by_numpy else typing.cast("list[Any]", array.to_pylist())
    t = pa.types
    if t.is_timestamp(kind):
        return python_times.datetimes(array)
    if t.is_duration(kind):
        return python_times.durations(array)
    if t.is_date(kind):
        return python_times.dates(array)
    if t.is_time(kind):
        return python_times.times_of_day(array)
    if t.is_dictionary(kind):
        return columns_to_python(array.dictionary_decode())
    if t.is_struct(kind):
        children = [columns_to_python(child) for child in array.flatten()]
        return _structs(array, children, _dict_maker([field.name for field in kind]))
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return _lists(array, columns_to_python)
    if t.is_map(kind):
        return _maps(array, columns_to_python, columns_to_python)
    if t.is_decimal128(kind):
        return typing.cast("pl.Series", pl.from_arrow(array)).to_list()
    return typing.cast("list[Any]", array.to_pylist())


def reader_of(annotation: Any) -> Reader:
    """Return a function that reads a column as values of the annotation: nested dataclasses, enums, or
    Arrow's own Python values."""
    annotation, _ = without_none(annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is float:
        return _floats
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _enum_reader(annotation)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return _struct_reader(annotation)
    if origin is list and args:
        element = reader_of(args[0])
        return lambda array: _lists(array, element)
    if origin is dict and args:
        key, item = reader_of(args[0]), reader_of(args[1])
        return lambda array: _maps(array, key, item)
    return columns_to_python


def _enum_reader(annotation: type[enum.Enum]) -> Reader:
    members: dict[Any, Any] = {member.value: member for member in annotation}
    members[None] = None

    def read(array: pa.Array) -> list[Any]:
        values = columns_to_python(array)
        try:
            return [members[value] for value in values]
        except KeyError as error:
            raise Unreadable(
                f"{annotation.__name__} has no member with the value {error}",
                f"add it to {annotation.__name__}, or read the column as str",
            ) from None

    return read


@lru_cache(maxsize=256)
def field_readers(record: type) -> dict[str, Reader]:
    """Return a reader for each field of the dataclass's `__init__`, in the order of the fields."""
    hints = hints_of(record)
    return {f.name: reader_of(hints[f.name]) for f in dataclasses.fields(record) if f.init}


def _struct_reader(record: type) -> Reader:
    make = maker_of(record)

    def read(array: pa.Array) -> list[Any]:
        children = dict(zip([field.name for field in array.type], array.flatten(), strict=True))
        columns = [reader(children[name]) for name, reader in field_readers(record).items()]
        return _structs(array, columns, make)

    return read


def _structs(array: pa.Array, columns: list[list[Any]], make: Callable[..., Any]) -> list[Any]:
    if array.null_count == 0 and columns:
        return list(map(make, *columns))
    valid = array.is_valid().to_pylist()
    rows = zip(*columns, strict=True) if columns else [()] * len(array)
    return [make(*row) if there else None for there, row in zip(valid, rows, strict=True)]


def _dict_maker(names: list[str]) -> Callable[..., dict[str, Any]]:
    return lambda *values: dict(zip(names, values, strict=True))


def _lists(array: pa.Array, element: Reader) -> list[Any]:
    values = element(array.flatten())
    lengths = array.value_lengths().to_pylist()
    found: list[Any] = []
    start = 0
    for length in lengths:
        if length is None:
            found.append(None)
        else:
            found.append(values[start : start + length])
            start += length
    return found


def _maps(array: pa.Array, key: Reader, item: Reader) -> list[Any]:
    # A map has the same layout as a list of its entries.
    entries = pa.struct([array.type.key_field, array.type.item_field])
    rows = _lists(
        array.cast(pa.list_(pa.field("entries", entries, nullable=False))), _entries(key, item)
    )
    return [None if row is None else dict(row) for row in rows]


def _entries(key: Reader, item: Reader) -> Reader:
    return lambda array: list(zip(key(array.field(0)), item(array.field(1)), strict=True))


def _floats(array: pa.Array) -> list[Any]:
    # An integer beyond 2**53 becomes the nearest float, as with Python's float().
    whole = pa.types.is_integer(array.type)
    return columns_to_python(array.cast(pa.float64(), safe=False) if whole else array)


def _listed(array: pa.Array) -> list[Any]:
    """Convert by NumPy, which uses Python's own types for numbers."""
    return typing.cast("list[Any]", array.to_numpy(zero_copy_only=False).tolist())


# --- to Arrow -------------------------------------------------------------------------------------


def column_of(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """Return a column of these values. Raise TypeMismatch if a value does not fit."""
    kind = field.type
    classes = set(map(type, values))
    nulls = type(None) in classes
    if nulls:
        if not field.nullable:
            raise TypeMismatch(list(values).index(None), field.name, _expected(field), None)
        classes.discard(type(None))
    if pa.types.is_nested(kind):
        return _nested(values, field, nulls)
    allowed = _classes_of(kind)
    exact = classes <= allowed
    if not exact:
        values = _adapted(values, field, allowed)
    try:
        return _array(values, kind, to_float=not exact or int in classes)
    except _MISFITS:
        raise _culprit(values, field) from None


_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _array(values: Sequence[Any], kind: pa.DataType, *, to_float: bool = True) -> pa.Array:
    """Return an array of values whose classes the type allows. Raise one of `_MISFITS` if Arrow would
    truncate or change a value."""
    t = pa.types
    if t.is_floating(kind):
        if to_float:
            values = [value if value is None else float(value) for value in values]
        made = pa.array(values, kind)
        if kind.bit_width < 64 and _overflows(made, values):
            raise OverflowError("out of range for the type")
        return made
    if t.is_time(kind) and any(value is not None and value.tzinfo for value in values):
        raise ValueError("a time of day with a time zone")
    if t.is_temporal(kind) and getattr(kind, "unit", None) in ("s", "ms"):
        return pa.array(values, _in_microseconds(kind)).cast(kind)
    return pa.array(values, kind)


def _overflows(made: pa.Array, values: Sequence[Any]) -> bool:
    infinite = np.isinf(made.to_numpy(zero_copy_only=False).astype(np.float64))
    return any(not math.isinf(values[at]) for at in np.flatnonzero(infinite).tolist())


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")


_ANY: frozenset[type] = frozenset()


@lru_cache(maxsize=256)
def _classes_of(kind: pa.DataType) -> frozenset[type]:
    """Return the classes whose values Arrow converts exactly. Values of other classes are checked one
    by one."""
    t = pa.types
    if t.is_boolean(kind):
        return frozenset([bool])
    if t.is_integer(kind):
        return frozenset([int])
    if t.is_floating(kind):
        return frozenset([float, int])
    if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind):
        return frozenset([str])
    if any(is_a(kind) for is_a in (t.is_binary, t.is_large_binary, t.is_binary_view)):
        return frozenset([bytes])
    if t.is_fixed_size_binary(kind):
        return frozenset([bytes])
    if t.is_time(kind):
        return frozenset([time])
    if t.is_dictionary(kind):
        return _classes_of(kind.value_type)
    if t.is_timestamp(kind):
        return frozenset([datetime])
    if t.is_date(kind):
        return frozenset([date])
    if t.is_duration(kind):
        return frozenset([timedelta])
    if t.is_decimal(kind):
        return frozenset([Decimal, int])
    return _ANY


def _adapted(values: Sequence[Any], field: pa.Field, allowed: frozenset[type]) -> list[Any]:
    """Return the values in Python's own classes (see `plain_values`). Raise TypeMismatch."""
    own = _in_nanoseconds if getattr(field.type, "unit", None) == "ns" else plain_value
    found = []
    for index, value in enumerate(values):
        try:
            plain = None if is_missing(value) else own(value)
        except (ValueError, OverflowError) as error:
            kind = f"{type(value).__name__} ({error})"
            raise TypeMismatch(index, field.name, _expected(field), value, kind) from None
        fits = field.nullable if plain is None else not allowed or _is_of(plain, allowed)
        if not fits:
            raise TypeMismatch(index, field.name, _expected(field), value)
        found.append(plain)
    return found


def _is_of(plain: Any, allowed: frozenset[type]) -> bool:
    # In Python, a bool is an int and a datetime is a date; neither is meant here.
    return type(plain) in allowed or (
        type(plain).__module__.startswith("pandas.")
        and bool(
            (isinstance(plain, datetime) and datetime in allowed)
            or (isinstance(plain, timedelta) and timedelta in allowed)
        )
    )


def _in_nanoseconds(value: Any) -> Any:
    """Convert like `plain_value`, but keep nanoseconds as pandas objects, which Arrow reads exactly."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        import pandas as pd  # Importing pandas takes long, and few columns need it.

        return pd.Timestamp(value) if isinstance(value, np.datetime64) else pd.Timedelta(value)
    counts = getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0)
    return value if counts else plain_value(value)


def _nested(values: Sequence[Any], field: pa.Field, nulls: bool) -> pa.Array:
    there = [i for i, value in enumerate(values) if value is not None] if nulls else range(len(values))
    present = [values[i] for i in there] if nulls else values
    try:
        array = _build(present, field)
    except TypeMismatch as mismatch:
        mismatch.index = there[mismatch.index]
        raise
    if not nulls:
        return array
    places = np.full(len(values), -1)
    places[np.array(there, dtype=np.int64)] = np.arange(len(there))
    return array.take(pa.array(places, mask=places < 0))


def _build(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """Build a nested column without nulls from its child columns."""
    kind = field.type
    if pa.types.is_struct(kind):
        children = [
            _inner(_parts(values, child.name, field), child, f"{field.name}.", range(len(values)))
            for child in kind
        ]
        if not children:
            return pa.array([{}] * len(values), kind)
        return pa.StructArray.from_arrays(children, fields=list(kind))
    if pa.types.is_map(kind):
        _require(values, dict, field)
        owners = [i for i, value in enumerate(values) for _ in value]
        keys = [key for value in values for key in value]
        items = [item for value in values for item in value.values()]
        return pa.MapArray.from_arrays(
            list_offsets(values),
            _inner(keys, kind.key_field.with_name(""), f"{field.name}[key]", owners),
            _inner(items, kind.item_field.with_name(""), f"{field.name}[]", owners),
            type=kind,
        )
    if pa.types.is_list(kind):
        _require(values, list | tuple | np.ndarray, field)
        owners = [i for i, value in enumerate(values) for _ in value]
        items = [item for value in values for item in value]
        element = _inner(items, kind.value_field.with_name(""), f"{field.name}[]", owners)
        return pa.ListArray.from_arrays(list_offsets(values), element, type=kind)
    try:
        return pa.array(values, kind)
    except _MISFITS:
        raise _culprit(values, field) from None


def _inner(values: Sequence[Any], field: pa.Field, place: str, owners: Sequence[int]) -> pa.Array:
    try:
        return column_of(values, field)
    except TypeMismatch as mismatch:
        raise mismatch.inside(place, owners[mismatch.index]) from None


def _parts(values: Sequence[Any], name: str, field: pa.Field) -> list[Any]:
    """Return one field of each of these dataclass instances or dicts."""
    if all(type(value) is not dict for value in values):
        try:
            return list(map(attrgetter(name), values))
        except AttributeError:
            pass
    found = []
    for index, value in enumerate(values):
        try:
            found.append(value[name] if isinstance(value, dict) else getattr(value, name))
        except (KeyError, AttributeError):
            raise TypeMismatch(index, field.name, f"a record with {name!r}", value) from None
    return found


def _require(values: Sequence[Any], classes: Any, field: pa.Field) -> None:
    for index, value in enumerate(values):
        if not isinstance(value, classes):
            raise TypeMismatch(index, field.name, _expected(field), value)


def list_offsets(values: Sequence[Any]) -> pa.Array:
    """Return the offsets of a list array with these lists."""
    return pa.array(np.concatenate([[0], np.cumsum([len(value) for value in values])]), pa.int32())


def _culprit(values: Sequence[Any], field: pa.Field) -> TypeMismatch:
    for index, value in enumerate(values):
        try:
            _array([value], field.type)
        except _MISFITS:
            return TypeMismatch(index, field.name, _expected(field), value)
    raise AssertionError("each value fits the column on its own, but not together")


def _expected(field: pa.Field) -> str:
    return f"{field.type}{' or None' if field.nullable else ''}"


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the storage type of a type, in a layout that Arrow can gather and concatenate."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    return kind
