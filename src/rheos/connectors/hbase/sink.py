"""Sink that writes rows to a table of HBase: each row replaces the cells with its row key."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from rheos.connectors.gathered_rows import GatheringDelivery
from rheos.connectors.hbase.cells import CellNames, HbaseRows, checked_key, checked_table
from rheos.connectors.hbase.encoding import RowKeyCodec, plain_values
from rheos.connectors.hbase.session import LOGGER, HbaseGateway, HbaseSession, client
from rheos.connectors.outage_patience import Patience
from rheos.connectors.spilling import Count, SpillingSink, TargetDelivery
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.schemas import check_changes_key, check_column, shown_row
from rheos.core.errors import ConfigurationError, InputError
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call


@located_at_call
def sink(
    table: str,
    *,
    gateway: str,
    key_columns: str | Sequence[str],
    family: str | None = None,
    columns: Mapping[str, str] | None = None,
    delete: str | None = None,
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> HbaseSink:
    """Write each row to a table, replacing the row with its row key.

    ```python
    counts.sink_to(
        rh.hbase.sink("pages", gateway="localhost:9090", key_columns="page", family="cf")
    )
    ```

    Rows are written at the latest at each checkpoint, and are visible at once. After a failure, rows
    since the last checkpoint are written again, in order. So a row may show an earlier value until the
    job has caught up. Key the stream by the row key, so that one subtask writes the rows of a key in
    order. The clocks of the workers' machines must agree: the timestamp of a cell is the time at which
    it was written, and HBase keeps the cell with the later timestamp.

    Args:
        table: "name" or "namespace:name". It must exist.
        gateway: "host:port" of HBase's Thrift gateway (`hbase thrift start`); the default port is 9090.
        key_columns: The columns whose values are the row key, in the order of their bytes. No cell
            holds them.
        family: The family of the other columns, whose qualifiers are their names.
        columns: "family:qualifier" of columns for which that is not so.
        delete: A boolean column, which is not written: for true, all cells of the sink's families are
            deleted in the row with that row key.
        retry_for: How long to retry, when the job is submitted, if HBase is down. A running job waits
            as long as it takes: rows are staged next to the checkpoints, and other sinks continue.
            Each retry is counted (`retries`).
        options: `transport` ("buffered" or "framed") and `protocol` ("binary" or "compact"), if the
            gateway does not use the first of these.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: The client is not installed.
    """
    client()
    server = HbaseGateway.of(gateway, options)
    keys = checked_key(key_columns, "key_columns")
    names = CellNames.of(family, columns)
    return HbaseSink(duration_ms(retry_for), server, checked_table(table), keys, names, delete)


@dataclass(frozen=True)
class HbaseSink(SpillingSink):
    """Sink that `hbase.sink` creates."""

    gateway: HbaseGateway
    table: str
    key: tuple[str, ...]
    names: CellNames
    delete: str | None

    def validate(self, schema: pa.Schema) -> None:
        if self.delete is not None:
            check_column(schema, "delete", self.delete, pa.types.is_boolean, "true or false")
        self.stored(schema)

    def stored(self, schema: pa.Schema) -> HbaseRows:
        """Return the rows of the table for rows of a schema. Raises SchemaError."""
        fields = pa.schema([field for field in schema if field.name != self.delete])
        return HbaseRows.of(self.table, self.names, fields, self.key)

    def of_changes(self, key: Sequence[str], delete: str) -> HbaseSink:
        check_changes_key("key_columns", self.key, key, self.delete)
        return replace(self, delete=delete)

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> HbaseSink:
        """Check that the table exists, and has the families of the cells."""
        session = self.session()
        families = partial(session.do, lambda connection: connection.table(self.table).families())
        there = self.asked(families, session.close, LOGGER)
        known = sorted(name.decode(errors="replace").rstrip(":") for name in there)
        for cell in self.stored(schema).cells:
            of = cell.decode().partition(":")[0]
            if of not in known:
                raise ConfigurationError(
                    f"the table {self.table} at {self.gateway.address} has no family {of!r}",
                    hint=f"its families are {', '.join(known)}" if known else "create the table first",
                )
        return self

    def session(self) -> HbaseSession:
        """Return a session for writes."""
        return HbaseSession(self.gateway, f"the table {self.table} cannot be written")

    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        return HbaseDelivery(self, self.stored(schema), count, patience_ms)

    def datasets(self) -> Sequence[Dataset]:
        return [self.gateway.dataset(self.table)]

    def describe(self) -> str:
        return f"HBase table {self.table} at {self.gateway.address}"


class HbaseDelivery(GatheringDelivery):
    """Writes about a thousand rows at a time, each row key once, and waits for all of them."""

    def __init__(self, sink: HbaseSink, stored: HbaseRows, count: Count, patience_ms: int) -> None:
        super().__init__()
        self._sink = sink
        self._stored = stored
        self._keys = RowKeyCodec(list(stored.key))
        self._cells = list(zip(stored.columns.names, stored.cells, stored.codecs(), strict=True))
        self._families = sorted({cell.partition(b":")[0] for cell in stored.cells})
        self._patience = Patience(patience_ms, lambda: count("retries", 1), LOGGER)
        self._session = sink.session()
        self._last_ms = 0

    def deliver(self, rows: Batch) -> None:
        changes = self._changes(rows)
        # Later rows have a later timestamp, even if they are written in the same millisecond: a
        # deletion hides cells of the same time.
        self._last_ms = max(self._last_ms + 1, time.time_ns() // 1_000_000)
        self._patience.begin()
        send = partial(self._send, changes, self._last_ms)
        self._patience.ask(lambda: self._session.do(send))

    def succeed(self, before: TargetDelivery) -> None:
        assert isinstance(before, HbaseDelivery)
        self._last_ms = before._last_ms

    def close(self) -> None:
        self._session.close()

    def _changes(self, rows: Batch) -> Mapping[bytes, tuple[dict[bytes, bytes], list[bytes]]]:
        """Return, for each row key, the cells to write and those to delete. The last row counts."""
        keys: dict[bytes, int] = {}
        for row, key in enumerate(self._keys.encode(rows)):
            if isinstance(key, str):
                raise InputError(
                    f"a row cannot be written to the table {self._sink.table}: {key}",
                    record=shown_row(rows, row),
                    hint="filter such rows out first",
                )
            keys[key] = row
        delete = self._sink.delete
        gone = [False] * rows.num_rows if delete is None else rows.column(delete).to_pylist()
        columns = [
            (cell, codec.encode, plain_values(rows.column(name), codec))
            for name, cell, codec in self._cells
        ]
        changes: dict[bytes, tuple[dict[bytes, bytes], list[bytes]]] = {}
        for key, row in keys.items():
            if gone[row]:
                changes[key] = {}, self._families
                continue
            values = [(cell, encode, plain[row]) for cell, encode, plain in columns]
            written = {cell: encode(value) for cell, encode, value in values if value is not None}
            changes[key] = written, [cell for cell, _, value in values if value is None]
        return changes

    def _send(
        self,
        changes: Mapping[bytes, tuple[dict[bytes, bytes], list[bytes]]],
        timestamp_ms: int,
        connection: Any,
    ) -> None:
        batch = connection.table(self._sink.table).batch(timestamp=timestamp_ms)
        for key, (written, deleted) in changes.items():
            if written:
                batch.put(key, written)
            if deleted:
                batch.delete(key, deleted)
        batch.send()
