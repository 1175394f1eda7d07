"""Publishing of rows: many messages are under way at once, and the broker confirms each."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.pulsar.client_options import PulsarOptions, client, pulsar_error
from rheos.connectors.pulsar.session import REQUESTS, PulsarSession
from rheos.connectors.row_payloads import PayloadEncoder, RowPayloads
from rheos.core.connectors.schemas import check_column, shown_row
from rheos.core.protocol.elements import Batch

_IN_FLIGHT = 2048
"""Maximum number of messages without a confirmation: more than are published at once."""
_DELAY_MS = 1
_SEND_MS = 10_000
_COMPRESSIONS = {"none": "NONE", "lz4": "LZ4", "zlib": "ZLib", "zstd": "ZSTD", "snappy": "SNAPPY"}
"""The client's names of compressions."""


@dataclass(frozen=True)
class PulsarTarget:
    """Configuration of where and how rows are published. Frozen: it is sent to the workers."""

    options: PulsarOptions
    topic: str
    payloads: RowPayloads
    key: str | None
    event_time: str | None
    properties: tuple[str, ...]
    """Columns that become properties of the same names."""
    compression: str

    @property
    def doing(self) -> str:
        """Return the begin of errors."""
        return f"rows cannot be published to {self.topic}"

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if rows of the schema cannot be published."""
        self.payloads.check(schema)
        if self.key is not None:
            check_column(schema, "key", self.key, _is_text, "a string or an integer")
        if self.event_time is not None:
            check_column(schema, "event_time", self.event_time, pa.types.is_timestamp, "a timestamp")
        for name in self.properties:
            check_column(schema, "properties", name, _is_text, "a string or an integer")

    def messages(self, rows: Batch) -> list[dict[str, Any]]:
        """Return what the client sends with the payload of each row."""
        found: list[dict[str, Any]] = [{} for _ in range(rows.num_rows)]
        if self.key is not None:
            for each, key in zip(found, _texts(rows, self.key), strict=True):
                each["partition_key"] = key
        if self.event_time is not None:
            times = rows.column(self.event_time).cast(pa.timestamp("ms", "UTC"), safe=False)
            for each, time in zip(found, times.cast(pa.int64()).to_pylist(), strict=True):
                each["event_timestamp"] = time
        if self.properties:
            columns = [_texts(rows, name) for name in self.properties]
            for each, values in zip(found, zip(*columns, strict=True), strict=True):
                named = zip(self.properties, values, strict=True)
                each["properties"] = {name: value for name, value in named if value is not None}
        return found

    def producer(self, connected: Any, **given: Any) -> Any:
        """Return a new producer for the topic."""
        arguments: dict[str, Any] = {
            "topic": self.topic,
            "send_timeout_millis": _SEND_MS,
            "max_pending_messages": _IN_FLIGHT,
            "batching_enabled": True,
            "batching_max_publish_delay_ms": _DELAY_MS,
            "compression_type": getattr(client().CompressionType, _COMPRESSIONS[self.compression]),
            **given,
        }
        return connected.create_producer(**arguments)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind))


def _texts(rows: Batch, name: str) -> list[str | None]:
    found: list[str | None] = pc.cast(rows.column(name), pa.string()).to_pylist()
    return found


class _RefusedError(Exception):
    """Raised if the broker has not confirmed a row."""

    def __init__(self, row: int, error: BaseException) -> None:
        super().__init__(row)
        self.row = row
        self.error = error


class Confirmations:
    """Confirmations of messages under way. The client's threads report them."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._left = count
        self._failed: tuple[int, Any] | None = None
        self._all = threading.Event()

    def callback(self, row: int) -> Any:
        """Return the function that the client calls when a message is confirmed or not."""
        return partial(self._confirmed, row)

    def wait(self) -> None:
        """Wait for all messages. Raises _RefusedError if one was not confirmed."""
        pulsar = client()
        if not self._all.wait(REQUESTS.limit_s):
            raise pulsar.Timeout(f"no confirmation for {REQUESTS.limit_s:g} s")
        if self._failed is not None:
            row, result = self._failed
            kind = getattr(pulsar, result.name, pulsar.UnknownError)
            raise _RefusedError(row, kind(f"Pulsar answers {result.name}"))

    def _confirmed(self, row: int, result: Any, message_id: Any) -> None:
        # An exception here would end the process.
        with self._lock:
            if result != client().Result.Ok and (self._failed is None or row < self._failed[0]):
                self._failed = row, result
            self._left -= 1
            if not self._left:
                self._all.set()


class PulsarPublishing:
    """Publishes rows by one producer, and waits until the broker has confirmed them."""

    def __init__(self, target: PulsarTarget, schema: pa.Schema) -> None:
        self._target = target
        self._encoder = PayloadEncoder(target.payloads, schema)
        self._session = PulsarSession(target.options, target.doing)
        self._producer: Any = None

    def open(self) -> None:
        """Connect. Raises RheosError if the topic cannot be written."""
        self._session.call(self._connect)

    def publish(self, rows: Batch) -> None:
        """Publish rows in their order.

        Raises:
            UnavailableError: The broker did not confirm all rows; some of them may be in the topic.
            InputError: The broker never accepts one of the rows.
        """
        payloads = self._encoder.encode(rows)
        messages = self._target.messages(rows)
        send_all(self._session, self._target, rows, partial(self._send, payloads, messages))

    def close(self) -> None:
        """Close the connection. A later call opens another."""
        self._producer = None
        self._session.close()

    def _connect(self, connected: Any) -> None:
        if self._producer is None:
            self._producer = self._target.producer(connected)

    def _send(
        self, payloads: Sequence[bytes], messages: Sequence[dict[str, Any]], connected: Any
    ) -> None:
        try:
            self._connect(connected)
            confirmations = Confirmations(len(payloads))
            for row, (payload, message) in enumerate(zip(payloads, messages, strict=True)):
                self._producer.send_async(payload, confirmations.callback(row), **message)
            confirmations.wait()
        except BaseException:
            self._producer = None
            raise


def send_all(session: PulsarSession, target: PulsarTarget, rows: Batch, send: Any) -> None:
    """Call `send` with the client. Raises RheosError, with the row that was refused, if any."""
    try:
        session.call(send)
    except _RefusedError as refused:
        record = shown_row(rows, refused.row)
        raise pulsar_error(refused.error, target.doing, target.options, record=record) from None
