"""Publishing of rows: a bounded number of messages is under way at once, and the broker confirms
each."""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.connectors.mqtt.client_options import MqttOptions, refusal
from rheos.connectors.mqtt.connection import MqttConnection
from rheos.connectors.name_patterns import NamePattern
from rheos.connectors.row_payloads import PayloadEncoder, RowPayloads
from rheos.core.connectors.schemas import shown_row
from rheos.core.errors import ConfigurationError, InputError, UnavailableError
from rheos.core.protocol.elements import Batch

_IN_FLIGHT = 1024
_REFUSED = 0x80
_BAD_MESSAGE = frozenset((0x90, 0x99))
"""Reason codes for an invalid topic and an invalid payload."""
_OVERHEAD_BYTES = 16
"""Bytes of a message in addition to topic and payload, at most."""


@dataclass(frozen=True)
class MqttTarget:
    """Configuration of where and how rows are published. Frozen: it is sent to the workers."""

    options: MqttOptions
    topic: NamePattern
    payloads: RowPayloads
    retain: bool

    @property
    def doing(self) -> str:
        """Return the begin of errors."""
        return f"rows cannot be published to {self.topic}"

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if rows of the schema cannot be published."""
        self.topic.check(schema)
        self.payloads.check(schema)


class MqttPublishing:
    """Publishes rows over one connection, and waits until the broker has confirmed them."""

    def __init__(self, target: MqttTarget, schema: pa.Schema) -> None:
        self._target = target
        self._encoder = PayloadEncoder(target.payloads, schema)
        self._connection: MqttConnection | None = None

    def publish(self, rows: Batch) -> None:
        """Publish rows in their order.

        Args:
            rows: The rows, one of the `pieces` of a batch.

        Raises:
            UnavailableError: The broker did not confirm all rows; it may have some of them.
            InputError: The broker never accepts one of the rows.
        """
        payloads = self._encoder.encode(rows)
        topics = self._target.topic.names(rows)
        try:
            connection = self._open()
            limits = connection.limits
            under_way: deque[tuple[int, int]] = deque()
            for row, (topic, payload) in enumerate(zip(topics, payloads, strict=True)):
                size_bytes = len(topic.encode()) + len(payload) + _OVERHEAD_BYTES
                if limits.packet_bytes is not None and size_bytes > limits.packet_bytes:
                    raise InputError(
                        f"{self._target.doing}, at {self._target.options.address}: the message has "
                        f"about {size_bytes} bytes, and the broker accepts {limits.packet_bytes}",
                        hint="raise the broker's limit (mosquitto: max_packet_size), or write smaller "
                        "rows",
                        record=shown_row(rows, row),
                    )
                while len(under_way) >= min(_IN_FLIGHT, limits.in_flight):
                    self._confirm(connection, under_way, rows)
                packet = connection.publish(topic, payload, retain=self._target.retain)
                under_way.append((row, packet))
            while under_way:
                self._confirm(connection, under_way, rows)
        except BaseException:
            self.close()
            raise

    def open(self) -> None:
        """Connect, and check what the broker offers. Raises RheosError."""
        try:
            connection = self._open()
        except BaseException:
            self.close()
            raise
        if self._target.retain and not connection.limits.retains:
            raise ConfigurationError(
                f"{self._target.doing}, at {self._target.options.address}: the broker keeps no "
                "retained messages",
                hint="allow them in the broker's configuration, or leave out retain=True",
            )

    def close(self) -> None:
        """Close the connection. A later call opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> MqttConnection:
        if self._connection is not None:
            # A broker may close a connection that is idle.
            with contextlib.suppress(UnavailableError):
                self._connection.step(0.0)
                return self._connection
            self.close()
        connection = self._connection = MqttConnection(self._target.options, self._target.doing)
        connection.open()
        return connection

    def _confirm(
        self, connection: MqttConnection, under_way: deque[tuple[int, int]], rows: Batch
    ) -> None:
        """Wait for the answer to the oldest message."""
        row, packet = under_way.popleft()
        answers: list[Any] = []

        def is_answered() -> bool:
            if (found := connection.answer(packet)) is not None:
                answers.append(found)
            return bool(answers)

        connection.wait(is_answered)
        [reason] = answers
        if reason.value < _REFUSED:
            return
        target = self._target
        if reason.value in _BAD_MESSAGE:
            raise InputError(
                f"{target.doing}, at {target.options.address}: the broker answers {str(reason)!r}",
                record=shown_row(rows, row),
                hint="check the topic and the payload of this row",
            )
        raise refusal(reason.value, str(reason), target.doing, target.options)
