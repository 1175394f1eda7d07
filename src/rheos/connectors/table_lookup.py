"""Lookup of rows by key in a table in memory. The program passes the table, or a loader returns it on
the worker, at first and then at intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.connectors.collection import table_of
from rheos.connectors.keyed_rows import LookupRows, check_comparable_keys
from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.protocol.elements import Batch


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
        check_comparable_keys(
            keys, self.key_schema, "the table", hint="cast one of them: keys are compared by value"
        )

    def open(self, ctx: LookupContext) -> LookupClient:
        return _TableClient(self, ctx)

    def describe(self) -> str:
        if self.table is not None:
            return f"a table of {self.table.num_rows} rows"
        return "a loaded table"


class _TableClient(LookupClient):
    def __init__(self, lookup: TableLookup, ctx: LookupContext) -> None:
        self._lookup = lookup
        self._clock = ctx.clock
        self._rows: LookupRows | None = None
        self._loaded_us = 0

    def fetch(self, keys: Batch) -> Found:
        return self._current().find(keys)

    def _current(self) -> LookupRows:
        lookup = self._lookup
        every_us = lookup.reload_every_us
        now_us = 0 if self._clock is None else self._clock.monotonic_us()
        due = every_us is not None and now_us - self._loaded_us >= every_us
        if self._rows is None or due:
            # If loading fails, the lookup is retried like any unavailable system.
            table = self._load()
            self._rows = LookupRows(table.select(lookup.keys), table.select(lookup.schema.names))
            self._loaded_us = now_us
        return self._rows

    def _load(self) -> pa.Table:
        lookup = self._lookup
        if lookup.loader is None:
            assert lookup.table is not None, "a table, or a loader"
            return lookup.table
        wanted = pa.schema([*lookup.key_schema, *lookup.schema])
        return table_of(lookup.loader(), wanted)[0]
