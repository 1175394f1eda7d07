"""Inspection of single JSON objects: fields as they are written, and the number of values in them."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from rheos.core.formats.contract import MAX_VALUES
from rheos.core.formats.payloads import JoinedPayloads
from rheos.formats.bad_rows import RowsError
from rheos.formats.decimal_text import unfit_decimal, unscalable

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class RawFields:
    """Fields of the schema in an object, each as it is written. For other fields, only the end is
    searched."""

    def __init__(self, schema: pa.Schema) -> None:
        self.has_decimals = any(map(_has_decimals, schema.types))
        self._columns = list(schema)
        self._decoder = msgspec.json.Decoder(_struct(self._columns))

    def alone(self, payload: pa.Buffer) -> pa.Buffer:
        """Return an object with only these fields. Raises RowsError if the payload is not an object."""
        return pa.py_buffer(msgspec.json.encode(self._fields(payload)) + b"\n")

    def unfit_decimal(self, payload: bytes) -> str | None:
        """Return the error for a decimal that its column cannot hold; None if all fit."""
        try:
            fields = self._fields(payload)
        except RowsError:
            return None  # The decoder reports missing fields, and payloads that are not objects.
        for i, column in enumerate(self._columns):
            if (what := _unfit(getattr(fields, f"f{i}"), column.type)) is not None:
                return f"column {column.name!r} must be {column.type}, but {what}"
        return None

    def _fields(self, payload: bytes | pa.Buffer) -> Any:
        try:
            return self._decoder.decode(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise RowsError(str(error)) from None


def _struct(fields: list[pa.Field]) -> Any:
    made = [
        (f"f{i}", _raw(field.type) | msgspec.UnsetType, msgspec.UNSET) for i, field in enumerate(fields)
    ]
    names = {f"f{i}": field.name for i, field in enumerate(fields)}
    return msgspec.defstruct("Raw", made, rename=names, omit_defaults=True, gc=False)


def _raw(type_: pa.DataType) -> Any:
    if pa.types.is_struct(type_):
        return _struct(list(type_)) | None
    if pa.types.is_list(type_):
        return list[_raw(type_.value_type)] | None  # type: ignore[misc]
    return msgspec.Raw


def _has_decimals(type_: pa.DataType) -> bool:
    inner = [type_.field(i).type for i in range(type_.num_fields)]
    return pa.types.is_decimal(type_) or any(map(_has_decimals, inner))


def _unfit(value: Any, type_: pa.DataType) -> str | None:
    """Return the error for a decimal within the value that the column cannot hold; None if all fit."""
    if value is None or value is msgspec.UNSET:
        return None
    if pa.types.is_struct(type_):
        inner = (_unfit(getattr(value, f"f{i}"), field.type) for i, field in enumerate(type_))
    elif pa.types.is_list(type_):
        inner = (_unfit(each, type_.value_type) for each in value)
    elif pa.types.is_decimal(type_):
        text = bytes(value).decode(errors="replace").strip('" ')
        what = unfit_decimal(text, type_) or unscalable(text, type_)
        return None if what is None else f"{text[:40]} {what}"
    else:
        return None
    return next((what for what in inner if what is not None), None)


class ObjectBounds:
    """Limit for the number of values in an object. An element of a list becomes a value of each column
    of its type, however few bytes it has. So values of long objects are counted before they are
    decoded."""

    def __init__(self, schema: pa.Schema) -> None:
        self._width = max(map(_widest_element, schema.types), default=0)
        self._uncounted_bytes = 2 * MAX_VALUES // max(self._width, 1)

    def unfit(self, payloads: JoinedPayloads) -> dict[int, str]:
        """Return the indexes of objects with too many values, with the error."""
        if not self._width:
            return {}
        long = np.flatnonzero(np.diff(payloads.starts) > self._uncounted_bytes)
        what = f"it contains more than {MAX_VALUES} values: split it into several objects"
        return {at: what for at in long.tolist() if self._count(payloads[at]) > MAX_VALUES}

    def _count(self, payload: bytes) -> int:
        bare = _STRINGS.sub(b"", payload)
        return bare.count(b"{") * self._width + bare.count(b"[") + bare.count(b",")


def _widest_element(type_: pa.DataType) -> int:
    """Return the maximum number of values per element of a list in the type; 0 without a list."""
    inner = max((_widest_element(type_.field(i).type) for i in range(type_.num_fields)), default=0)
    return max(inner, _width(type_.value_type)) if pa.types.is_list(type_) else inner


def _width(type_: pa.DataType) -> int:
    return 1 + sum(_width(field.type) for field in type_) if pa.types.is_struct(type_) else 1
