"""Requests for the messages of a stream: a consumer that acknowledges nothing, and exists while it is
used."""

from __future__ import annotations

import asyncio
import datetime
from collections import deque
from dataclasses import dataclass
from typing import Any

import msgspec

from rheos.connectors.nats.client_options import ANSWER_S, client
from rheos.connectors.nats.session import NatsConnection

_BATCH = 4096
_BATCH_BYTES = 8 << 20
_MOST_PAYLOAD_BYTES = 64 << 20
"""Largest payload that a server can be configured to accept."""
_IDLE_S = 2.0
_KEPT_S = 300.0
"""Seconds for which the server keeps a consumer that requests nothing."""
_IDLE = ("404", "408")
"""Statuses by which a request ends because there are no messages."""
_FULL = ("Batch Completed", "Message Size Exceeds MaxBytes")
"""Descriptions of the status 409 by which a request ends because it has received what it asked for."""
_HEARTBEAT = "100"


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """One message of a stream."""

    number: int
    """Sequence number in the stream."""
    time_ns: int
    """Time at which the server has stored it."""
    pending: int
    """Number of messages that the consumer had not delivered yet."""
    subject: str
    payload: bytes
    headers: dict[str, str] | None


@dataclass(frozen=True)
class StreamEnds:
    """First and last message of a stream."""

    first: int
    last: int
    created_us: int
    """Time of creation. A stream that was created anew has another one."""


async def stream_ends(connection: NatsConnection, stream: str) -> StreamEnds:
    """Ask for the ends of a stream."""
    info = await connection.stream_api.stream_info(stream)
    created = info.created
    created_us = 0 if created is None else round(created.timestamp() * 1_000_000)
    return StreamEnds(info.state.first_seq, info.state.last_seq, created_us)


class StreamPull:
    """A consumer of a stream, and what it has delivered.

    Args:
        subject: filter of subjects; None for all.
        after: the consumer begins after the message of this number.
        since_ms: time at which it begins instead; None for `after`.
        waits: whether `take` waits for a message if the stream is exhausted.
        headers_only: whether messages come without their payloads.
    """

    def __init__(
        self,
        stream: str,
        subject: str | None,
        after: int,
        since_ms: int | None = None,
        *,
        waits: bool = True,
        headers_only: bool = False,
    ) -> None:
        self._stream = stream
        self._subject = subject
        self._after = after
        self._since_ms = since_ms
        self._waits = waits
        self._headers_only = headers_only
        self._name = ""
        self._request_subject = ""
        self._inbox = ""
        self._open_request = 0
        """Number of messages that the server may still deliver for the last request."""
        self._requests = 0
        self._delivered = 0
        """Number of messages that the consumer has delivered."""
        self._arrived: deque[Any] = deque()
        self._arrives: asyncio.Event

    async def open(self, connection: NatsConnection) -> None:
        """Create the consumer."""
        api = client().js.api
        begin: dict[str, Any] = {"deliver_policy": api.DeliverPolicy.ALL}
        if self._since_ms is not None:
            since = datetime.datetime.fromtimestamp(self._since_ms / 1000, datetime.UTC)
            begin = {"deliver_policy": api.DeliverPolicy.BY_START_TIME, "opt_start_time": since}
        elif self._after:
            begin = {
                "deliver_policy": api.DeliverPolicy.BY_START_SEQUENCE,
                "opt_start_seq": self._after + 1,
            }
        config = api.ConsumerConfig(
            ack_policy=api.AckPolicy.NONE,
            filter_subject=self._subject,
            inactive_threshold=_KEPT_S,
            headers_only=self._headers_only or None,
            mem_storage=True,
            num_replicas=1,
            **begin,
        )
        info = await connection.stream_api.add_consumer(self._stream, config)
        self._name = str(info.name)
        self._arrives = asyncio.Event()
        self._inbox = connection.nats.new_inbox()
        prefix = "$JS.API" if connection.domain is None else f"$JS.{connection.domain}.API"
        self._request_subject = f"{prefix}.CONSUMER.MSG.NEXT.{self._stream}.{self._name}"
        await connection.nats.subscribe(f"{self._inbox}.*", cb=self._on_message)

    async def take(self, connection: NatsConnection) -> list[StreamMessage]:
        """Return messages in their order; an empty list if none is available now.

        Raises:
            nats.errors.Error: The server has ended the request, or a message is missing.
        """
        taken: list[StreamMessage] = []
        while not taken:
            if not self._open_request:
                await self._request(connection)
            if not self._arrived:
                self._arrives.clear()
                await asyncio.wait_for(self._arrives.wait(), _IDLE_S + ANSWER_S)
            while self._arrived:
                message = self._arrived.popleft()
                if message.subject.startswith(self._inbox):
                    if self._is_idle(message):
                        return taken
                else:
                    taken.append(self._numbered(message))
                    self._open_request -= 1
        return taken

    async def is_exhausted(self, connection: NatsConnection) -> bool:
        """Return whether everything that the consumer can deliver was taken."""
        info = await connection.stream_api.consumer_info(self._stream, self._name)
        delivered = 0 if info.delivered is None else info.delivered.consumer_seq
        return not info.num_pending and delivered == self._delivered

    async def close(self, connection: NatsConnection) -> None:
        """Remove the consumer."""
        await connection.stream_api.delete_consumer(self._stream, self._name)

    async def _request(self, connection: NatsConnection) -> None:
        limits = {"batch": _BATCH, "max_bytes": _BATCH_BYTES + self._payload_bytes(connection)}
        # The server ends a request that waits by a message of its own.
        how = {"expires": int(_IDLE_S * 1e9)} if self._waits else {"no_wait": True}
        request = msgspec.json.encode({**limits, **how})
        self._requests += 1
        reply = f"{self._inbox}.{self._requests}"
        await connection.nats.publish(self._request_subject, request, reply=reply)
        self._open_request = _BATCH

    def _payload_bytes(self, connection: NatsConnection) -> int:
        return min(int(connection.nats.max_payload), _MOST_PAYLOAD_BYTES)

    async def _on_message(self, message: Any) -> None:
        self._arrived.append(message)
        self._arrives.set()

    def _is_idle(self, message: Any) -> bool:
        """Return whether a status of the server ends the last request because there are no messages."""
        headers = message.headers or {}
        status, described = headers.get("Status"), headers.get("Description", "")
        if message.subject != f"{self._inbox}.{self._requests}" or status == _HEARTBEAT:
            return False
        self._open_request = 0
        if status not in _IDLE and described not in _FULL:
            raise client().errors.Error(f"the server has ended a request: {status} {described}")
        return status in _IDLE

    def _numbered(self, message: Any) -> StreamMessage:
        # $JS.ACK.<domain>.<account>.<stream>.<consumer>.<times>.<number>.<delivered>.<ns>.<pending>...,
        # and without domain and account from servers that have neither.
        parts = message.reply.split(".")
        try:
            number, delivered, time_ns, pending = map(
                int, parts[5:9] if len(parts) == 9 else parts[7:11]
            )
        except ValueError:
            raise client().errors.Error(f"a message has the reply {message.reply!r}") from None
        if delivered != self._delivered + 1:
            raise client().errors.Error(f"delivery {self._delivered + 1} of the consumer is missing")
        self._delivered = delivered
        return StreamMessage(number, time_ns, pending, message.subject, message.data, message.headers)
