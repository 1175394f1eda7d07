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

import copy
import dataclasses
import enum
import keyword
import types
import typing
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, ClassVar

import pyarrow as pa

from rheos.errors import SchemaError
from rheos.protocol.columns import TypeMismatch as TypeMismatch
from rheos.protocol.columns import column_of, field_readers, maker_of
from rheos.protocol.columns import columns_to_python as columns_to_python
from rheos.protocol.columns import without_none as without_none
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


# --- types ----------------------------------------------------------------------------------------


def arrow_type(annotation: Any) -> pa.DataType:
    """The Arrow type of an annotation. Raises SchemaError, which says what can be written."""
    annotation, _ = without_none(annotation)
    simple = _SIMPLE.get(annotation) if isinstance(annotation, type) else None
    if simple is not None:
        return simple
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
            fields.append(_field(field.name, hints[field.name]))
        except SchemaError as error:
            what = f"field {field.name!r} of {record.__name__}: {error.what}"
            raise SchemaError(what, hint=error.hint) from error
    return pa.schema(fields)


def _field(name: str, annotation: Any) -> pa.Field:
    return pa.field(name, arrow_type(annotation), nullable=without_none(annotation)[1])


def _shown(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


_IMMUTABLE = (int, float, str, bytes, bool, type(None), datetime, date, time, timedelta, Decimal)


def is_immutable(annotation: Any) -> bool:
    """Whether a value of the type can change only by being replaced."""
    if annotation in _IMMUTABLE:
        return True
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType, tuple, frozenset):
        return bool(args) and all(arg is ... or is_immutable(arg) for arg in args)
    if origin is typing.Literal:
        return True
    if not isinstance(annotation, type):
        return False
    if issubclass(annotation, enum.Enum):
        return True
    named = issubclass(annotation, tuple) and hasattr(annotation, "_fields")
    if named or (dataclasses.is_dataclass(annotation) and annotation.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        hints = typing.get_type_hints(annotation).values()
        return all(hint is not annotation and is_immutable(hint) for hint in hints)
    return False


# --- batches to records ---------------------------------------------------------------------------


class Row:
    """What the types of named rows have in common: columns as attributes, or by name in brackets.

    The second way is for columns whose names are no identifiers.
    """

    __slots__ = ()
    columns_: ClassVar[tuple[str, ...]]
    """The columns' own names, in the order of the values."""


def row_type(schema: pa.Schema) -> type[Any]:
    """The type of the light named rows of a stream whose records have no dataclass."""
    return _row_type(tuple(visible(schema).names))


@lru_cache(maxsize=256)
def _row_type(names: tuple[str, ...]) -> type[Any]:
    fit = [n.isidentifier() and not keyword.iskeyword(n) and n[0] != "_" for n in names]
    shown = [n if ok else f"_{i}" for i, (n, ok) in enumerate(zip(names, fit, strict=True))]
    values: Any = namedtuple("Row", shown, rename=True)  # type: ignore[misc]
    places = {name: i for i, name in enumerate(names)}
    plain = tuple.__getitem__

    def item(self: Any, at: Any) -> Any:
        return plain(self, places[at]) if isinstance(at, str) else plain(self, at)

    def reduce(self: Any) -> tuple[Any, ...]:
        return _restored_row, (names, tuple(self))

    body = {"__slots__": (), "columns_": names, "__getitem__": item, "__reduce__": reduce}
    return type("Row", (values, Row), body)


def _restored_row(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return _row_type(names)._make(values)


def rows_of(batch: Batch, record: type | None) -> list[Any]:
    """The batch's rows, hidden columns left out: instances of the dataclass, or light named rows.

    Raises SchemaError where the dataclass has a field that the batch has not.
    """
    if record is None:
        shown = strip_hidden(batch)
        make = row_type(shown.schema)
        if not shown.num_columns:
            return [make()] * shown.num_rows
        return list(map(make._make, zip(*map(columns_to_python, shown.columns), strict=True)))
    readers = field_readers(record)
    if not readers:
        return [record() for _ in range(batch.num_rows)]
    try:
        columns = [read(batch.column(name)) for name, read in readers.items()]
    except KeyError as error:
        raise SchemaError(
            f"{record.__name__} has a field that the stream has not: {error}",
            hint=f"the columns are {', '.join(visible(batch.schema).names)}",
        ) from None
    return list(map(maker_of(record), *columns))


# --- records to batches ---------------------------------------------------------------------------


class RecordWriter:
    """Makes batches of the visible columns of `schema` from records, in two steps.

    `take` gives the values of one record; a record may be changed after it, without effect. `batch`
    makes a batch of what was taken. Records are instances of `record`; or, where it is None, named
    rows, dicts, plain tuples in the order of the columns, or objects with the columns as attributes.
    """

    take: Callable[[Any], Any]
    """Raises AttributeError, KeyError or TypeError where the record is of another kind: `mismatch`
    makes a TypeMismatch of it."""

    keeps: bool
    """Records cannot change: they may wait as they are for `batch_of`, without `take`."""

    def __init__(self, schema: pa.Schema, record: type | None = None) -> None:
        self.keeps = record is not None and is_immutable(record)
        self._fields = list(visible(schema))
        self._schema = pa.schema(self._fields)
        self._names = [field.name for field in self._fields]
        self._record = record
        self._getters: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
        # What is taken begins with the record's class, which is checked for all records at once.
        take = self._take_any if record is None else _several(attrgetter, "__class__", *self._names)
        mutable = {
            place: copy.deepcopy if _is_deep(field.type) else copy.copy
            for place, field in enumerate(self._fields, 1)
            if pa.types.is_nested(field.type)
        }
        self.take = _copying(take, mutable) if mutable else take

    def batch(self, taken: Sequence[Any]) -> Batch:
        """Raises TypeMismatch."""
        if not taken:
            return pa.RecordBatch.from_pylist([], self._schema)
        classes, *columns = zip(*taken, strict=True)
        record = self._record
        if record is not None and set(classes) != {record}:
            for index, cls in enumerate(classes):
                if not issubclass(cls, record):
                    given = dict(zip(self._names, taken[index][1:], strict=True))
                    raise TypeMismatch(index, None, record.__name__, given, cls.__name__)
        return self._made(columns)

    def batch_of(self, records: Sequence[Any]) -> Batch:
        """Both steps at once. Raises TypeMismatch."""
        if self._record is not None and self._names and set(map(type, records)) == {self._record}:
            try:
                columns = [list(map(attrgetter(name), records)) for name in self._names]
            except AttributeError:
                pass
            else:
                return self._made(columns)
        taken = []
        for index, record in enumerate(records):
            try:
                taken.append(self.take(record))
            except (AttributeError, KeyError, TypeError):
                raise self.mismatch(index, record) from None
        return self.batch(taken)

    def mismatch(self, index: int, record: Any) -> TypeMismatch:
        """What is wrong with a record that `take` refused."""
        if self._record is not None:
            return TypeMismatch(index, None, self._record.__name__, record)
        names = ", ".join(self._names)
        return TypeMismatch(index, None, f"a record with {names}", record)

    def _made(self, columns: Sequence[Sequence[Any]]) -> Batch:
        arrays = [column_of(values, f) for values, f in zip(columns, self._fields, strict=False)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _take_any(self, record: Any) -> tuple[Any, ...]:
        cls = record.__class__
        getter = self._getters.get(cls)
        if getter is None:
            getter = self._getters[cls] = self._getter(cls)
        return (cls, *getter(record))

    def _getter(self, cls: type) -> Callable[[Any], tuple[Any, ...]]:
        names = self._names
        if not names:
            return lambda record: ()
        if issubclass(cls, Row) and cls.columns_ == tuple(names):
            return tuple
        if issubclass(cls, Row | dict):
            return _several(itemgetter, *names)
        if issubclass(cls, tuple) and not hasattr(cls, "_fields"):
            return self._positional
        return _several(attrgetter, *names)

    def _positional(self, record: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(record) != len(self._names):
            raise TypeError("another number of values")
        return record


Take = Callable[[Any], tuple[Any, ...]]


def _several(getter: Callable[..., Callable[[Any], Any]], *names: str) -> Take:
    """`attrgetter` or `itemgetter`, which give a bare value for a single name."""
    get = getter(*names)
    return get if len(names) > 1 else lambda record: (get(record),)


def _is_deep(kind: pa.DataType) -> bool:
    """Whether a value of the nested type can hold what can itself be changed."""
    return any(pa.types.is_nested(kind.field(i).type) for i in range(kind.num_fields)) or bool(
        pa.types.is_struct(kind)
    )


def _copying(take: Take, mutable: Mapping[int, Callable[[Any], Any]]) -> Take:
    def taken(record: Any) -> tuple[Any, ...]:
        values = list(take(record))
        for place, copied in mutable.items():
            values[place] = copied(values[place])
        return tuple(values)

    return taken


@lru_cache(maxsize=256)
def writer_of(schema: pa.Schema, record: type | None) -> RecordWriter:
    """The writer for such records; made once."""
    return RecordWriter(schema, record)


def batch_of(rows: Sequence[Any], schema: pa.Schema, record: type | None = None) -> Batch:
    """A batch of the visible columns of `schema`; see RecordWriter for what the rows may be.

    Raises TypeMismatch, which names the row, the field and what was expected.
    """
    return writer_of(schema, record).batch_of(rows)
