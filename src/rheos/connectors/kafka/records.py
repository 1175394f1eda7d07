"""Conversion of rows to records of a topic: value, key, headers, partition and timestamp, in columns.

Columns of encoded records; all except the value exist only if the user names them:

value: binary    key: binary    partition: int32    timestamp: int64 (ms)    header <name>: binary
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.connectors.schemas import check_column, is_bytes, shown_row
from rheos.core.errors import InputError, SchemaError
from rheos.core.formats.contract import Encoder, Format
from rheos.core.protocol.elements import Batch

_HEADER = "header "

Row = tuple[bytes | None, bytes | None, int, int, list[tuple[str, bytes]] | None]
"""Value, key, partition (-1: the partitioner chooses), timestamp (0: now), headers."""


@dataclass(frozen=True)
class RecordLayout:
    """Mapping of a stream's columns to the parts of a record. All values are column names."""

    format: Format
    key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Names of headers, with their columns."""
    partition: str | None = None
    timestamp: str | None = None
    tombstone: str | None = None
    """Boolean column; where it is true, the record's value is null."""
    value: tuple[str, ...] | None = None
    """Columns that the format encodes. None: all except those of headers, partition and tombstone."""
    formatted_key: tuple[tuple[str, ...], Format] | None = None
    """Columns of the key, and its format, instead of `key`."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Return the columns of the record's key."""
        if self.formatted_key is not None:
            return self.formatted_key[0]
        return () if self.key is None else (self.key,)

    def value_columns(self, schema: pa.Schema) -> list[str]:
        if self.value is not None:
            return list(self.value)
        apart = {self.partition, self.tombstone, *(column for _, column in self.headers)}
        return [name for name in schema.names if name not in apart]

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if rows of the schema cannot be converted to records."""
        for what, column, fits, types in (
            ("key", self.key, _is_key, "a string, bytes or an integer"),
            ("partition", self.partition, pa.types.is_integer, "an integer"),
            (
                "timestamp",
                self.timestamp,
                _is_timestamp,
                "a timestamp, or an integer number of milliseconds",
            ),
            ("tombstone", self.tombstone, pa.types.is_boolean, "true or false"),
            *(("headers", column, is_bytes, "a string or bytes") for _, column in self.headers),
            *(("value", column, lambda _: True, "") for column in self.value or ()),
        ):
            if column is not None:
                check_column(schema, what, column, fits, types)
        names = self.value_columns(schema)
        if not names:
            raise SchemaError(
                "no column remains for the value", hint='name the value columns: value=["a", "b"]'
            )
        if self.formatted_key is not None:
            columns, format = self.formatted_key
            for name in columns:
                check_column(schema, "key", name, lambda _: True, "")
            format.check_encodes(_select_fields(schema, list(columns)))
        if self.tombstone is not None and not self.key_columns:
            raise SchemaError(
                "tombstone= needs key=: a tombstone deletes the record with its key",
                hint='add key="column"',
            )
        of_rows = self._of_rows()
        if self.format.rows_per_payload > 1 and of_rows:
            raise SchemaError(
                f"the format {self.format.name} puts several rows into one record, but "
                f"{of_rows}= is set per row",
                hint="leave it out, or choose a format with one row per record",
            )
        self.format.check_encodes(_select_fields(schema, names))

    def _of_rows(self) -> str:
        named = {
            "key": self.key_columns,
            "headers": self.headers,
            "partition": self.partition,
            "timestamp": self.timestamp,
            "tombstone": self.tombstone,
        }
        return next((name for name, column in named.items() if column), "")


class RecordEncoder:
    """Encodes rows of one schema. `partitions` and `max_bytes` are the topic's number of partitions and
    maximum record size when the job was submitted."""

    def __init__(
        self, layout: RecordLayout, schema: pa.Schema, *, partitions: int, max_bytes: int
    ) -> None:
        self._layout = layout
        self._names = layout.value_columns(schema)
        self._values = layout.format.encoder(_select_fields(schema, self._names))
        self._keys: Encoder | None = None
        if layout.formatted_key is not None:
            names, of_keys = layout.formatted_key
            self._keys = of_keys.encoder(_select_fields(schema, list(names)))
        self._partitions = partitions
        self._max_bytes = max_bytes

    def encode(self, rows: Batch) -> Batch:
        """Return the encoded records. Raises InputError, with the row, if one cannot be written."""
        layout = self._layout
        values = self._values.encode(rows.select(self._names))
        if layout.tombstone is None:
            if values.null_count:
                what = "its value is null, but tombstone= is not set"
                self._refuse(rows, values.is_null(), what)
        else:
            gone = _true(rows.column(layout.tombstone))
            values = pc.if_else(gone, pa.scalar(None, values.type), values)
        columns = {"value": values}
        if layout.key_columns:
            columns["key"] = self._encoded_keys(rows)
            if layout.tombstone is not None:
                lost = pc.and_(values.is_null(), columns["key"].is_null())
                self._refuse(rows, lost, "it is a tombstone, but its key is null")
        if layout.partition is not None:
            partition = rows.column(layout.partition)
            outside = pc.or_(pc.less(partition, 0), pc.greater_equal(partition, self._partitions))
            what = f"its partition is not one of the {self._partitions} partitions of the topic"
            self._refuse(rows, outside, what)
            columns["partition"] = partition.cast(pa.int32())
        if layout.timestamp is not None:
            at = rows.column(layout.timestamp)
            if pa.types.is_timestamp(at.type):
                at = at.cast(pa.timestamp("ms", at.type.tz), safe=False)
            columns["timestamp"] = at.cast(pa.int64())
            self._refuse(rows, pc.less(columns["timestamp"], 0), "its timestamp is before 1970")
        for name, column in layout.headers:
            columns[_HEADER + name] = _as_bytes(rows.column(column))
        encoded = pa.RecordBatch.from_pydict(columns)
        self._check_sizes(rows, encoded)
        return encoded

    def _encoded_keys(self, rows: Batch) -> pa.Array:
        layout = self._layout
        if layout.formatted_key is None:
            return _as_bytes(rows.column(layout.key))
        assert self._keys is not None
        return self._keys.encode(rows.select(list(layout.key_columns)))

    def _check_sizes(self, rows: Batch, encoded: Batch) -> None:
        names = sum(len(name) for name, _ in self._layout.headers)
        # If all records together are below the limit, so is each: a cheap check.
        if not self._max_bytes or encoded.nbytes + names <= self._max_bytes:
            return
        texts = [column for column in encoded.columns if pa.types.is_binary(column.type)]
        size = sum(map(_lengths, texts), start=np.full(encoded.num_rows, names))
        row = int(size.argmax())
        if size[row] > self._max_bytes:
            raise InputError(
                f"a record of {int(size[row])} bytes cannot be written: client and topic accept "
                f"at most {self._max_bytes}",
                record=shown_row(rows, row * self._layout.format.rows_per_payload),
                hint="raise max.message.bytes of the topic and options={'message.max.bytes': ...}, "
                "or write smaller records",
            )

    def _refuse(self, rows: Batch, bad: Any, what: str) -> None:
        found = np.flatnonzero(_true(bad).to_numpy(zero_copy_only=False))
        if len(found):
            raise InputError(
                f"a row cannot be written: {what}",
                record=shown_row(rows, int(found[0])),
                hint="filter out such rows first, or correct them",
            )


def records(batch: Batch) -> Iterator[Row]:
    """Yield the encoded records one by one, as the client expects them."""
    parts = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    values = parts["value"]
    keys = parts.get("key") or repeat(None)
    partitions = parts.get("partition")
    places = repeat(-1) if partitions is None else [-1 if p is None else p for p in partitions]
    timestamps = parts.get("timestamp")
    times = repeat(0) if timestamps is None else [t or 0 for t in timestamps]
    named = [(name.removeprefix(_HEADER), parts[name]) for name in parts if name.startswith(_HEADER)]
    heads: Any = repeat(None) if not named else _headers(named, len(values))
    return zip(values, keys, places, times, heads, strict=False)


def _headers(
    named: list[tuple[str, list[bytes | None]]], rows: int
) -> Iterator[list[tuple[str, bytes]]]:
    for row in range(rows):
        yield [(name, value) for name, column in named if (value := column[row]) is not None]


def _select_fields(schema: pa.Schema, names: list[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def _is_key(kind: pa.DataType) -> bool:
    return is_bytes(kind) or bool(pa.types.is_integer(kind))


def _is_timestamp(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_int64(kind))


def _as_bytes(column: pa.Array) -> pa.Array:
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.binary())


def _true(column: pa.Array) -> pa.Array:
    return pc.fill_null(column, False)


def _lengths(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(pc.fill_null(pc.binary_length(column), 0), dtype=np.int64)
