"""Publishing of rows: many messages are under way at once, and the server confirms each."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from rheos.connectors.name_patterns import NamePattern, NameSyntax
from rheos.connectors.rabbitmq.client_options import ANSWER_S, RabbitmqOptions, client
from rheos.connectors.rabbitmq.session import RabbitmqConnection, RabbitmqSession
from rheos.connectors.row_payloads import PayloadEncoder, RowPayloads
from rheos.core.connectors.schemas import shown_row
from rheos.core.errors import InputError, UnavailableError
from rheos.core.protocol.elements import Batch

OnUnrouted = Literal["fail", "drop"]

ROUTING_KEYS = NameSyntax(
    argument="routing_key",
    part="a word",
    names=r"[^{}\x00-\x1f]+",
    values=r"^[^.*#\x00-\x1f]+$",
    values_rule="is not empty, and has no dots, * or #",
    example="orders.{country}",
    most_bytes=255,
)
_PERSISTENT = 2


@dataclass(frozen=True)
class RabbitmqTarget:
    """Configuration of where and how rows are published. Frozen: it is sent to the workers."""

    options: RabbitmqOptions
    exchange: str
    routing_key: NamePattern
    payloads: RowPayloads
    on_unrouted: OnUnrouted
    is_persistent: bool

    @property
    def doing(self) -> str:
        """Return the begin of errors."""
        return f"rows cannot be published to {self.exchange or self.routing_key}"

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if rows of the schema cannot be published."""
        self.routing_key.check(schema)
        self.payloads.check(schema)


class PublishedMessages:
    """Messages that were published on one channel. The server numbers them from 1."""

    def __init__(self) -> None:
        self.published = 0
        self._open: set[int] = set()
        self._changed = asyncio.Event()
        self.refused = 0
        """Number of messages that the server could not store."""
        self.unrouted: list[str] = []
        """Routing keys of messages that no queue receives."""

    async def open(self, connection: RabbitmqConnection, exchange: str) -> None:
        """Request confirmations. Raises if the exchange does not exist."""
        channel = connection.channel
        if exchange:
            await connection.answer(
                lambda on: channel.exchange_declare(exchange, passive=True, callback=on)
            )
        channel.add_on_return_callback(self._on_return)
        connection.on_lost = self._changed.set
        await connection.answer(lambda on: channel.confirm_delivery(self._on_confirmed, callback=on))

    def sent(self) -> None:
        """Note that a message was published."""
        self.published += 1
        self._open.add(self.published)

    async def confirmed(self, connection: RabbitmqConnection) -> None:
        """Wait until no message is open. Raises TimeoutError if nothing is confirmed for seconds."""
        while self._open:
            if connection.lost is not None:
                raise connection.lost
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), ANSWER_S)

    def _on_confirmed(self, frame: Any) -> None:
        method = frame.method
        up_to = int(method.delivery_tag)
        if method.multiple:
            tags = {tag for tag in self._open if tag <= up_to}
        else:
            tags = {up_to} & self._open
        self._open -= tags
        if isinstance(method, client().spec.Basic.Nack):
            self.refused += len(tags)
        self._changed.set()

    def _on_return(self, channel: Any, method: Any, properties: Any, payload: bytes) -> None:
        self.unrouted.append(method.routing_key)


class RabbitmqPublishing:
    """Publishes rows over one session, and waits until the server has confirmed them."""

    def __init__(self, target: RabbitmqTarget, schema: pa.Schema) -> None:
        self._target = target
        self._encoder = PayloadEncoder(target.payloads, schema)
        self._session = RabbitmqSession(target.options, target.doing)
        self._messages: PublishedMessages | None = None

    def publish(self, rows: Batch) -> None:
        """Publish rows in their order.

        Args:
            rows: The rows, one of the `pieces` of a batch.

        Raises:
            UnavailableError: The server did not confirm all rows; it may have some of them.
            InputError: No queue receives one of the rows.
        """
        target = self._target
        payloads = self._encoder.encode(rows)
        keys = target.routing_key.names(rows)
        if self._session.is_lost:
            self.close()

        async def publish(connection: RabbitmqConnection) -> PublishedMessages:
            messages = self._messages or PublishedMessages()
            if self._messages is None:
                await messages.open(connection, target.exchange)
            properties = client().BasicProperties(
                delivery_mode=_PERSISTENT if target.is_persistent else None
            )
            for key, payload in zip(keys, payloads, strict=True):
                connection.channel.basic_publish(
                    target.exchange, key, payload, properties, mandatory=target.on_unrouted == "fail"
                )
                messages.sent()
            await messages.confirmed(connection)
            return messages

        try:
            self._messages = messages = self._session.call(publish)
        except BaseException:
            self._messages = None
            raise
        if messages.unrouted:
            row = keys.index(messages.unrouted[0]) if messages.unrouted[0] in keys else 0
            raise InputError(
                f"{target.doing}, at {target.options.address}: no queue receives messages with the "
                f"routing key {messages.unrouted[0]!r}",
                hint='create the queue and its binding, or write on_unrouted="drop"',
                record=shown_row(rows, row),
            )
        if messages.refused:
            self.close()
            raise UnavailableError(
                f"{target.doing}, at {target.options.address}: the server could not store "
                f"{messages.refused} messages",
                hint="check whether a queue has reached its maximum length, and the server's log",
            )

    def open(self) -> None:
        """Connect, and check that the exchange exists. Raises RheosError."""

        async def opened(connection: RabbitmqConnection) -> None:
            await PublishedMessages().open(connection, self._target.exchange)

        self._session.call(opened)

    def close(self) -> None:
        """Close the connection. A later call opens another."""
        self._messages = None
        self._session.close()
