"""Lookup of rows of an HBase table by row key: `hbase.lookup(...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from rheos.connectors.hbase.cells import CellNames, HbaseRows, checked_key, checked_table
from rheos.connectors.hbase.encoding import RowKeyCodec
from rheos.connectors.hbase.session import HbaseGateway, HbaseSession, client
from rheos.connectors.keyed_rows import check_comparable_keys
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.connectors.schemas import resolve
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call

_ASKED_KEYS = 512
"""Maximum number of row keys in a request."""


@located_at_call
def lookup(
    table: str,
    *,
    gateway: str,
    key: str | Sequence[str],
    schema: Any,
    family: str | None = None,
    columns: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> HbaseLookup:
    """Create a lookup of a table's rows by row key, for `stream.lookup`.

    ```python
    users = rh.hbase.lookup(
        "users",
        gateway="localhost:9090",
        key="id",
        schema={"id": int, "country": str},
        family="cf",
    )
    visits.lookup(users, on="user_id", cache_for="10m")
    ```

    Args:
        table: As in `rh.hbase.sink`.
        gateway: As in `rh.hbase.sink`.
        key: The columns of the row key, in the order of their bytes. `on=` of the lookup names a column
            of the stream for each.
        schema: The columns of the row key and those that are found, a dataclass, a pyarrow.Schema or a
            dict. Their types must be those with which the rows were written. A missing cell is null.
        family: As in `rh.hbase.sink`.
        columns: As in `rh.hbase.sink`.
        options: As in `rh.hbase.sink`.

    Returns:
        The lookup.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: The client is not installed.
        SchemaError: The schema lacks a column of the key, or a type has no encoding.
    """
    client()
    server = HbaseGateway.of(gateway, options)
    keys = checked_key(key, "key")
    names = CellNames.of(family, columns)
    rows = HbaseRows.of(checked_table(table), names, resolve(schema)[0], keys)
    return HbaseLookup(server, rows)


@dataclass(frozen=True)
class HbaseLookup(Lookup):
    """Lookup that `hbase.lookup` creates."""

    gateway: HbaseGateway
    rows: HbaseRows

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.rows.key.names)

    @property
    def schema(self) -> pa.Schema:
        return self.rows.columns

    def validate(self, keys: pa.Schema) -> None:
        check_comparable_keys(keys, self.rows.key, f"the table {self.rows.table}")

    def open(self, ctx: LookupContext) -> LookupClient:
        return _HbaseClient(self)

    def datasets(self) -> Sequence[Dataset]:
        return [self.gateway.dataset(self.rows.table)]

    def describe(self) -> str:
        rows = self.rows
        return f"HBase table {rows.table} at {self.gateway.address}, by {', '.join(rows.key.names)}"


class _HbaseClient(LookupClient):
    def __init__(self, lookup: HbaseLookup) -> None:
        self._rows = lookup.rows
        self._keys = RowKeyCodec(list(lookup.rows.key))
        self._session = HbaseSession(lookup.gateway, f"the table {lookup.rows.table} cannot be read")

    def fetch(self, keys: Batch) -> Found:
        encoded = enumerate(self._keys.encode(self._typed(keys)))
        # A value that no row key can have is not found.
        places = {key: place for place, key in encoded if isinstance(key, bytes)}
        asked, found = list(places), []
        for begin in range(0, len(asked), _ASKED_KEYS):
            part = asked[begin : begin + _ASKED_KEYS]
            found += self._session.do(partial(self._read_rows, part))
        return Found(
            self._rows.decode(found, self._rows.columns),
            pa.array([places[key] for key, _ in found], pa.int32()),
        )

    def _typed(self, keys: Batch) -> Batch:
        """Return the keys with the types of the table's. A number out of their range is null."""
        columns = []
        for field, column in zip(self._rows.key, keys.columns, strict=True):
            kind = pl.Series(pl.from_arrow(pa.array([], field.type))).dtype
            typed = pl.Series(field.name, pl.from_arrow(column)).cast(kind, strict=False)
            columns.append(typed.to_arrow().cast(field.type))
        return pa.RecordBatch.from_arrays(columns, names=self._rows.key.names)

    def _read_rows(self, keys: Sequence[bytes], connection: Any) -> list[Any]:
        found = connection.table(self._rows.table).rows(list(keys), columns=self._rows.cells)
        return [(key, cells) for key, cells in found if cells]

    def close(self) -> None:
        self._session.close()
