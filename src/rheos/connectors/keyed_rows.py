"""Rows in memory that are found by their keys."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.connectors.lookup import Found
from rheos.core.errors import SchemaError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.polars_frames import arrow_column
from rheos.core.state.key_index import KeySlots
from rheos.core.state.slots import Slots

Numbers = npt.NDArray[np.int64]


class LookupRows:
    """Rows and an index of their keys."""

    def __init__(self, keys: pa.Table, rows: pa.Table) -> None:
        """Create rows from the columns of their keys, and the columns to return."""
        columns = [column.combine_chunks() for column in keys.columns]
        with_key = _rows_with_key(columns)
        self._kinds = [column.type for column in columns]
        self._index = KeySlots(len(columns))
        slots: Slots = np.empty(0, np.int32)
        if len(with_key):
            places = pa.array(with_key)
            slots = self._index.lookup_or_add([_comparable(column.take(places)) for column in columns])
        self._counts: Numbers = np.bincount(slots, minlength=len(self._index))
        self._begins: Numbers = np.cumsum(self._counts) - self._counts
        """For each slot of a key, the place of its first row."""
        self._rows = _single_batch(rows.take(pa.array(with_key[np.argsort(slots, kind="stable")])))

    def find(self, asked: Batch) -> Found:
        """Return the rows of some keys, which are compared by value."""
        columns = [_cast(*pair) for pair in zip(asked.columns, self._kinds, strict=True)]
        known: Numbers = _rows_with_key(columns) if len(self._index) else np.empty(0, np.int64)
        found = known
        if len(known):
            places = pa.array(known)
            slots = self._index.find([_comparable(column.take(places)) for column in columns])
            known, slots = known[slots >= 0], slots[slots >= 0]
            counts = self._counts[slots]
            firsts = self._begins[slots] - (np.cumsum(counts) - counts)
            known = np.repeat(known, counts)
            found = np.repeat(firsts, counts) + np.arange(len(known))
        return Found(self._rows.take(pa.array(found)), pa.array(known, pa.int32()))


def _rows_with_key(columns: Sequence[pa.Array]) -> Numbers:
    """Return the rows without a null in any column."""
    valid = reduce(pc.and_, [column.is_valid() for column in columns])
    return np.flatnonzero(valid.to_numpy(zero_copy_only=False))


def _comparable(column: pa.Array) -> pa.Array:
    """Return keys of a type that an index can compare: lists as strings."""
    is_nested = pa.types.is_nested(column.type)
    return pa.array(map(repr, column.to_pylist()), pa.string()) if is_nested else column


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the values with the type of a key. A number out of its range becomes null."""
    if column.type == kind:
        return column
    target = pl.Series(pa.array([], kind)).dtype
    return arrow_column(pl.Series(column).cast(target, strict=False)).cast(kind)


def _single_batch(table: pa.Table) -> Batch:
    columns: Sequence[pa.Array] = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def is_comparable(asked: pa.DataType, key: pa.DataType) -> bool:
    """Return whether values of two types are compared by value: integers with integers, floats with
    floats, and others with the same type."""
    return _family(asked) == _family(key)


def check_comparable_keys(
    asked: pa.Schema, keys: pa.Schema, label: str, hint: str = "cast the stream's column first"
) -> None:
    """Check that a lookup can compare the stream's columns with its keys.

    Args:
        asked: Columns of the stream, one for each key.
        keys: Keys of the lookup.
        label: What has the keys, such as "the table orders".
        hint: What to do about other types.

    Raises:
        SchemaError: Two types are not compared by value.
    """
    for column, key in zip(asked, keys, strict=True):
        if not is_comparable(column.type, key.type):
            raise SchemaError(
                f"the key {key.name!r} of {label} is {key.type}, but the stream's column is "
                f"{column.type}",
                hint=hint,
            )


def _family(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "whole number"
    return "float" if pa.types.is_floating(kind) else str(kind)
