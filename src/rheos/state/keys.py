"""Keys as Python objects: out of a batch, into a snapshot's bytes, and back.

A key is a value, or a tuple where the stream is keyed by several columns. It is normalised as the
hash is: -0.0 is 0.0, and there is one NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.protocol.elements import Batch
from rheos.protocol.types import columns_to_python
from rheos.state.key_groups import NullKeyError, groups_of_columns

_NAN = float("nan")


class KeyCodec:
    """The keys of one keyed stream. `schema` holds the key columns."""

    def __init__(self, schema: pa.Schema, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._types = [_storage(schema.field(name).type) for name in names]
        kinds = tuple(_python_type(kind) for kind in self._types)
        self._single = len(kinds) == 1
        expected: Any = kinds[0] if self._single else tuple[kinds]  # type: ignore[valid-type]
        self._decoder = msgspec.msgpack.Decoder(expected)
        self.encode = msgspec.msgpack.Encoder().encode

    def of(self, batch: Batch) -> list[Any]:
        """The key of each row. Raises NullKeyError."""
        columns = [self._column(i, batch.column(name)) for i, name in enumerate(self._names)]
        return columns[0] if self._single else list(zip(*columns, strict=True))

    def _column(self, position: int, column: pa.Array) -> list[Any]:
        if column.null_count:
            row = column.is_null().index(True).as_py()
            raise NullKeyError(position, row)
        if column.type != self._types[position]:
            column = column.cast(self._types[position])
        values = columns_to_python(column)
        if pa.types.is_floating(column.type):
            return [value + 0.0 if value == value else _NAN for value in values]
        return values

    def decode(self, data: bytes) -> Any:
        key = self._decoder.decode(data)
        return _NAN if key != key else key

    def groups(self, keys: Sequence[Any], max_parallelism: int) -> npt.NDArray[np.uint16]:
        """The key group of each key, as the exchange finds it."""
        columns: Iterable[Sequence[Any]] = [keys] if self._single else zip(*keys, strict=True)
        arrays = [
            pa.array(list(column), kind) for column, kind in zip(columns, self._types, strict=False)
        ]
        if not keys:
            return np.empty(0, np.uint16)
        return groups_of_columns(arrays, max_parallelism)


def _storage(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _storage(kind.value_type)
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    return kind


def _python_type(kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        return bool
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_timestamp(kind):
        return datetime
    if pa.types.is_date(kind):
        return date
    if pa.types.is_duration(kind):
        return timedelta
    if pa.types.is_decimal(kind):
        return Decimal
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return bytes
    return str
