"""Keys as Python objects: read from a batch, encoded for a snapshot, and decoded.

A key is a value, or a tuple if the stream is keyed by several columns. It is normalised as for its
hash: -0.0 becomes 0.0, and all NaN become one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.errors import InputError, SchemaError, Site
from rheos.core.protocol.columns import Unreadable, columns_to_python
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.hashing import NullKeyError, plain
from rheos.core.protocol.shown_rows import shown_value
from rheos.core.protocol.time_bounds import first_row
from rheos.core.state.key_groups import groups_of_columns, is_key_type, refuse_null_keys

Key: TypeAlias = Any

_NAN = float("nan")


class KeyCodec:
    """The keys of one keyed stream. `schema` holds the key columns; `keyed_at` is the line of its
    `key_by`. Raises SchemaError."""

    def __init__(
        self,
        schema: pa.Schema,
        names: Sequence[str],
        keyed_at: Site | None = None,
        *,
        routed_by: int | None = None,
    ) -> None:
        """Create the codec. The first `routed_by` columns determine the key group; None means that all
        do."""
        self._names = tuple(names)
        self._routed_by = len(self._names) if routed_by is None else routed_by
        self._keyed_at = keyed_at
        self._types = [_storage(name, schema.field(name).type) for name in names]
        kinds = tuple(_python_type(kind) for kind in self._types)
        self._single = len(kinds) == 1
        expected: Any = kinds[0] if self._single else tuple[kinds]  # type: ignore[valid-type]
        self._floats = [i for i, kind in enumerate(kinds) if kind is float]
        self._decoder = msgspec.msgpack.Decoder(expected)
        self.encode = msgspec.msgpack.Encoder().encode

    def of(self, batch: Batch) -> list[Key]:
        """Return the key of each row. Raise InputError, with column and record, if a key is null."""
        try:
            columns = [plain(batch.column(name), position) for position, name in enumerate(self._names)]
        except NullKeyError as error:
            raise error.located_in(batch, self._names, self._keyed_at) from None
        return self.listed(columns)

    @property
    def types(self) -> list[pa.DataType]:
        """Return the types of the key columns, as `columns` returns them."""
        return self._types

    def columns(self, keys: Sequence[Key]) -> list[pa.Array]:
        """Return the key columns of these keys."""
        columns: Iterable[Sequence[Any]] = [keys] if self._single else zip(*keys, strict=True)
        return [pa.array(column, kind) for column, kind in zip(columns, self._types, strict=True)]

    def listed(self, columns: Sequence[pa.Array]) -> list[Key]:
        """Return the keys from key columns, which hold no nulls."""
        parts = [self._column(position, column) for position, column in enumerate(columns)]
        return parts[0] if self._single else list(zip(*parts, strict=True))

    def refuse_nulls(self, batch: Batch) -> None:
        """Raise InputError if a key is null; see `of`."""
        refuse_null_keys(batch, self._names, self._keyed_at)

    def _column(self, position: int, column: pa.Array) -> list[Any]:
        values = self._python(position, column)
        if position in self._floats:
            return [value + 0.0 if value == value else _NAN for value in values]
        return values

    def _python(self, position: int, column: pa.Array) -> list[Any]:
        try:
            return columns_to_python(column)
        except Unreadable as error:
            row = first_row(column, lambda part: not _is_readable(part))
            raise InputError(
                f"the key column {self._names[position]!r} holds {shown_value(column, row)}, which "
                f"cannot be a key: {error}",
                site=self._keyed_at,
                hint=error.hint,
            ) from None

    def decode_all(self, data: Sequence[bytes]) -> list[Key]:
        """Return the key of each of the bytes, as `decode` does."""
        return [*map(self.decode if self._floats else self._decoder.decode, data)]

    def decode(self, data: bytes) -> Key:
        key = self._decoder.decode(data)
        if not self._floats:
            return key
        if self._single:
            return key if key == key else _NAN
        return tuple(part if part == part else _NAN for part in key)

    def groups(self, keys: Sequence[Key], max_parallelism: int) -> npt.NDArray[np.uint16]:
        """Return the key group of each key, as the exchange computes it."""
        if not keys:
            return np.empty(0, np.uint16)
        columns = self.columns(keys)[: self._routed_by]
        return groups_of_columns(columns, max_parallelism)


WINDOW_COLUMNS = ("window_start", "window_end")
"""Last key columns of state that is kept by key and window, in ms since the epoch."""


def windowed_codec(schema: pa.Schema, names: Sequence[str]) -> KeyCodec:
    """Return the codec of keys that are followed by a window. They are in the key groups of the keys.
    Raise SchemaError if a key cannot be stored."""
    taken = set(names) & set(WINDOW_COLUMNS)
    if taken:
        raise SchemaError(
            f"a key column is named {min(taken)!r}, which is reserved for the bounds of windows",
            hint="rename the column before key_by()",
        )
    bounds = [pa.field(name, pa.int64()) for name in WINDOW_COLUMNS]
    fields = [*(schema.field(name) for name in names), *bounds]
    return KeyCodec(pa.schema(fields), [*names, *WINDOW_COLUMNS], routed_by=len(names))


def _is_readable(column: pa.Array) -> bool:
    try:
        columns_to_python(column)
    except Unreadable:
        return False
    return True


def _storage(name: str, kind: pa.DataType) -> pa.DataType:
    """Return the type by which stored keys are hashed, with the same hash as the column's type."""
    if isinstance(kind, pa.BaseExtensionType):
        return _storage(name, kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _storage(name, kind.value_type)
    if not is_key_type(kind):
        raise SchemaError(f"column {name!r} is {kind}, which cannot be a key")
    if getattr(kind, "unit", None) == "ns":
        raise SchemaError(
            f"column {name!r} is {kind}, but Python cannot distinguish keys in nanoseconds",
            hint=f'cast it to microseconds: .with_columns(col({name!r}).dt.cast_time_unit("us"))',
        )
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(kind) else kind


def _python_type(kind: pa.DataType) -> Any:
    t = pa.types
    for holds, python in (
        (t.is_boolean, bool),
        (t.is_integer, int),
        (t.is_floating, float),
        (t.is_timestamp, datetime),
        (t.is_date, date),
        (t.is_time, time),
        (t.is_duration, timedelta),
        (t.is_decimal, Decimal),
        (_is_bytes, bytes),
    ):
        if holds(kind):
            return python
    return str


def _is_bytes(kind: pa.DataType) -> bool:
    t = pa.types
    return any(
        holds(kind)
        for holds in (t.is_binary, t.is_large_binary, t.is_binary_view, t.is_fixed_size_binary)
    )
