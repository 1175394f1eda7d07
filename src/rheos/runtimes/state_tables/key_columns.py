"""The key columns of keyed state: as shown in a DataFrame, and as stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.spark.spark_types import spark_arrow_type
from rheos.core.errors import InputError
from rheos.core.protocol.shapes import VALUE, WINDOW, FieldShape
from rheos.core.state.keys import Key, KeyCodec
from rheos.runtimes.state_tables.forms import misfit
from rheos.runtimes.state_tables.state_layout import arrow_type


class KeyColumns:
    """Key columns of one state. Keys are compared by value, so all integers are shown as bigint."""

    def __init__(self, key: Sequence[FieldShape]) -> None:
        self.names = [field.name for field in key]
        self.stored = pa.schema([pa.field(field.name, arrow_type(field.type.name)) for field in key])
        self.shown = pa.schema(
            [field.with_type(spark_arrow_type(field.type, field.name)) for field in self.stored]
        )
        added = sum(field.type.label in (WINDOW, VALUE) for field in key)
        self.codec = KeyCodec(self.stored, self.names, routed_by=len(key) - added)

    def columns(self, keys: Sequence[Key]) -> list[pa.Array]:
        """Return the columns for decoded keys."""
        parts: Sequence[Sequence[Any]] = [keys]
        if len(self.names) > 1:
            parts = list(zip(*keys, strict=True)) if keys else [()] * len(self.names)
        return [
            _cast(pa.array(part, field.type), shown.type)
            for part, field, shown in zip(parts, self.stored, self.shown, strict=True)
        ]

    def of_table(self, table: pa.Table, prefix: str) -> list[pa.Array]:
        """Return the columns for keys that are stored in columns, whose names start with `prefix`."""
        return [
            _cast(_cast(plain_column(table, prefix + stored.name), stored.type), shown.type)
            for stored, shown in zip(self.stored, self.shown, strict=True)
        ]

    def misfits(self, given: pa.Schema, names: Sequence[str]) -> Iterator[str]:
        """Yield why these columns of a DataFrame cannot be the key columns of these names."""
        for name in names:
            wanted, kind = self.shown.field(name).type, given.field(name).type
            if not _same_family(wanted, kind):
                yield misfit(name, wanted, kind)

    def subset(self, names: Sequence[str]) -> KeyCodec:
        return KeyCodec(self.stored, names)

    def batch(self, table: pa.Table | pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Return key columns of a DataFrame, in the types by which keys are hashed. Raise
        InputError."""
        arrays = []
        for name in names:
            column = table.column(name)
            if isinstance(column, pa.ChunkedArray):
                column = column.combine_chunks()
            wanted = self.stored.field(name).type
            try:
                arrays.append(_cast(column, wanted))
            except pa.ArrowInvalid as error:
                raise InputError(
                    f"the key column {name!r} has a value that is not a valid {wanted}: {error}",
                    hint="drop such rows: no record has this key",
                ) from error
        return pa.RecordBatch.from_arrays(arrays, names=list(names))


def plain_column(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array, with dictionaries and extension types resolved."""
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    return pc.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_fixed_size_binary(column.type):
        return column.cast(pa.binary()).cast(kind)
    return column.cast(kind)


_FAMILIES = (
    (pa.types.is_boolean,),
    (pa.types.is_integer, pa.types.is_decimal),
    (pa.types.is_floating, pa.types.is_integer),
    (pa.types.is_string, pa.types.is_large_string),
    (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary),
    (pa.types.is_timestamp,),
    (pa.types.is_date,),
    (pa.types.is_time,),
    (pa.types.is_duration,),
)


def _same_family(wanted: pa.DataType, given: pa.DataType) -> bool:
    for family in _FAMILIES:
        if family[0](wanted):
            return any(holds(given) for holds in family)
    return bool(wanted == given or (pa.types.is_decimal(wanted) and pa.types.is_integer(given)))
