"""Lookup of rows by key in a table in memory. The program passes the table, or a loader returns it on
the worker, at first and then at intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from rheos.connectors.collection import table_of
from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.errors import SchemaError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.polars_frames import arrow_table

_PLACE = "place"


@dataclass(frozen=True, eq=False)
class TableLookup(Lookup):
    """Lookup that `lookup_table` creates."""

    keys: tuple[str, ...]
    schema: pa.Schema
    key_schema: pa.Schema
    table: pa.Table | None
    """Columns of keys and rows; None if there is a loader."""
    loader: Callable[[], Any] | None = None
    reload_every_us: int | None = None

    def validate(self, keys: pa.Schema) -> None:
        for asked, own in zip(keys, self.key_schema, strict=True):
            if _family(asked.type) != _family(own.type):
                raise SchemaError(
                    f"the key {own.name!r} of the table is {own.type}, but the stream's column "
                    f"is {asked.type}",
                    hint="cast one of them: keys are compared by value",
                )

    def open(self, ctx: LookupContext) -> LookupClient:
        return _TableClient(self, ctx)

    def describe(self) -> str:
        if self.table is not None:
            return f"a table of {self.table.num_rows} rows"
        return "a loaded table"


def _family(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "whole number"
    return "float" if pa.types.is_floating(kind) else str(kind)


class _TableClient(LookupClient):
    def __init__(self, lookup: TableLookup, ctx: LookupContext) -> None:
        self._lookup = lookup
        self._clock = ctx.clock
        self._frame: pl.DataFrame | None = None
        self._loaded_us = 0

    def fetch(self, keys: Batch) -> Found:
        frame, lookup = self._current(), self._lookup
        names = [f"key.{number}" for number in range(len(lookup.keys))]
        columns = [pl.Series(column) for column in keys.columns]
        asked = pl.DataFrame(
            # A number out of the range of the table's type becomes null, and is not found.
            [
                column.rename(name).cast(frame[name].dtype, strict=False)
                for name, column in zip(names, columns, strict=True)
            ]
        ).with_row_index(_PLACE)
        found = asked.join(frame, on=names, how="inner", maintain_order="left_right")
        values = found.select(pl.col(f"value.{field.name}") for field in lookup.schema)
        rows = arrow_table(values).rename_columns(lookup.schema.names).cast(lookup.schema)
        return Found(_single_batch(rows), found[_PLACE].cast(pl.Int32).to_arrow())

    def _current(self) -> pl.DataFrame:
        lookup = self._lookup
        every_us = lookup.reload_every_us
        now_us = 0 if self._clock is None else self._clock.monotonic_us()
        due = every_us is not None and now_us - self._loaded_us >= every_us
        if self._frame is None or due:
            # If loading fails, the lookup is retried like any unavailable system.
            self._frame = _named(lookup, self._load())
            self._loaded_us = now_us
        return self._frame

    def _load(self) -> pa.Table:
        lookup = self._lookup
        if lookup.loader is None:
            assert lookup.table is not None, "a table, or a loader"
            return lookup.table
        wanted = pa.schema([*lookup.key_schema, *lookup.schema])
        return table_of(lookup.loader(), wanted)[0]


def _named(lookup: TableLookup, table: pa.Table) -> pl.DataFrame:
    """Rename the columns so that they cannot collide with the user's."""
    keys = {key: f"key.{number}" for number, key in enumerate(lookup.keys)}
    columns = [*lookup.keys, *lookup.schema.names]
    names = [keys.get(name, f"value.{name}") for name in columns]
    frame = pl.from_arrow(table.select(columns).rename_columns(names))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _single_batch(table: pa.Table) -> Batch:
    columns: Sequence[pa.Array] = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)
