"""Converts the values of declared state to columns of a DataFrame, and back.

The conversion uses the shape of the declared type in the savepoint; the classes are not needed.

| declared | column |
|---|---|
| bool, int, float, str, bytes | boolean, bigint, double, string, binary |
| datetime, date, timedelta | timestamp, date, day-time interval |
| Decimal, time, UUID | string, without any loss |
| an enum or Literal of strings or of ints | string or bigint |
| list, set, frozenset, tuple[X, ...] | array |
| dict | map |
| a dataclass, msgspec struct, TypedDict, NamedTuple | struct |
| tuple[X, Y] | struct of `_1`, `_2` |
| other unions, recursive types | string: JSON |
| pickled values | binary: the pickle |

Times of day and decimals are stored as strings, so the strings are the values themselves. A `datetime`
without a zone is shown as the same time in UTC. It is written without a zone from a `timestamp_ntz`
column, and in UTC from a `timestamp` column.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pyarrow as pa

from rheos.core.errors import InputError
from rheos.core.protocol.shapes import FieldShape, TypeShape

Convert = Callable[[Any], Any]

_typed_dict: Any = TypedDict
"""TypedDict without its static type: only the savepoint knows the fields."""


class ColumnForm(ABC):
    """The form of one type. `kind` is its column; `read` and `write` are its types for msgspec."""

    kind: pa.DataType
    read: Any
    """Lenient type: values of an older version of the program are read, too."""
    write: Any
    """Strict type: written values must have the declared type."""
    nullable = False

    def shown(self, value: Any) -> Any:
        """Convert a decoded value to one that pyarrow accepts. Not called for None."""
        return value

    def stored(self, value: Any) -> Any:
        """Convert a column's value to one that the codec encodes. Not called for None."""
        return value

    @abstractmethod
    def misfits(self, given: pa.DataType, path: str) -> Iterator[str]:
        """Yield the reasons why columns of another type cannot be written as this one."""


class _Plain(ColumnForm):
    def __init__(
        self,
        kind: pa.DataType,
        read: Any,
        takes: Callable[[pa.DataType], bool],
        write: Any = None,
        stored: Convert | None = None,
    ) -> None:
        self.kind, self.read, self.write = kind, read, read if write is None else write
        self._takes = takes
        if stored is not None:
            self.stored = stored  # type: ignore[method-assign,assignment]

    def misfits(self, given: pa.DataType, path: str) -> Iterator[str]:
        if not (self._takes(given) or pa.types.is_null(given)):
            yield misfit(path, self.kind, given)


def misfit(path: str, wanted: pa.DataType, given: pa.DataType) -> str:
    return f"{path} is {given}, but must be {wanted}"


class _Optional(ColumnForm):
    nullable = True

    def __init__(self, inner: ColumnForm) -> None:
        self._inner = inner
        self.kind, self.read, self.write = inner.kind, inner.read | None, inner.write | None
        self.shown, self.stored = inner.shown, inner.stored  # type: ignore[method-assign]

    def misfits(self, given: pa.DataType, path: str) -> Iterator[str]:
        return self._inner.misfits(given, path)


class _Items(ColumnForm):
    """Form of a list. It is read as a tuple if the value has to be hashed."""

    def __init__(self, item: ColumnForm, hashed: bool) -> None:
        self._item = item
        self.kind = pa.list_(pa.field("element", item.kind))
        self.read = tuple[item.read, ...] if hashed else list[item.read]  # type: ignore[name-defined]
        self.write = list[item.write]  # type: ignore[name-defined]

    def shown(self, value: Any) -> Any:
        return [None if item is None else self._item.shown(item) for item in value]

    def stored(self, value: Any) -> Any:
        return [None if item is None else self._item.stored(item) for item in value]

    def misfits(self, given: pa.DataType, path: str) -> Iterator[str]:
        if pa.types.is_list(given) or pa.types.is_large_list(given):
            yield from self._item.misfits(given.value_type, f"{path}[]")
        else:
            yield misfit(path, self.kind, given)


class _Pairs(ColumnForm):
    def __init__(self, key: ColumnForm, item: ColumnForm) -> None:
        self._key, self._item = key, item
        self.kind = pa.map_(key.kind, pa.field("value", item.kind))
        self.read = dict[key.read, item.read]  # type: ignore[name-defined]
        self.write = dict[key.write, item.write]  # type: ignore[name-defined]

    def shown(self, value: Any) -> Any:
        shown = self._item.shown
        return [
            (self._key.shown(key), None if item is None else shown(item)) for key, item in value.items()
        ]

    def stored(self, value: Any) -> Any:
        pairs = value.items() if isinstance(value, dict) else value
        return {
            _hashed(self._key.stored(key)): None if item is None else self._item.stored(item)
            for key, item in pairs
        }

    def misfits(self, given: pa.DataType, path: str) -> Iterator[str]:
        if not pa.types.is_map(given):
            yield misfit(path, self.kind, given)
            return
        yield from self._key.misfits(given.key_type, f"{path}[key]")
        yield from self._item.misfits(given.item_type, f"{path}[]")


def _hashed(key: Any) -> Any:
    return tuple(map(_hashed, key)) if isinstance(key, list) else key


class _Struct(ColumnForm):
    """Base of the forms of records: a struct with a field for each of the record's."""

    def __init__(self, fields: Sequence[tuple[str, ColumnForm, bool]]) -> None:
        self.fields = fields
        """Name, form, and whether a value must have the field."""
        self.kind = pa.struct([pa.field(name, form.kind) for name, form, _ in fields])

    def misfits(self, given: pa.DataType, path: str) -> Iterator[str]:
        if not pa.types.is_struct(given):
            yield misfit(path, self.kind, given)
            return
        there = {field.name: field.type for field in given}
        for name, form, required in self.fields:
            if name in there:
                yield from form.misfits(there.pop(name), f"{path}.{name}")
            elif required:
                yield f"{path}.{name} is missing, a {form.kind}"
        for name in there:
            yield f"{path}.{name} is not a field of it"


class _Record(_Struct):
    """A record that is stored by the names of its fields."""

    def __init__(
        self, label: str, fields: Sequence[tuple[str, ColumnForm, bool]], tag: tuple[str, Any] | None
    ) -> None:
        super().__init__(fields)
        self._tag = {} if tag is None else dict([tag])
        self.read = _typed_dict(
            label, {name: NotRequired[form.read | None] for name, form, _ in fields}
        )
        wanted = {name: f.write if needed else NotRequired[f.write] for name, f, needed in fields}
        self.write = _typed_dict(label, wanted)

    def shown(self, value: Any) -> Any:
        found = {}
        for name, form, _ in self.fields:
            inner = value.get(name)
            found[name] = None if inner is None else form.shown(inner)
        return found

    def stored(self, value: Any) -> Any:
        made = dict(self._tag)
        for name, form, required in self.fields:
            inner = value.get(name)
            if inner is not None:
                made[name] = form.stored(inner)
            elif (form.nullable and name in value) or required:
                made[name] = None
        return made


class _Array(_Struct):
    """A record that is stored as an array of its fields, of which the last may be missing."""

    read = list[Any]

    def __init__(self, fields: Sequence[tuple[str, ColumnForm, bool]], hashed: bool) -> None:
        super().__init__(fields)
        least = sum(required for _, _, required in fields)
        reads = tuple(form.read | None for _, form, _ in fields)
        self._whole = least == len(fields)
        if self._whole:
            self.read = tuple[reads]  # type: ignore[assignment,valid-type]
        elif hashed:
            self.read = tuple[Any, ...]  # type: ignore[assignment]
        self._reads = reads
        self.write = tuple[tuple(form.write for _, form, _ in fields)] if self._whole else list[Any]  # type: ignore[misc]

    def shown(self, value: Any) -> Any:
        if not self._whole:
            value = [
                msgspec.convert(inner, kind) for inner, kind in zip(value, self._reads, strict=False)
            ]
            value += [None] * (len(self.fields) - len(value))
        return tuple(
            None if inner is None else form.shown(inner)
            for inner, (_, form, _) in zip(value, self.fields, strict=False)
        )

    def stored(self, value: Any) -> Any:
        made = []
        for name, form, required in self.fields:
            inner = value.get(name)
            if inner is None and not (form.nullable or required):
                break
            made.append(None if inner is None else form.stored(inner))
        return made


class _Json(ColumnForm):
    """Form of values that no column can hold: they are shown as JSON."""

    kind = pa.string()
    read = write = msgspec.Raw
    nullable = True

    def shown(self, value: Any) -> Any:
        found = msgspec.msgpack.decode(value)
        return None if found is None else msgspec.json.encode(found).decode()

    def stored(self, value: Any) -> Any:
        try:
            return msgspec.Raw(msgspec.msgpack.encode(msgspec.json.decode(value)))
        except msgspec.DecodeError as error:
            raise InputError(f"{value!r} is not JSON: {error}") from None

    def misfits(self, given: pa.DataType, path: str) -> Iterator[str]:
        if not _text(given):
            yield misfit(path, self.kind, given)


# --- from shapes ------------------------------------------------------------------------------------


def _text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind))


def _number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) or _text(kind) or _whole(kind))


BYTES = _Plain(
    pa.binary(), bytes, lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
)

_SIMPLE: dict[str, ColumnForm] = {
    "bool": _Plain(pa.bool_(), bool, pa.types.is_boolean),
    "int": _Plain(pa.int64(), int, _whole),
    "float": _Plain(pa.float64(), float, _number, stored=float),
    "str": _Plain(pa.string(), str, _text),
    "bytes": BYTES,
    "bytearray": BYTES,
    "memoryview": BYTES,
    "datetime": _Plain(pa.timestamp("us", tz="UTC"), datetime, pa.types.is_timestamp),
    "date": _Plain(pa.date32(), date, pa.types.is_date),
    "timedelta": _Plain(pa.duration("us"), timedelta, pa.types.is_duration),
    "decimal": _Plain(pa.string(), str, _decimal, Decimal, stored=str),
    "time": _Plain(pa.string(), str, _text, time),
    "uuid": _Plain(pa.string(), str, _text, UUID),
}


def form_of(shape: TypeShape, *, hashed: bool = False) -> ColumnForm:
    """Return the form of a type. `hashed` is whether its values are keys of a dict."""
    if shape.name in _SIMPLE:
        return _SIMPLE[shape.name]
    match shape.name:
        case "list" | "tuple" | "set" | "frozenset":
            return _Items(form_of(shape.args[0], hashed=hashed), hashed)
        case "dict":
            return _Pairs(form_of(shape.args[0], hashed=True), form_of(shape.args[1]))
        case "union":
            rest = [arg for arg in shape.args if arg.name != "none"]
            if len(rest) == 1 and len(shape.args) == 2:
                inner = form_of(rest[0], hashed=hashed)
                return inner if isinstance(inner, _Json) else _Optional(inner)
        case "enum" | "literal":
            return _members(shape)
        case "fixed tuple":
            parts = [
                (f"_{i}", form_of(arg, hashed=hashed), True) for i, arg in enumerate(shape.args, 1)
            ]
            return _Array(parts, hashed) if parts else _Json()
        case "named tuple" | "array struct":
            if shape.fields and not shape.members:
                return _Array(_fields(shape.fields, hashed), hashed)
        case "dataclass" | "struct" | "typed dict":
            if shape.fields and not hashed:
                return _Record(shape.label, _fields(shape.fields, hashed), _tag(shape))
    return _Json()


def _fields(fields: Sequence[FieldShape], hashed: bool) -> list[tuple[str, ColumnForm, bool]]:
    return [(field.name, form_of(field.type, hashed=hashed), field.required) for field in fields]


def _tag(shape: TypeShape) -> tuple[str, Any] | None:
    for member in shape.members:
        if member.startswith("tag "):
            name, _, value = member.removeprefix("tag ").partition("=")
            return name, ast.literal_eval(value)
    return None


def _members(shape: TypeShape) -> ColumnForm:
    try:
        values = [ast.literal_eval(member) for member in shape.members]
    except (ValueError, SyntaxError):
        return _Json()
    there = tuple(value for value in values if value is not None)
    if all(type(value) is str for value in there) and there:
        form = _Plain(pa.string(), str, _text, Literal[there])
    elif all(type(value) is int for value in there) and there:
        form = _Plain(pa.int64(), int, _whole, Literal[there])
    else:
        return _Json()
    return form if len(there) == len(values) else _Optional(form)
