"""The simulated exchange of one attempt: FIFO lanes with drawn delays, clogs, and real frames.

Batches and marks between different subtasks pass through the wire codec, so the simulation tests it.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from rheos.core.errors import TransportError
from rheos.core.protocol import wire
from rheos.core.protocol.elements import Batch, Element, Mark
from rheos.core.protocol.ids import Attempt, ChannelId

Payload: TypeAlias = pa.RecordBatch | pa.Buffer | None

_TOKEN = b"simulate" * 2


class SimNetwork:
    """All lanes of an attempt."""

    def __init__(
        self,
        attempt: Attempt,
        schemas: Mapping[int, pa.Schema],
        initial_credits: int,
        now_us: Callable[[], int],
        delay_us: Callable[[], int],
    ) -> None:
        self.attempt = attempt
        self.decoders = {edge: wire.BatchDecoder(schema) for edge, schema in schemas.items()}
        self.initial_credits = initial_credits
        self.now_us = now_us
        self._delay_us = delay_us
        self._lanes: dict[ChannelId, deque[tuple[int, bytes, Payload]]] = {}
        self._channels: list[ChannelId] = []
        self._to: dict[int, list[ChannelId]] = {}
        """Channels by receiver, sorted."""
        self._credit_lanes: dict[int, dict[ChannelId, deque[int]]] = {}
        """Credits in transit, by sender."""
        self._last_us: dict[ChannelId, int] = {}
        self._clogged: dict[ChannelId, int] = {}

    def clog(self, channel: ChannelId, until_us: int) -> None:
        """Deliver nothing on the channel before that time."""
        self._clogged[channel] = until_us

    def channels(self) -> list[ChannelId]:
        """Return the channels that have carried anything, sorted."""
        return self._channels

    def put(self, channel: ChannelId, header: bytes, payload: Payload) -> None:
        lane = self._lanes.get(channel)
        if lane is None:
            lane = self._lanes[channel] = deque()
            insort(self._to.setdefault(channel.receiver, []), channel)
            insort(self._channels, channel)
        delay_us = 0 if channel.sender == channel.receiver else self._delay_us()
        # A lane is FIFO: a later element never arrives earlier.
        at_us = max(self.now_us() + delay_us, self._last_us.get(channel, 0))
        self._last_us[channel] = at_us
        lane.append((at_us, header, payload))

    def arrivals(self, receiver: int, limit: int) -> list[tuple[bytes, Payload]]:
        """Return the frames that have arrived for the subtask, in the order of arrival."""
        now_us = self.now_us()
        frames: list[tuple[bytes, Payload]] = []
        for channel in self._receiving(receiver):
            lane = self._lanes[channel]
            while lane and lane[0][0] <= now_us and len(frames) < limit:
                _, header, payload = lane.popleft()
                frames.append((header, payload))
        return frames

    def _receiving(self, receiver: int) -> list[ChannelId]:
        return [
            channel
            for channel in self._to.get(receiver, ())
            if self._clogged.get(channel, 0) <= self.now_us()
        ]

    def give_credit(self, channel: ChannelId) -> None:
        delay_us = 0 if channel.sender == channel.receiver else self._delay_us()
        lanes = self._credit_lanes.setdefault(channel.sender, {})
        lanes.setdefault(channel, deque()).append(self.now_us() + delay_us)

    def take_credits(self, sender: int) -> dict[ChannelId, int]:
        now_us = self.now_us()
        taken: dict[ChannelId, int] = {}
        for channel, lane in self._credit_lanes.get(sender, {}).items():
            while lane and lane[0] <= now_us:
                lane.popleft()
                taken[channel] = taken.get(channel, 0) + 1
        return taken

    def next_us(self, subtask: int) -> int | None:
        """Return the time at which the next frame or credit reaches the subtask."""
        times = [
            max(lane[0][0], self._clogged.get(channel, 0))
            for channel in self._to.get(subtask, ())
            if (lane := self._lanes[channel])
        ]
        times += [lane[0] for lane in self._credit_lanes.get(subtask, {}).values() if lane]
        return min(times, default=None)


class SimTransport:
    """A Transport (protocol/ports.py): one subtask's end of the network."""

    def __init__(self, network: SimNetwork, subtask: int) -> None:
        self._network = network
        self._subtask = subtask
        self._credits: dict[ChannelId, int] = {}
        self._sent: dict[ChannelId, int] = {}
        self._received: dict[ChannelId, int] = {}

    def credits(self, channel: ChannelId) -> int:
        return self._credits.get(channel, self._network.initial_credits)

    def send(self, channel: ChannelId, batch: Batch) -> None:
        left = self.credits(channel)
        assert left > 0, f"{channel} has no credit"
        self._credits[channel] = left - 1
        local = channel.receiver == self._subtask
        payload = batch if local else wire.encode_batch(batch)
        self._network.put(channel, self._header(channel, wire.FrameKind.BATCH), payload)

    def send_mark(self, channel: ChannelId, mark: Mark) -> None:
        kind, value = wire.mark_kind(mark)
        self._network.put(channel, self._header(channel, kind, value), None)

    def _header(self, channel: ChannelId, kind: wire.FrameKind, value: int = 0) -> bytes:
        sequence = self._sent.get(channel, 0)
        self._sent[channel] = sequence + 1
        return wire.encode_header(_TOKEN, self._network.attempt, channel, sequence, kind, value)

    def receive(self, max_elements: int) -> Sequence[tuple[ChannelId, Element]]:
        for channel, count in self._network.take_credits(self._subtask).items():
            self._credits[channel] = self.credits(channel) + count
            assert self._credits[channel] <= self._network.initial_credits
        return [
            self._decode(header, payload)
            for header, payload in self._network.arrivals(self._subtask, max_elements)
        ]

    def strangers(self) -> int:
        return 0

    def _decode(self, frame: bytes, payload: Payload) -> tuple[ChannelId, Element]:
        header = wire.decode_header(frame)
        channel = header.channel
        expected = self._received.get(channel, 0)
        if header.sequence != expected or header.attempt != self._network.attempt:
            raise TransportError(f"channel {channel} brought frame {header.sequence}, not {expected}")
        self._received[channel] = expected + 1
        if header.kind is not wire.FrameKind.BATCH:
            return channel, wire.mark_of(header)
        if isinstance(payload, pa.RecordBatch):
            return channel, payload
        assert payload is not None, "a batch has a payload"
        return channel, self._network.decoders[channel.edge].decode(payload)

    def release(self, channel: ChannelId) -> None:
        self._network.give_credit(channel)
