"""Sink that writes rows to Redis, each to a key built from its columns: a hash, or a value in a format.

Writes are idempotent, so rows that are written again after a failure have one effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.redis.client_options import RedisOptions, client
from rheos.connectors.redis.connection import (
    LOGGER,
    RedisConnection,
    RedisPatience,
    RefusedError,
    check_reachable,
)
from rheos.connectors.redis.keys import KeyPattern, Separators
from rheos.connectors.redis.text import (
    NOTHING,
    CommandBuffer,
    argument,
    as_fields,
    bulk,
    check_fields,
    command,
    commands_with_optional,
    concatenated,
    head,
    of_texts,
)
from rheos.connectors.spilling import Count, SpillingSink, TargetDelivery
from rheos.connectors.user_formats import check_format
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.schemas import check_changes_key, check_column, shown_row
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call

# --- whether a restarted server still has the last rows
# ------------------------------------------------


_LOOKED_FOR = 8
"""Maximum number of keys that are checked."""
_RUN_ID = re.compile(rb"run_id:(\w+)")


class LossDetector:
    """Detector of lost data. It remembers the server's run id, and the last rows that the server
    confirmed."""

    def __init__(self, keys: Callable[[Batch], list[bytes]]) -> None:
        """Create a detector. `keys` returns the keys of rows, except those that may be deleted."""
        self._keys = keys
        self._run: bytes | None = None
        self._rows: Batch | None = None

    def confirmed(self, rows: Batch) -> None:
        """Remember rows that the server has confirmed; earlier ones are forgotten."""
        self._rows = rows

    def lost_all(self, ask: Callable[..., list[Any]]) -> int:
        """Return the number of remembered keys if a new connection finds none of them, and otherwise 0;
        also 0 if the server was not restarted. `ask` sends commands, and returns their answers.

        Raises the client's errors, except if the server does not permit the commands.
        """
        try:
            [info] = ask(command("INFO", "server"))
        except client().ResponseError:
            return 0
        found = _RUN_ID.search(info if isinstance(info, bytes) else str(info).encode())
        before, self._run = self._run, None if found is None else found[1]
        if before is None or self._run in (None, before) or self._rows is None:
            return 0
        rows = self._rows
        looked_for = self._keys(rows.slice(max(rows.num_rows - _LOOKED_FOR, 0)))
        if not looked_for:
            return 0
        [there] = ask(command("EXISTS", *looked_for))
        return 0 if there else len(looked_for)


# --- the sink -----------------------------------------------------------------------------------------


_TOGETHER_ROWS = 4096
_TOGETHER_BYTES = 4 << 20
LOST_DATA = "lost_data"
_DOING = "rows cannot be written to Redis"


@located_at_call
def sink(
    url: str,
    *,
    key: str,
    format: Format | None = None,
    value: str | Sequence[str] | None = None,
    ttl: str | None = None,
    delete: str | None = None,
    separators: Separators = "refuse",
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> RedisSink:
    """Write each row to a key in Redis, replacing the old value: the newest row of a key remains.

    ```python
    counts.sink_to(rh.redis.sink("redis://localhost:6379", key="page:{page}"))
    ```

    Rows are visible at once. After a failure, rows since the last checkpoint are written again, in
    order: a key may show an earlier value until the job has caught up.

    Args:
        url: "redis://host:6379/0", "rediss://..." for TLS, "unix://..."; with user and password.
        key: the key, with names of columns in braces (strings, bytes or whole numbers).
        format: format of the value, such as rh.formats.json(). Without a format the row is a hash with
            a field for each column, numbers and times as strings; a null removes the field.
        value: the columns that are written; all except `delete` by default.
        ttl: time to live of a key after its last row ("1h").
        delete: a boolean column: for true the key is deleted.
        separators: what to do with a row whose value contains the separator that follows its column in
            `key`, so that its key could equal that of another row: "refuse" it with an error, "escape"
            the value (percent-encoded), or "keep" the key as it is. The last column may contain
            anything.
        retry_for: how long to retry, when the job is submitted, if Redis is down or refuses
            temporarily. A running job waits as long as it takes: rows are staged next to the
            checkpoints, and other sinks continue. Each retry is counted (`retries`).
        options: further options of the client (redis-py's Connection), such as ssl_ca_certs. Their
            values are shown nowhere.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, such as a key without names.
    """
    client()
    names = [value] if isinstance(value, str) else value
    if names is not None and (not isinstance(names, Sequence) or not names):
        raise ProgramError(f"value={value!r} does not name columns", hint='write value=["a", "b"]')
    layout = RedisLayout(
        KeyPattern.of(key, separators),
        None if format is None else check_format(format),
        None if names is None else tuple(names),
        None if ttl is None else duration_ms(ttl),
        delete,
    )
    return RedisSink(duration_ms(retry_for), RedisOptions.of(url, options), layout)


@dataclass(frozen=True)
class RedisLayout:
    """Mapping of a row to commands."""

    key: KeyPattern
    format: Format | None
    """Format of the value; None for a hash."""
    value: tuple[str, ...] | None
    ttl_ms: int | None
    delete: str | None

    def value_columns(self, schema: pa.Schema) -> pa.Schema:
        names = self.value or [name for name in schema.names if name != self.delete]
        return pa.schema([schema.field(name) for name in names])

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if rows of the schema cannot be written."""
        self.key.check(schema)
        for name in self.value or ():
            check_column(schema, "value", name, lambda _: True, "")
        if self.delete is not None:
            check_column(schema, "delete", self.delete, pa.types.is_boolean, "true or false")
        columns = self.value_columns(schema)
        if not columns.names:
            raise SchemaError(
                "no column remains for the value", hint='name the value columns: value=["a", "b"]'
            )
        if self.format is None:
            check_fields(columns)
        elif self.format.rows_per_payload > 1:
            raise SchemaError(
                f"the format {self.format.name} puts several rows into one value, but each row "
                "has its own key",
                hint="choose a format with one row per value",
            )
        else:
            self.format.check_encodes(columns)


class CommandEncoder:
    """Encodes rows of one schema, which has been checked."""

    def __init__(self, layout: RedisLayout, schema: pa.Schema) -> None:
        self._layout = layout
        columns = layout.value_columns(schema)
        self._names = columns.names
        self._values = None if layout.format is None else layout.format.encoder(columns)

    def encode(self, rows: Batch) -> CommandBuffer:
        """Return the commands for rows. Raises InputError, with the row, if one cannot be written."""
        layout = self._layout
        keys = layout.key.keys(rows)
        if keys.null_count:
            raise self._refused(rows, pc.is_null(keys), "a column of its key is null")
        key = argument(keys)
        texts, counts = self._hash(rows, key) if self._values is None else self._value(rows, key)
        if layout.delete is not None:
            gone = pc.fill_null(rows.column(layout.delete), False)
            texts = pc.if_else(gone, concatenated(head(b"DEL", 2), key), texts)
            counts = np.where(gone.to_numpy(zero_copy_only=False), 1, counts)
        return of_texts(texts, counts)

    def _hash(self, rows: Batch, key: pa.Array) -> tuple[pa.Array, Any]:
        fields = as_fields(rows.select(self._names))
        values = {name: argument(field) for name, field in fields.items()}
        names = {name: bulk(name.encode()) for name in self._names}
        pairs = [concatenated(names[name], value) for name, value in values.items()]
        texts, set_ = commands_with_optional(b"HSET", key, pairs, each=2)
        counts = set_.astype(np.int64)
        if any(value.null_count for value in values.values()):
            gone = [
                pc.if_else(pc.is_null(value), pa.scalar(names[name], pa.binary()), None)
                for name, value in values.items()
            ]
            removals, removed = commands_with_optional(b"HDEL", key, gone)
            texts, counts = concatenated(texts, removals), counts + removed
        if self._layout.ttl_ms is not None:
            until = concatenated(head(b"PEXPIRE", 3), key, bulk(b"%d" % self._layout.ttl_ms))
            texts, counts = concatenated(texts, until), counts + 1
        return texts, counts

    def _value(self, rows: Batch, key: pa.Array) -> tuple[pa.Array, Any]:
        assert self._values is not None
        given = rows.select(self._names)
        if self._layout.delete is not None:  # a deleted key needs no valid value
            gone = pc.fill_null(rows.column(self._layout.delete), False)
            kept = pc.invert(gone)
            places = pc.subtract(pc.cumulative_sum(kept.cast(pa.int64())), 1)
            encoded = self._values.encode(given.filter(kept))
            values = encoded.take(pc.if_else(gone, pa.scalar(None, pa.int64()), places))
            values = pc.if_else(gone, NOTHING, values)
        else:
            values = self._values.encode(given)
        if values.null_count:
            raise self._refused(rows, pc.is_null(values), "its value is null")
        if self._layout.ttl_ms is None:
            texts = concatenated(head(b"SET", 3), key, argument(values))
        else:
            until = bulk(b"PX") + bulk(b"%d" % self._layout.ttl_ms)
            texts = concatenated(head(b"SET", 5), key, argument(values), until)
        return texts, np.ones(len(texts), np.int64)

    def _refused(self, rows: Batch, bad: pa.Array, what: str) -> InputError:
        return InputError(
            f"a row cannot be written: {what}",
            record=shown_row(rows, pc.index(bad, True).as_py()),
            hint="filter out such rows first, or fill the nulls",
        )


@dataclass(frozen=True)
class RedisSink(SpillingSink):
    """Sink that `redis.sink` creates."""

    options: RedisOptions
    layout: RedisLayout

    def validate(self, schema: pa.Schema) -> None:
        self.layout.check(schema)

    def of_changes(self, key: Sequence[str], delete: str) -> RedisSink:
        check_changes_key("key", self.layout.key.columns, key, self.layout.delete)
        return replace(self, layout=replace(self.layout, delete=delete))

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> RedisSink:
        check_reachable(self.options, self.retry_for_ms, _DOING)
        return self

    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        return RedisDelivery(self, schema, count, patience_ms)

    def datasets(self) -> Sequence[Dataset]:
        return server_datasets("redis", self.options.address, [self.layout.key])

    def describe(self) -> str:
        form = "hashes" if self.layout.format is None else self.layout.format.describe()
        return f"Redis at {self.options.address}, keys {self.layout.key}, {form}"


class RedisDelivery(TargetDelivery):
    """Sends commands while the next rows arrive, and reads the answers later."""

    def __init__(self, sink: RedisSink, schema: pa.Schema, count: Count, patience_ms: int) -> None:
        self._encoder = CommandEncoder(sink.layout, schema)
        self._sink = sink
        self._count = count
        self._witness = LossDetector(self._keys)
        self._connection = RedisConnection(sink.options, self._look_for_loss)
        self._patience = RedisPatience(patience_ms, sink.options, lambda: count("retries", 1))
        self._sent: tuple[Batch, CommandBuffer] | None = None

    def write(self, batch: Batch) -> None:
        for rows in _cut(batch):
            commands = self._encoder.encode(rows)
            self.settle()
            self._sent = rows, commands
            self._patience.begin()
            try:
                self._connection.send(commands.data)
            except (OSError, client().RedisError) as error:
                self._patience.spend(error, _DOING)
                self._send_again()

    def settle(self) -> None:
        """Wait for the answers to all commands that were sent."""
        self._patience.begin()
        while self._sent is not None:
            rows, commands = self._sent
            try:
                self._connection.receive(commands.count)
                self._sent = None
                self.settled_rows += rows.num_rows
                self._witness.confirmed(rows)
                self._patience.restore()
            except RefusedError as refused:
                record = shown_row(rows, commands.row_of(refused.reply))
                self._patience.spend(refused.error, _DOING, record)
                self._send_again()
            except (OSError, client().RedisError) as error:
                self._patience.spend(error, _DOING)
                self._send_again()

    def succeed(self, before: TargetDelivery) -> None:
        if isinstance(before, RedisDelivery):
            self._witness = before._witness

    def close(self) -> None:
        self._connection.close()

    def _look_for_loss(self, connection: RedisConnection) -> None:
        missing = self._witness.lost_all(connection.ask)
        if missing:
            self._count(LOST_DATA, 1)
            LOGGER.error(
                "%s was restarted, and the last %d keys that the sink wrote no longer exist: "
                "it has lost rows that were delivered. Use its append-only file (appendonly "
                "yes), restore a copy, or write them again from an earlier savepoint",
                self._sink.describe(),
                missing,
            )

    def _keys(self, rows: Batch) -> list[bytes]:
        layout = self._sink.layout
        if layout.ttl_ms is not None:
            return []
        if layout.delete is not None:
            rows = rows.filter(pc.invert(pc.fill_null(rows.column(layout.delete), False)))
        keys: list[bytes] = layout.key.keys(rows).to_pylist()
        return keys

    def _send_again(self) -> None:
        assert self._sent is not None
        while True:
            try:
                self._connection.close()
                self._connection.send(self._sent[1].data)
                return
            except (OSError, client().RedisError) as error:
                self._patience.spend(error, _DOING)


def _cut(batch: Batch) -> Iterator[Batch]:
    rows = batch.num_rows * _TOGETHER_BYTES // max(batch.nbytes, 1)
    rows = max(1, min(rows, _TOGETHER_ROWS))
    for begin in range(0, batch.num_rows, rows):
        yield batch.slice(begin, rows)
