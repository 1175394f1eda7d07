"""The exchange of one subtask with its peers over any kind of connection: credits, and valid frames.

A subtask passes its own elements to itself unchanged. docs/protocols/exchange.md describes frames and
invariants.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from rheos.core.errors import TransportError
from rheos.core.protocol import wire
from rheos.core.protocol.elements import Batch, Element, Mark
from rheos.core.protocol.ids import Attempt, ChannelId
from rheos.runtimes.host.sockets import is_of

Part: TypeAlias = bytes | memoryview

CONNECTIONS_BY_PEER = 2
"""Number of connections to each other subtask: one for each direction of rows."""


class FramedTransport(ABC):
    """A Transport (protocol/ports.py) between processes. Only the main thread may use it, except for
    the function that `waker` returns."""

    address: str
    """Address to which the other subtasks connect."""

    def __init__(
        self,
        *,
        attempt: Attempt,
        subtask: int,
        token: bytes,
        schemas: Mapping[int, pa.Schema],
        initial_credits: int,
    ) -> None:
        self._attempt = attempt
        self._subtask = subtask
        self._token = token
        self._decoders = {edge: wire.BatchDecoder(schema) for edge, schema in schemas.items()}
        self._initial_credits = initial_credits
        self._dropped = 0
        """Number of dropped frames and connections of unauthenticated peers."""
        self._credits: dict[ChannelId, int] = {}
        self._sent: dict[ChannelId, int] = {}
        self._received: dict[ChannelId, int] = {}
        self._local: deque[tuple[ChannelId, Element]] = deque()
        self._owed: dict[tuple[int, int], int] = {}
        """Credits to return, by (sender, edge). They are sent together at the next read."""

    # --- the connection ---------------------------------------------------------------------------

    @abstractmethod
    def connect(self, addresses: Sequence[str]) -> None:
        """Connect to every peer; `addresses` is by subtask. Called once, before anything is sent."""

    @abstractmethod
    def waker(self) -> Callable[[], None]:
        """Return a function that wakes `wait` from any thread, and does nothing after `close`. Called
        once."""

    @abstractmethod
    def _sleep(self, timeout_us: int) -> None:
        """Return when something has arrived, the waker was called, or the time is over."""

    @abstractmethod
    def _put(self, receiver: int, header: bytes, payload: pa.Buffer | None) -> None:
        """Send a frame, without waiting."""

    @abstractmethod
    def _take(self, max_frames: int) -> Iterable[Sequence[Part]]:
        """Return the frames that have arrived: the header and the payload of each."""

    @abstractmethod
    def _put_credit(self, sender: int, credit: bytes) -> None:
        """Send a credit, without waiting. If the sender has gone, drop the credit or raise
        TransportError."""

    @abstractmethod
    def _take_credits(self) -> Iterable[tuple[int, bytes]]:
        """Return the credits that have arrived, each with the receiver that granted it."""

    @abstractmethod
    def close(self) -> None:
        """Close every socket, and drop what is still queued."""

    # --- the contract -----------------------------------------------------------------------------

    def wait(self, timeout_us: int) -> None:
        """Return when something has arrived, the waker was called, or the time is over."""
        if self._local:
            return
        self._return_credits()
        self._sleep(timeout_us)

    def strangers(self) -> int:
        return self._dropped

    def credits(self, channel: ChannelId) -> int:
        return self._credits.get(channel, self._initial_credits)

    def send(self, channel: ChannelId, batch: Batch) -> None:
        left = self.credits(channel)
        assert left > 0, f"EX1: {channel} has no credit"
        self._credits[channel] = left - 1
        if channel.receiver == self._subtask:
            self._local.append((channel, batch))
            return
        payload = wire.encode_batch(batch)
        if payload.size > wire.MAX_FRAME_BYTES:
            raise TransportError(
                f"a batch of {batch.num_rows} rows has {payload.size} bytes, but a frame has at "
                f"most {wire.MAX_FRAME_BYTES}",
                hint="lower batch_rows",
            )
        self._put(channel.receiver, self._header(channel, wire.FrameKind.BATCH), payload)

    def send_mark(self, channel: ChannelId, mark: Mark) -> None:
        if channel.receiver == self._subtask:
            self._local.append((channel, mark))
            return
        kind, value = wire.mark_kind(mark)
        self._put(channel.receiver, self._header(channel, kind, value), None)

    def _header(self, channel: ChannelId, kind: wire.FrameKind, value: int = 0) -> bytes:
        sequence = self._sent.get(channel, 0)
        self._sent[channel] = sequence + 1
        return wire.encode_header(self._token, self._attempt, channel, sequence, kind, value)

    def receive(self, max_elements: int) -> Sequence[tuple[ChannelId, Element]]:
        self._return_credits()
        for receiver, credit in self._take_credits():
            self._credited(receiver, credit)
        elements: list[tuple[ChannelId, Element]] = []
        while self._local and len(elements) < max_elements:
            elements.append(self._local.popleft())
        for parts in self._take(max_elements - len(elements)):
            element = self._decode(parts)
            if element is None:
                self._dropped += 1
            else:
                elements.append(element)
        return elements

    def _decode(self, parts: Sequence[Part]) -> tuple[ChannelId, Element] | None:
        """Return a frame's element; None for an unauthenticated peer (EX3), or an attempt that is
        over."""
        if not parts or not is_of(self._token, parts[0][: wire.TOKEN_BYTES]):
            return None
        header = wire.decode_header(bytes(parts[0][: wire.HEADER_BYTES + 1]))
        channel = header.channel
        if header.attempt != self._attempt:
            return None
        if channel.receiver != self._subtask or channel.edge not in self._decoders:
            raise TransportError(f"a frame for channel {channel} was sent to subtask {self._subtask}")
        is_batch = header.kind is wire.FrameKind.BATCH
        if len(parts) != (2 if is_batch else 1):
            raise TransportError(f"channel {channel} sent a {header.kind.name} of {len(parts)} parts")
        expected = self._received.get(channel, 0)
        if header.sequence != expected:
            raise TransportError(
                f"channel {channel} sent frame {header.sequence}, not {expected}: one was lost "
                "or duplicated"
            )
        self._received[channel] = expected + 1
        if is_batch:
            return channel, self._decoders[channel.edge].decode(parts[1])
        return channel, wire.mark_of(header)

    def release(self, channel: ChannelId) -> None:
        if channel.sender == self._subtask:
            self._credits[channel] += 1
            return
        key = (channel.sender, channel.edge)
        self._owed[key] = self._owed.get(key, 0) + 1

    def _return_credits(self) -> None:
        if not self._owed:
            return
        for (sender, edge), count in self._owed.items():
            self._put_credit(sender, wire.encode_credit(self._token, self._attempt, edge, count))
        self._owed.clear()

    def _credited(self, receiver: int, frame: bytes) -> None:
        if not is_of(self._token, frame):
            self._dropped += 1
            return
        attempt, edge, count = wire.decode_credit(frame)
        if attempt != self._attempt:
            self._dropped += 1
            return
        channel = ChannelId(edge, self._subtask, receiver)
        credits = self.credits(channel) + count
        if credits > self._initial_credits:
            raise TransportError(f"EX1: subtask {receiver} returned too many credits for {channel}")
        self._credits[channel] = credits
