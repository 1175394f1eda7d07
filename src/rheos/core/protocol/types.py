"""Maps Python types to Arrow types, and records to batches and back.

| annotation | Arrow |
|---|---|
| bool, int, float, str, bytes | bool, int64, float64, string, binary |
| datetime, date, timedelta | timestamp[us, UTC], date32, duration[us] |
| Decimal | decimal128(38, 18) |
| Annotated[Decimal, rh.decimal(18, 2)] | decimal128(18, 2) |
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, ClassVar

import pyarrow as pa

from rheos.core.errors import InputError, RheosError, SchemaError, UserFunctionError
from rheos.core.protocol.annotations import DECIMAL, declared_decimal, hints_of
from rheos.core.protocol.annotations import without_none as without_none
from rheos.core.protocol.columns import Reader, Unreadable, column_of, field_readers
from rheos.core.protocol.columns import TypeMismatch as TypeMismatch
from rheos.core.protocol.columns import columns_to_python as columns_to_python
from rheos.core.protocol.elements import Batch, strip_hidden, visible
from rheos.core.protocol.record_makers import attribute_lists, maker_of
from rheos.core.protocol.shown_rows import shown_record, shown_value
from rheos.core.protocol.time_bounds import first_row
from rheos.core.safe_strings import named_error

_SIMPLE: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime: pa.timestamp("us", tz="UTC"),
    date: pa.date32(),
    timedelta: pa.duration("us"),
    Decimal: DECIMAL,
}

_HINT = (
    "use bool, int, float, str, bytes, datetime, date, timedelta, Decimal, list[...], dict[..., ...], "
    "a dataclass, or any of these with `| None`"
)


# --- types ----------------------------------------------------------------------------------------


def arrow_type(annotation: Any) -> pa.DataType:
    """Return the Arrow type of an annotation. Raise SchemaError, which lists the supported types."""
    declared = declared_decimal(annotation)
    if declared is not None:
        return declared
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
    raise SchemaError(f"{_annotation_text(annotation)} has no column type", hint=_HINT)


@lru_cache(maxsize=256)
def schema_of(record: type) -> pa.Schema:
    """Return the columns of a dataclass, in its order. Raise SchemaError if a type is not supported."""
    if not dataclasses.is_dataclass(record):
        raise SchemaError(
            f"{_annotation_text(record)} is not a dataclass",
            hint="decorate it with @dataclass, or pass a pyarrow.Schema or a dict",
        )
    try:
        hints = hints_of(record)
    except Exception as error:
        raise SchemaError(
            f"an annotation of a field of {record.__name__} cannot be resolved: {named_error(error)}",
            hint=f"import the name in the module that defines {record.__name__}, at run time and not "
            "only under TYPE_CHECKING; define the class at module level, not within a function",
        ) from None
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


def _annotation_text(annotation: Any) -> str:
    if isinstance(annotation, str):
        return f"the string {annotation!r}"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


_IMMUTABLE = (int, float, str, bytes, bool, type(None), datetime, date, time, timedelta, Decimal)


def is_immutable(annotation: Any) -> bool:
    """Return whether a value of the type can change only by being replaced."""
    if typing.get_origin(annotation) is typing.Annotated:
        return is_immutable(typing.get_args(annotation)[0])
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
    """Base class of named rows. Columns are attributes, and are also available by name in brackets.

    Brackets are for columns whose names are not identifiers.
    """

    __slots__ = ()
    columns_: ClassVar[tuple[str, ...]]
    """Original names of the columns, in the order of the values."""


def row_type(schema: pa.Schema) -> type[Any]:
    """Return the class of lightweight named rows for a stream whose records have no dataclass."""
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


# State contains pickles of rows under this name (`core.moved_names`), and must continue to do so.
_restored_row.__module__ = "rheos.protocol.types"


def rows_of(batch: Batch, record: type | None) -> list[Any]:
    """Return the batch's rows without hidden columns, as instances of the dataclass or as named rows.

    Raise SchemaError if the batch lacks a field of the dataclass. Raise InputError, with column and
    record, for a value that no Python object can represent. Raise UserFunctionError, with the record,
    if the dataclass refuses its values.
    """
    if record is None:
        shown = strip_hidden(batch)
        make = row_type(shown.schema)
        if not shown.num_columns:
            return [make()] * shown.num_rows
        return list(map(make._make, zip(*map(_columns_reader(shown), shown.schema.names), strict=True)))
    columns = _columns_of(batch, record)
    if not columns:
        return [record() for _ in range(batch.num_rows)]
    try:
        return list(map(maker_of(record), *columns))
    except Exception as error:
        raise _refused_by_record(batch, record, columns, error) from error


class RowsOfBatch:
    """The rows of a batch, as `rows_of` returns them. An iteration creates each of them when it is due,
    so that rows which nobody keeps are released at once.

    If the dataclass refuses values, the iteration raises the error of the dataclass, and an access by
    position the one of `rows_of`.
    """

    def __init__(self, batch: Batch, record: type | None) -> None:
        self._batch = batch
        self._record = record

    def __len__(self) -> int:
        rows: int = self._batch.num_rows
        return rows

    def __iter__(self) -> Iterator[Any]:
        columns = None if self._record is None else _columns_of(self._batch, self._record)
        if not columns or self._record is None:
            return iter(rows_of(self._batch, self._record))
        return map(maker_of(self._record), *columns)

    def __getitem__(self, at: int) -> Any:
        """Return a new object for a row."""
        return rows_of(self._batch.slice(at, 1), self._record)[0]


def _columns_of(batch: Batch, record: type) -> list[list[Any]]:
    """Return the values of the fields of a dataclass. Raise SchemaError or InputError."""
    try:
        return [read_column(batch, name, read) for name, read in field_readers(record).items()]
    except KeyError as error:
        raise SchemaError(
            f"{record.__name__} has a field that the stream does not have: {error}",
            hint=f"the columns are {', '.join(visible(batch.schema).names)}",
        ) from None


def _columns_reader(batch: Batch) -> Callable[[str], list[Any]]:
    return lambda name: read_column(batch, name)


def read_column(batch: Batch, name: str, read: Reader = columns_to_python) -> list[Any]:
    """Return a column's values as Python objects. Raise InputError, with column and record, for a value
    that no Python object can represent."""
    column = batch.column(name)
    try:
        return read(column)
    except RheosError:
        raise
    except Exception as error:
        raise _unreadable(batch, name, column, read, error) from error


def _unreadable(
    batch: Batch, name: str, column: pa.Array, read: Reader, error: Exception
) -> InputError | UserFunctionError:
    def fails(part: pa.Array) -> bool:
        try:
            read(part)
        except Exception:
            return True
        return False

    row = first_row(column, fails)
    place = f"column {name!r} holds {shown_value(column, row)}"
    record = shown_record(batch, row)
    if isinstance(error, Unreadable):
        what = f"{place}, which cannot be passed to a function: {error}"
        return InputError(what, record=record, hint=error.hint)
    # A nested dataclass of the user may check its fields.
    what = f"{place}, which cannot be converted to a record: {type(error).__name__}: {error}"
    return UserFunctionError(what, record=record, hint=_RECORD_HINT)


_RECORD_HINT = "correct the dataclass, or filter out such rows first with an expression"


def _refused_by_record(
    batch: Batch, record: type, columns: list[list[Any]], error: Exception
) -> UserFunctionError:
    def fails(values: tuple[Any, ...]) -> bool:
        try:
            maker_of(record)(*values)
        except Exception:
            return True
        return False

    row = next((at for at, values in enumerate(zip(*columns, strict=True)) if fails(values)), 0)
    return UserFunctionError(
        f"{record.__name__} cannot be created from a row: {type(error).__name__}: {error}",
        record=shown_record(batch, row),
        hint=_RECORD_HINT,
    )


# --- records to batches ---------------------------------------------------------------------------


Values = Callable[[Any], tuple[Any, ...]]


class RecordCollector:
    """Collects records, one by one, into the visible columns of `schema`.

    A later change of an added record has no effect. Records are instances of `record`. If `record` is
    None, they are named rows, dicts, plain tuples in the order of the columns, or objects with the
    columns as attributes.
    """

    add: Callable[[Any], None]
    """Add a record. Raise AttributeError, KeyError or TypeError for a record of another kind. After an
    error, no more records may be added, and `mismatch` returns the reason."""

    def __init__(self, schema: pa.Schema, record: type | None = None) -> None:
        self._fields, self._names = _layout(schema)
        self._record = record
        self._columns: list[list[Any]] = [[] for _ in self._fields]
        self._getters: dict[type, Values] = {}
        copies = {
            place: copy.deepcopy if _is_deep(field.type) else copy.copy
            for place, field in enumerate(self._fields)
            if pa.types.is_nested(field.type)
        }
        if record is None or not all(map(str.isidentifier, self._names)):
            self.add = self._adder_of_any(copies)
        else:
            self.add = self._adder_of(record, copies)

    def __len__(self) -> int:
        return len(self._columns[0]) if self._columns else 0

    def batch(self, start: int = 0, stop: int | None = None) -> Batch:
        """Return the records from `start` to `stop`. A TypeMismatch's index counts from `start`."""
        columns = self._columns
        if start or (stop is not None and stop < len(self)):
            columns = [column[start:stop] for column in columns]
        return _make_batch(columns, self._fields)

    def clear(self) -> None:
        for column in self._columns:
            column.clear()

    def values(self, record: Any) -> tuple[Any, ...]:
        """Return the values of a record of any supported kind. Raise the same errors as `add`."""
        cls = record.__class__
        getter = self._getters.get(cls)
        if getter is None:
            getter = self._getters[cls] = self._getter(cls)
        return getter(record)

    def mismatch(self, index: int, record: Any) -> TypeMismatch:
        """Return the reason why `add` refused a record."""
        if self._record is not None:
            return TypeMismatch(index, None, self._record.__name__, record)
        names = ", ".join(self._names)
        return TypeMismatch(index, None, f"a record with {names}", record)

    def _adder_of(
        self, record: type, copies: Mapping[int, Callable[[Any], Any]]
    ) -> Callable[[Any], None]:
        # Generated code without a loop is several times as fast as a loop over the columns.
        lines = ["def add(record):", "    if record.__class__ is not cls: check(record)"]
        scope: dict[str, Any] = {"cls": record, "check": self._check_class}
        for place, name in enumerate(self._names):
            scope[f"append_{place}"] = self._columns[place].append
            value = f"record.{name}"
            if place in copies:
                scope[f"copy_{place}"] = copies[place]
                value = f"copy_{place}({value})"
            lines.append(f"    append_{place}({value})")
        names = ", ".join(scope)
        body = "".join(f"    {line}\n" for line in lines)
        made: dict[str, Any] = {}
        source = f"def make({names}):\n{body}    return add\n"
        exec(compile(source, __file__, "exec"), made)
        add: Callable[[Any], None] = made["make"](**scope)
        return add

    def _check_class(self, record: Any) -> None:
        assert self._record is not None
        if not isinstance(record, self._record):
            raise TypeError(f"not a {self._record.__name__}")

    def _adder_of_any(self, copies: Mapping[int, Callable[[Any], Any]]) -> Callable[[Any], None]:
        columns = self._columns

        def add(record: Any) -> None:
            for place, (column, value) in enumerate(zip(columns, self.values(record), strict=True)):
                column.append(copies[place](value) if place in copies else value)

        return add

    def _getter(self, cls: type) -> Values:
        names = self._names
        if not names:
            return lambda record: ()
        if issubclass(cls, Row) and cls.columns_ == names:
            return tuple
        if issubclass(cls, Row | dict):
            return _several(itemgetter, *names)
        if issubclass(cls, tuple) and not hasattr(cls, "_fields"):
            return self._positional
        return _several(attrgetter, *names)

    def _positional(self, record: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(record) != len(self._names):
            raise TypeError("the number of values differs")
        return record


def batch_of(rows: Sequence[Any], schema: pa.Schema, record: type | None = None) -> Batch:
    """Return a batch of the visible columns of `schema`. `RecordCollector` describes which rows are
    allowed.

    Raise TypeMismatch, which names the row, the field and the expected type.
    """
    fields, names = _layout(schema)
    kinds = set(map(type, rows))
    if record is None and names and kinds == {_row_type(names)}:
        return _make_batch(list(zip(*rows, strict=True)), fields)
    if record is not None and kinds == {record}:
        try:
            return _make_batch(attribute_lists(names)(rows), fields)
        except AttributeError:
            pass
    collector = RecordCollector(schema, record)
    for index, row in enumerate(rows):
        try:
            collector.add(row)
        except (AttributeError, KeyError, TypeError):
            raise collector.mismatch(index, row) from None
    return collector.batch()


@lru_cache(maxsize=256)
def _layout(schema: pa.Schema) -> tuple[tuple[pa.Field, ...], tuple[str, ...]]:
    fields = tuple(visible(schema))
    return fields, tuple(field.name for field in fields)


def _make_batch(columns: Sequence[Sequence[Any]], fields: Sequence[pa.Field]) -> Batch:
    arrays = [column_of(values, field) for values, field in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _several(getter: Callable[..., Callable[[Any], Any]], *names: str) -> Values:
    """Return a getter of several values by `attrgetter` or `itemgetter`, also for a single name."""
    get = getter(*names)
    return get if len(names) > 1 else lambda record: (get(record),)


def _is_deep(kind: pa.DataType) -> bool:
    """Return whether a value of the nested type can contain mutable values."""
    return any(pa.types.is_nested(kind.field(i).type) for i in range(kind.num_fields)) or bool(
        pa.types.is_struct(kind)
    )
