"""Rows in memory that are found by their keys."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from rheos.core.connectors.lookup import Found
from rheos.core.errors import SchemaError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.polars_frames import arrow_table

_PLACE = "place"


class LookupRows:
    """Rows and their keys."""

    def __init__(self, keys: pa.Table, rows: pa.Table) -> None:
        """Create rows from the columns of their keys, and the columns to return."""
        self._schema = rows.schema
        self._keys = [f"key.{number}" for number in range(keys.num_columns)]
        # Renamed, so that the columns of keys and rows cannot collide.
        names = [*self._keys, *(f"value.{name}" for name in rows.schema.names)]
        frame = pl.from_arrow(pa.table([*keys.columns, *rows.columns], names))
        assert isinstance(frame, pl.DataFrame)
        self._frame = frame

    def find(self, asked: Batch) -> Found:
        """Return the rows of some keys, which are compared by value."""
        frame, names = self._frame, self._keys
        columns = [pl.Series(column) for column in asked.columns]
        keys = pl.DataFrame(
            # A number out of the range of the key's type becomes null, and is not found.
            [
                column.rename(name).cast(frame[name].dtype, strict=False)
                for name, column in zip(names, columns, strict=True)
            ]
        ).with_row_index(_PLACE)
        found = keys.join(frame, on=names, how="inner", maintain_order="left_right")
        values = found.select(pl.col(f"value.{name}") for name in self._schema.names)
        rows = arrow_table(values).rename_columns(self._schema.names).cast(self._schema)
        return Found(_single_batch(rows), found[_PLACE].cast(pl.Int32).to_arrow())


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
