"""Sink that inserts rows into a table of ClickHouse: `clickhouse.sink(...)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import pyarrow as pa

from rheos.connectors.clickhouse.columns import type_for
from rheos.connectors.clickhouse.inserting import InsertDelivery
from rheos.connectors.clickhouse.session import LOGGER, ClickhouseSession, ServerAddress, client
from rheos.connectors.clickhouse.target_table import InsertTarget, TableName, target_for
from rheos.connectors.key_argument import key_columns
from rheos.connectors.spilling import Count, SpillingSink, SpillingWriter, TargetDelivery
from rheos.connectors.sql_database.row_checks import RowChecks
from rheos.core.connectors.contract import SinkContext, SinkWriter
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.schemas import check_changes_key, check_column
from rheos.core.errors import ConfigurationError, ProgramError, SchemaError
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call

Delivery = Literal["exactly_once", "at_least_once"]


@located_at_call
def sink(
    table: str,
    *,
    url: str,
    key: str | Sequence[str] = (),
    delete: str | None = None,
    delivery: Delivery = "exactly_once",
    retry_for: str = "30s",
    ca_certs: str | None = None,
) -> ClickhouseSink:
    """Insert rows into a table of ClickHouse, each once, or as upserts by a key.

    ```python
    clickhouse = "http://localhost:8123"
    counts.sink_to(rh.clickhouse.sink("shop.counts", url=clickhouse, key="page"))
    ```

    The table must exist. If it does not, the error has the statement that creates it.

    Args:
        table: "database.table", or "table" of the user's default database. Its engine is of the
            MergeTree family.
        url: "http://host:8123", with user:password@ before the host if it needs a login.
        key: The key column or columns of upserts. The table is a ReplacingMergeTree that is ordered by
            them. Its version is a column of the stream, or has a default with the time. By default rows
            are appended.
        delete: A boolean column: for true the row with that key is deleted. The table is a
            `ReplacingMergeTree(version, deleted)`.
        delivery: "exactly_once" inserts rows when their checkpoint is complete, with tokens by which
            the server drops repeated blocks. It needs a deduplication window of the table.
            "at_least_once" inserts rows at the latest at the checkpoint, and after a failure some of
            them again.
        retry_for: How long to retry, when the job is submitted, if the server is down. A running job
            waits as long as it takes: rows are staged next to the checkpoints, and other sinks
            continue. Each retry is counted (`retries`).
        ca_certs: File with the certificates that the server's certificate is checked against.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, or `delete` is set without `key`.
        ConfigurationError: The HTTP client is not installed.
    """
    client()
    keys = key_columns(key)
    if delete is not None and not keys:
        raise ProgramError("delete= needs key=", hint='write key="column"')
    if delivery not in get_args(Delivery):
        raise ProgramError(
            f"delivery={delivery!r} is not known", hint='write "exactly_once" or "at_least_once"'
        )
    return ClickhouseSink(
        duration_ms(retry_for),
        TableName.of(table),
        ServerAddress(url, ca_certs),
        keys,
        delete,
        delivery == "exactly_once",
    )


@dataclass(frozen=True)
class ClickhouseSink(SpillingSink):
    """Sink that `clickhouse.sink` creates."""

    table: TableName
    server: ServerAddress
    key: tuple[str, ...]
    """Key of upserts; empty to append rows."""
    delete: str | None
    exactly_once: bool
    target: InsertTarget | None = None
    """The inspected table; None until the sink is prepared."""

    @property
    def stages_all(self) -> bool:
        return self.exactly_once

    def of_changes(self, key: Sequence[str], delete: str) -> ClickhouseSink:
        check_changes_key("key", self.key or key, key, self.delete)
        return replace(self, key=tuple(key), delete=delete)

    def validate(self, schema: pa.Schema) -> None:
        for name in self.key:
            check_column(schema, "key", name, lambda kind: not pa.types.is_nested(kind), "a plain type")
        if self.delete is not None:
            check_column(schema, "delete", self.delete, pa.types.is_boolean, "true or false")
        for field in schema:
            if field.name != self.delete and type_for(field.type, False) is None:
                raise SchemaError(
                    f"column {field.name!r} is {field.type}, which the sink cannot write",
                    hint="cast it to a string, or leave it out: select(...)",
                )

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> ClickhouseSink:
        """Inspect the table, and check that rows of the schema fit it."""
        session = ClickhouseSession(self.server, f"the table {self.table} cannot be inspected")

        def found() -> InsertTarget:
            return target_for(session, self.table, schema, self.key, self.delete, self.exactly_once)

        return replace(self, target=self.asked(found, session.close, LOGGER))

    def open(self, ctx: SinkContext) -> SinkWriter:
        return CheckedWriter(self, self._known_target(), ctx)

    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        # The caller repeats a commit that fails.
        patience_ms = 0 if self.exactly_once else patience_ms
        return InsertDelivery(
            self.server, self._known_target(), count, patience_ms, once=self.exactly_once
        )

    def _known_target(self) -> InsertTarget:
        if self.target is None:
            raise ConfigurationError(f"the runtime must inspect {self.describe()} before it is written")
        return self.target

    def datasets(self) -> Sequence[Dataset]:
        place = self.server.address.partition("://")[2]
        return server_datasets("clickhouse", place, [self.table])

    def describe(self) -> str:
        how = f"upserts by {', '.join(self.key)}" if self.key else "appended"
        return f"ClickHouse table {self.table} at {self.server.address}, {how}"


class CheckedWriter(SpillingWriter):
    """Writer that refuses values which the table would refuse or change."""

    def __init__(self, sink: ClickhouseSink, target: InsertTarget, ctx: SinkContext) -> None:
        super().__init__(sink, ctx)
        self._checks = RowChecks(str(target.name), target.limits, target.key, sink.delete)

    def write(self, batch: Batch) -> None:
        self._checks.check(batch)
        super().write(batch)
