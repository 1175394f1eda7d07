"""Thread that receives the messages of a subscription, and acknowledges them at checkpoints."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from rheos.connectors.acknowledging import AcknowledgedReading, AcknowledgedRows
from rheos.connectors.message_chunks import MessagePosition
from rheos.connectors.mqtt.client_options import MqttOptions
from rheos.connectors.mqtt.connection import LOGGER, MqttConnection, MqttMessage
from rheos.core.connectors.contract import ReaderContext
from rheos.core.connectors.rejected_records import rejected_schema

FIELDS: Mapping[str, pa.DataType] = {"retained": pa.bool_(), "topic": pa.string()}
"""Fields of a message that may be columns."""
REJECTED = rejected_schema(
    pa.field("client_id", pa.string(), nullable=False), pa.field("message", pa.int64(), nullable=False)
)
_STEADY_S = 5.0
"""Seconds after which a connection is a success. If two clients have the same id, brokers close the
connection of each when the other connects."""
_WAIT_S = 0.1
_ROOM_WITHIN_S = 0.5


@dataclass(frozen=True, kw_only=True)
class SubscribedRows(AcknowledgedRows):
    """Configuration of a subscription. Frozen: it is sent to the workers."""

    options: MqttOptions
    filters: tuple[str, ...]
    client_id: str
    keeps_s: int
    """Seconds for which the broker keeps messages while the job is down."""
    retained: bool
    """Whether a new subscription receives the retained messages."""


@dataclass(slots=True)
class _OpenMessage:
    """A message that was received but not acknowledged."""

    number: int
    packet: int
    content: int
    """Hash of topic and payload."""


class UnacknowledgedMessages:
    """Messages that were received but not acknowledged, by their packet ids.

    After an interrupted connection, the broker sends them again with the same packet ids. They are not
    new then. Their number is bounded, since a packet id has 16 bits.
    """

    def __init__(self) -> None:
        self._received: dict[int, _OpenMessage] = {}
        """Messages of this connection, in their order."""
        self._before: dict[int, _OpenMessage] = {}
        """Messages of earlier connections that the broker has not sent again."""

    def reconnected(self, is_session_kept: bool) -> None:
        """Expect the messages of the connection that has ended, if the broker has kept the session."""
        if is_session_kept:
            self._before |= self._received
        else:
            self._before = {}
        self._received = {}

    def is_new(self, message: MqttMessage, number: int) -> bool:
        """Note a message, and return whether it was not received before.

        Args:
            message: the message.
            number: its number if it is new.
        """
        if not message.packet:
            return True
        content = hash((message.topic, message.payload))
        before = self._before.pop(message.packet, None)
        is_new = before is None or not message.again or before.content != content
        if is_new or before is None:
            before = _OpenMessage(number, message.packet, content)
        self._received.pop(message.packet, None)
        self._received[message.packet] = before
        return is_new

    def taken_to(self, number: int) -> list[int]:
        """Forget the messages of this connection up to a number, and return their packet ids."""
        found: list[int] = []
        for message in self._received.values():
            if message.number > number:
                break
            found.append(message.packet)
        for packet in found:
            del self._received[packet]
        return found


class MqttReading(AcknowledgedReading):
    """Reading of one subscription in a thread.

    Args:
        of: the rows.
        position: position of a checkpoint; None for a new job.
        ctx: context of the reader.
    """

    def __init__(
        self, of: SubscribedRows, position: MessagePosition | None, ctx: ReaderContext
    ) -> None:
        super().__init__("rheos-mqtt", of.client_id, of, position, ctx, LOGGER)
        self._of = of
        self._unacknowledged = UnacknowledgedMessages()
        self._doing = f"the topic {', '.join(of.filters)} cannot be read"

    # --- in the thread
    # ------------------------------------------------------------------------------

    def read(self) -> None:
        """Read until the buffer is closed."""
        of = self._of
        connection = MqttConnection(of.options, self._doing, of.client_id, of.keeps_s)
        try:
            self._unacknowledged.reconnected(connection.open())
            connection.subscribe(of.filters, 1 if of.retained else 2)
            steady_s: float | None = time.monotonic() + _STEADY_S
            while not self.buffer.is_closing:
                if steady_s is not None and time.monotonic() > steady_s:
                    self.patience.restore()
                    steady_s = None
                if self.buffer.wait_for_room(_ROOM_WITHIN_S):
                    connection.step(_WAIT_S)
                    arrived, connection.arrived = connection.arrived, []
                    self._give(arrived)
                else:
                    connection.keep_alive()
                self._acknowledge(connection)
            self._acknowledge(connection)
        finally:
            connection.close()

    def _give(self, arrived: Sequence[MqttMessage]) -> None:
        new: list[MqttMessage] = []
        for message in arrived:
            if self._unacknowledged.is_new(message, self.number + len(new) + 1):
                new.append(message)
        if new:
            self.give([message.payload for message in new], partial(_column, messages=new))

    def _acknowledge(self, connection: MqttConnection) -> None:
        for packet in self._unacknowledged.taken_to(self.complete):
            connection.acknowledge(packet)


def _column(name: str, messages: Sequence[MqttMessage]) -> pa.Array:
    if name == "topic":
        return pa.array([message.topic for message in messages], pa.string())
    return pa.array([message.retained for message in messages], pa.bool_())
