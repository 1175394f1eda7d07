"""A lookup for tests, whose rows are in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.protocol.elements import Batch


@dataclass(frozen=True)
class MemoryLookup(Lookup):
    """Lookup of rows by key that a test provides.

    ```python
    countries = MemoryLookup(["user"], [{"user": "ada", "country": "uk"}])
    visits.lookup(countries, on="user")
    ```
    """

    key_columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    """Rows, all with the same columns, which include those of the key."""
    keys: tuple[str, ...] = field(init=False)
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        whole = pa.Table.from_pylist(list(self.rows)).schema
        object.__setattr__(self, "keys", tuple(self.key_columns))
        object.__setattr__(self, "schema", pa.schema([f for f in whole if f.name not in self.keys]))

    def open(self, ctx: LookupContext) -> LookupClient:
        return _MemoryClient(self)


class _MemoryClient(LookupClient):
    def __init__(self, lookup: MemoryLookup) -> None:
        self._schema = lookup.schema
        self._by_key: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for row in lookup.rows:
            self._by_key.setdefault(tuple(row[key] for key in lookup.keys), []).append(row)

    def fetch(self, keys: Batch) -> Found:
        asked = zip(*(column.to_pylist() for column in keys.columns), strict=True)
        pairs = [(at, row) for at, key in enumerate(asked) for row in self._by_key.get(key, ())]
        rows = pa.RecordBatch.from_pylist([dict(row) for _, row in pairs], self._schema)
        return Found(rows, pa.array([at for at, _ in pairs], pa.int32()))
