"""Writes rows to a table of Cassandra; each replaces the row with the same primary key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rheos.connectors.cassandra.client import (
    LOGGER,
    CassandraSession,
    ClusterOptions,
    check_consistency,
    client,
)
from rheos.connectors.cassandra.columns import CqlColumn, check_any_fits, check_fits, identity, values
from rheos.connectors.outage_patience import Patience
from rheos.connectors.spilling import Count, SpillingSink, TargetDelivery
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.schemas import check_changes_key, check_column, shown_row
from rheos.core.errors import InputError, ProgramError, RheosError, SchemaError, UnavailableError
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call

_TOGETHER_ROWS = 4096
_TOGETHER_BYTES = 4 << 20
_MOST_AT_ONCE = 2048
_NAME = re.compile(r"(\w{1,48})\.(\w{1,48})", re.ASCII)
_MOST_TTL_S = 20 * 365 * 24 * 3600


@located_at_call
def sink(
    table: str,
    *,
    hosts: str | Sequence[str],
    delete: str | None = None,
    ttl: str | None = None,
    consistency: str = "LOCAL_QUORUM",
    at_once: int = 128,
    retry_for: str = "30s",
    user: str | None = None,
    password: str | None = None,
    datacenter: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> CassandraSink:
    """Write each row to a table, replacing the row with the same primary key.

    ```python
    counts.sink_to(rh.cassandra.sink("shop.counts", hosts="localhost:9042"))
    ```

    The table must exist and have a column for each of the stream's. Rows are visible as soon as they
    are written, and all of them are before a checkpoint is complete. After a failure, rows since the
    last checkpoint are written again, in order: a row may show an earlier value until the job has
    caught up. Key the stream by (a part of) the primary key, so that one subtask writes the rows of a
    key in order. The clocks of the workers' machines must agree: Cassandra keeps the value with the
    later time.

    Args:
        table: "keyspace.table".
        hosts: "host:port" of some of the nodes; the default port is 9042.
        delete: a boolean column, which the table does not have: for true the row with that primary key
            is deleted.
        ttl: time to live of a row after its last write ("30d").
        consistency: consistency level, which determines how many replicas must confirm a row: "ONE",
            "LOCAL_QUORUM", "ALL", ...
        at_once: maximum number of rows in flight, for each subtask.
        retry_for: how long to retry, when the job is submitted, if nodes refuse temporarily. A running
            job waits as long as it takes: rows are staged next to the checkpoints, and other sinks
            continue. Each retry is counted (`retries`).
        user: the user to log in as; by default there is no login.
        password: the user's password. It is never shown.
        datacenter: the datacenter whose nodes are used; by default that of the first host.
        options: further options of the client (cassandra.cluster.Cluster), such as ssl_context. Their
            values are shown nowhere.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, such as a table without a keyspace or a `ttl` above 20
            years.
    """
    client()
    found = _NAME.fullmatch(table) if isinstance(table, str) else None
    if found is None:
        raise ProgramError(
            f'table={table!r} is not of the form "keyspace.table"',
            hint='write "keyspace.table", as it was created',
        )
    check_consistency(consistency)
    if not isinstance(at_once, int) or not 0 < at_once <= _MOST_AT_ONCE:
        raise ProgramError(f"at_once={at_once!r} is not between 1 and {_MOST_AT_ONCE}")
    ttl_s = None if ttl is None else max(1, duration_ms(ttl) // 1000)
    if ttl_s is not None and ttl_s > _MOST_TTL_S:
        raise ProgramError(f"ttl={ttl!r} exceeds the maximum of 20 years")
    contact = ClusterOptions.of(hosts, user, password, datacenter, options)
    target = CassandraTable(found[1], found[2], delete, ttl_s)
    return CassandraSink(duration_ms(retry_for), contact, target, consistency, at_once)


@dataclass(frozen=True)
class CassandraTable:
    """Target table, and the mapping of rows to its statements."""

    keyspace: str
    name: str
    delete: str | None
    ttl_s: int | None
    columns: tuple[CqlColumn, ...] = ()
    """Columns that the table shares with the stream; empty until the table was inspected."""
    key: tuple[CqlColumn, ...] = ()
    """Columns of the primary key."""

    def __str__(self) -> str:
        return f"{self.keyspace}.{self.name}"

    def fitted(
        self, schema: pa.Schema, columns: Sequence[CqlColumn], key: Sequence[str]
    ) -> CassandraTable:
        """Return the table with its inspected columns and key. Raises SchemaError if rows do not fit
        it."""
        known = {column.name: column for column in columns}
        fields = [field for field in schema if field.name != self.delete]
        for field in fields:
            if field.name not in known:
                raise SchemaError(
                    f"the table {self} has no column {field.name!r}",
                    hint=f"its columns are {', '.join(known)}; select only columns to be written",
                )
            check_fits(field, known[field.name], str(self))
        missing = [name for name in key if name not in schema.names]
        if missing:
            raise SchemaError(
                f"column {missing[0]!r} of the primary key of {self} is not in the stream",
                hint=f"the key is {', '.join(key)}",
            )
        return replace(
            self,
            columns=tuple(known[field.name] for field in fields),
            key=tuple(known[name] for name in key),
        )

    def insert(self) -> str:
        names = ", ".join(_quoted(column.name) for column in self.columns)
        marks = ", ".join("?" for _ in self.columns)
        ttl = "" if self.ttl_s is None else f" USING TTL {self.ttl_s}"
        return f"INSERT INTO {self._place()} ({names}) VALUES ({marks}){ttl}"

    def removal(self) -> str:
        where = " AND ".join(f"{_quoted(column.name)} = ?" for column in self.key)
        return f"DELETE FROM {self._place()} WHERE {where}"

    def _place(self) -> str:
        return f"{_quoted(self.keyspace)}.{_quoted(self.name)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class CassandraSink(SpillingSink):
    """Sink that `cassandra.sink` creates."""

    contact: ClusterOptions
    table: CassandraTable
    consistency: str
    at_once: int

    def validate(self, schema: pa.Schema) -> None:
        delete = self.table.delete
        if delete is not None:
            check_column(schema, "delete", delete, pa.types.is_boolean, "true or false")
        for field in schema:
            check_any_fits(field)

    def of_changes(self, key: Sequence[str], delete: str) -> CassandraSink:
        # The table's own key is only known when the job is submitted.
        check_changes_key("key", key, key, self.table.delete)
        return replace(self, table=replace(self.table, delete=delete))

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> CassandraSink:
        """Inspect the table, and check that rows of the schema fit it."""

        def fitted() -> CassandraTable:
            session = CassandraSession(self.contact, self.consistency)
            try:
                columns, key = session.describe(self.table.keyspace, self.table.name)
                return self.table.fitted(schema, columns, key)
            finally:
                session.close()

        patience = Patience(self.retry_for_ms, lambda: None, LOGGER)
        return replace(self, table=patience.ask(fitted))

    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        return CassandraDelivery(self, count, patience_ms)

    def datasets(self) -> Sequence[Dataset]:
        return server_datasets(
            "cassandra", self.contact.address, [f"{self.table.keyspace}.{self.table.name}"]
        )

    def describe(self) -> str:
        return f"Cassandra table {self.table} at {self.contact.address}"


class CassandraDelivery(TargetDelivery):
    """Writes a few thousand rows at a time and waits for all of them, so that an older row never
    overwrites a newer one."""

    def __init__(self, sink: CassandraSink, count: Count, patience_ms: int) -> None:
        self._sink = sink
        self._table = sink.table
        self._patience = Patience(patience_ms, lambda: count("retries", 1), LOGGER)
        self._session: CassandraSession | None = None
        self._names = [column.name for column in sink.table.columns]
        self._key = [self._names.index(column.name) for column in sink.table.key]
        self._insert, self._removal = sink.table.insert(), sink.table.removal()
        self._gathered: list[Batch] = []
        self._count = 0
        self._size_bytes = 0

    def write(self, batch: Batch) -> None:
        self._gathered.append(batch)
        self._count += batch.num_rows
        self._size_bytes += batch.nbytes
        if self._count >= _TOGETHER_ROWS or self._size_bytes >= _TOGETHER_BYTES:
            self.settle()

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def settle(self) -> None:
        if not self._gathered:
            return
        rows = pa.concat_batches(self._gathered)
        self._gathered, self._count, self._size_bytes = [], 0, 0
        for begin in range(0, rows.num_rows, _TOGETHER_ROWS):
            part = rows.slice(begin, _TOGETHER_ROWS)
            self._write(part)
            self.settled_rows += part.num_rows

    def _write(self, rows: Batch) -> None:
        left = self._newest_of_each(rows)
        self._patience.begin()
        while left:
            try:
                if self._session is None:
                    self._session = CassandraSession(self._sink.contact, self._sink.consistency)
                statements = [(cql, given) for _, cql, given in left]
                failed = self._session.write(statements, self._sink.at_once)
            except UnavailableError as error:
                self._patience.spend(error)
                continue
            if not failed:
                self._patience.restore()
                return
            left, errors = [left[place] for place, _ in failed], [error for _, error in failed]
            self._patience.spend(self._worst(rows, left, errors))

    @staticmethod
    def _worst(
        rows: Batch, failed: Sequence[tuple[int, str, Any]], errors: Sequence[RheosError]
    ) -> RheosError:
        """Return an error that a retry cannot fix, if there is one; otherwise the first error."""
        for (row, _, _), error in zip(failed, errors, strict=True):
            if not isinstance(error, UnavailableError):
                error.record = shown_row(rows, row)
                return error
        return errors[0]

    def _newest_of_each(self, rows: Batch) -> list[tuple[int, str, Sequence[Any]]]:
        """Return the last row of each primary key: its index, statement and values. Rows that are in
        flight at the same time may arrive in any order."""
        delete = self._table.delete
        gone = [False] * rows.num_rows if delete is None else rows.column(delete).to_pylist()
        found: dict[tuple[Any, ...], tuple[int, str, Sequence[Any]]] = {}
        for row, given in enumerate(values(rows, self._table.columns)):
            key = tuple(given[place] for place in self._key)
            if None in key:
                raise InputError(
                    f"a row cannot be written: a column of the primary key of {self._table} is null",
                    record=shown_row(rows, row),
                    hint="filter such rows out first",
                )
            found[identity(key)] = (
                (row, self._removal, key) if gone[row] else (row, self._insert, given)
            )
        return list(found.values())
