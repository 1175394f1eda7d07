"""Conversion of one state's values from bytes to a column and back: typed, pickled, or rows."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from rheos.core.errors import InputError, UnrestorableError
from rheos.core.protocol.columns import columns_to_python
from rheos.core.protocol.shapes import TypeShape
from rheos.core.protocol.types import row_type
from rheos.runtimes.state_tables.forms import BYTES, form_of, misfit
from rheos.runtimes.state_tables.pickled_rows import read_row
from rheos.runtimes.state_tables.state_layout import arrow_type


class Values:
    """The values of one state: from bytes to a column, and back. `state` is for the errors."""

    def __init__(self, state: str, shape: TypeShape) -> None:
        self._state = state
        self._form = form_of(shape)
        self.kind = self._form.kind
        self._decode_all = msgspec.msgpack.Decoder(list[self._form.read]).decode  # type: ignore[name-defined]
        self._decode = msgspec.msgpack.Decoder(self._form.read).decode
        self._check = msgspec.msgpack.Decoder(self._form.write).decode
        self._encode = msgspec.msgpack.Encoder().encode

    def misfits(self, given: pa.DataType, path: str) -> Iterator[str]:
        return self._form.misfits(given, path)

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        """Return the values as a column. Raise UnrestorableError if one cannot be decoded."""
        try:
            found = self._decode_all(array_header(len(values)) + b"".join(values))
            shown = self._form.shown
            return pa.array([None if value is None else shown(value) for value in found], self.kind)
        except (msgspec.MsgspecError, pa.ArrowException, OverflowError, TypeError, ValueError):
            for value in values:
                self._decode_one(value)
            raise

    def _decode_one(self, value: bytes) -> None:
        try:
            found = self._decode(value)
            pa.array([None if found is None else self._form.shown(found)], self.kind)
        except (msgspec.MsgspecError, pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise UnrestorableError(
                f"a stored value of state {self._state!r} cannot be shown as {self.kind}: {error}",
                record=repr(value[:200]),
                hint="its type differs from the one that the savepoint records",
            ) from error

    def encode(self, column: pa.Array, keys: Sequence[Any], name: str = "value") -> list[bytes]:
        """Return the encoded values. Raise InputError, with the key, for a value of another type."""
        encode, stored = self._encode, self._form.stored
        encoded = []
        # Maps become dicts, unless Python cannot hash their keys.
        values = column.to_pylist() if _nested_keys(self.kind) else columns_to_python(column)
        for value, key in zip(values, keys, strict=True):
            try:
                data = encode(None if value is None else stored(value))
                self._check(data)
            except (msgspec.MsgspecError, InputError, TypeError, ValueError, OverflowError) as error:
                what = error.what if isinstance(error, InputError) else str(error)
                raise InputError(
                    f"column {name!r} has a value that state {self._state!r} cannot hold: {what}",
                    key=repr(key),
                    record=repr(value),
                    hint="correct it, or drop the row",
                ) from error
            encoded.append(data)
        return encoded


def _nested_keys(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind) and pa.types.is_nested(kind.key_type):
        return True
    return any(_nested_keys(kind.field(at).type) for at in range(kind.num_fields))


class Pickles:
    """Values without a declared type: their pickles, unchanged."""

    kind = pa.binary()

    def misfits(self, given: pa.DataType, path: str) -> Iterator[str]:
        return BYTES.misfits(given, path)

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        return pa.array(values, self.kind)

    def encode(self, column: pa.Array, keys: Sequence[Any], name: str = "value") -> list[bytes]:
        values: list[bytes] = column.to_pylist()
        for value, key in zip(values, keys, strict=True):
            if value is None:
                raise InputError(f"column {name!r} is null", key=repr(key), hint="it must be a pickle")
        return values


class PickledRows:
    """Rows of a stream whose records have no class, as combined by `reduce`."""

    def __init__(self, state: str, shape: TypeShape, trusted: bool) -> None:
        self._state = state
        self._trusted = trusted
        fields = [pa.field(field.name, arrow_type(field.type.name)) for field in shape.fields]
        self._names = [field.name for field in fields]
        self.kind = pa.struct(fields)
        self._row: Any = row_type(pa.schema(fields))

    def misfits(self, given: pa.DataType, path: str) -> Iterator[str]:
        if not pa.types.is_struct(given) or {field.name for field in given} != set(self._names):
            yield misfit(path, self.kind, given)

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        rows = [read_row(value, self._state, trusted=self._trusted) for value in values]
        try:
            return pa.array(
                [dict(zip(row.columns_, tuple(row), strict=True)) for row in rows], self.kind
            )
        except (pa.ArrowException, OverflowError, TypeError, ValueError, AttributeError) as error:
            raise UnrestorableError(
                f"a stored row of state {self._state!r} cannot be shown as {self.kind}: {error}"
            ) from error

    def encode(self, column: pa.Array, keys: Sequence[Any], name: str = "value") -> list[bytes]:
        parts = [
            columns_to_python(column.field(part).cast(self.kind.field(part).type))
            for part in self._names
        ]
        return [pickle.dumps(self._row._make(row)) for row in zip(*parts, strict=True)]


def values_of(state: str, shape: TypeShape, *, trusted: bool = False) -> Values | Pickles | PickledRows:
    """Return the conversion of a state's values. `trusted` is whether pickled rows may run code."""
    if shape.name == "pickle":
        return Pickles()
    return PickledRows(state, shape, trusted) if shape.name == "row" else Values(state, shape)


def array_header(length: int) -> bytes:
    """Return the shortest MessagePack header of an array of this length."""
    if length < 16:
        return bytes([0x90 | length])
    return struct.pack(">BH", 0xDC, length) if length < 1 << 16 else struct.pack(">BI", 0xDD, length)
