"""The input of a chain: its channels, their alignment at barriers, and their merged watermark. Pure.

Alignment (Flink's, after Chandy and Lamport): a channel that has delivered the barrier of the
checkpoint under way is not read until all channels have. A channel that has ended counts as having
delivered every later barrier. A newer barrier abandons an older alignment; a barrier that is not newer
than one already taken or aborted is dropped. The rules are in docs/protocols/exchange.md (EX5 to EX7).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from rheos.protocol.elements import Active, Barrier, Element, End, Idle, Watermark
from rheos.protocol.ids import ChannelId, CheckpointId
from rheos.task.watermarks import Activity, WatermarkMerger


class Event(Enum):
    """What a mark taken from the input means for the chain."""

    WATERMARK = "the merged watermark rose"
    ALIGNED = "every channel has delivered the barrier"
    ENDED = "every channel has ended"
    ACTIVITY = "the input as a whole may have fallen idle or come back"


@dataclass(slots=True)
class Channel:
    """One inbound channel. `queue` is bounded by the credits granted to its sender."""

    id: ChannelId
    port: int
    queue: deque[Element] = field(default_factory=deque)
    blocked: bool = False
    ended: bool = False


class InputGate:
    """Chooses what a chain takes next, and interprets the marks."""

    def __init__(self, channels: Sequence[tuple[ChannelId, int]]) -> None:
        self.channels = [Channel(id, port) for id, port in channels]
        self._index = {channel.id: i for i, channel in enumerate(self.channels)}
        self._next = 0
        self._watermarks = WatermarkMerger(len(self.channels))
        self.aligning: CheckpointId | None = None
        self._passed = 0
        """No barrier up to this checkpoint is of interest any more."""

    @property
    def watermark_ms(self) -> int:
        return self._watermarks.watermark_ms

    @property
    def idle(self) -> bool:
        return self._watermarks.idle

    @property
    def ended(self) -> bool:
        return all(channel.ended for channel in self.channels)

    def offer(self, id: ChannelId, element: Element) -> None:
        """An element has arrived on the channel."""
        channel = self.channels[self._index[id]]
        assert not channel.ended, f"EX5: {id} sent {element} after its end"
        channel.queue.append(element)

    def take(self) -> tuple[Channel, Element] | None:
        """The next element of a channel that may be read, round robin; None where there is none."""
        count = len(self.channels)
        for step in range(count):
            i = (self._next + step) % count
            channel = self.channels[i]
            if channel.queue and not channel.blocked:
                self._next = (i + 1) % count
                return channel, channel.queue.popleft()
        return None

    @property
    def ready(self) -> bool:
        return any(channel.queue and not channel.blocked for channel in self.channels)

    def interpret(self, channel: Channel, mark: Element) -> list[Event]:
        """What the mark, just taken from the channel, means; in the order to act in."""
        lane = self._index[channel.id]
        match mark:
            case Watermark(timestamp_ms):
                was_idle = self.idle
                rose = self._watermarks.advance(lane, timestamp_ms)
                events = [Event.ACTIVITY] if was_idle != self.idle else []
                return [*events, Event.WATERMARK] if rose else events
            case Idle() | Active():
                activity = Activity.IDLE if isinstance(mark, Idle) else Activity.ACTIVE
                rose = self._watermarks.set_activity(lane, activity)
                return [Event.WATERMARK, Event.ACTIVITY] if rose else [Event.ACTIVITY]
            case Barrier(checkpoint):
                return self._barrier(channel, checkpoint)
            case End():
                channel.ended = True
                rose = self._watermarks.set_activity(lane, Activity.ENDED)
                events = [Event.WATERMARK] if rose else []
                if self._aligned():
                    events.append(Event.ALIGNED)
                if self.ended:
                    events.append(Event.ENDED)
                elif self.idle:
                    events.append(Event.ACTIVITY)
                return events
        raise AssertionError(f"not a mark: {mark!r}")

    def _barrier(self, channel: Channel, checkpoint: CheckpointId) -> list[Event]:
        if checkpoint <= self._passed:
            return []
        if self.aligning is None or checkpoint > self.aligning:
            self._unblock()
            self.aligning = checkpoint
        elif checkpoint < self.aligning:
            return []
        channel.blocked = True
        return [Event.ALIGNED] if self._aligned() else []

    def _aligned(self) -> bool:
        return self.aligning is not None and all(c.blocked or c.ended for c in self.channels)

    def finish_alignment(self, checkpoint: CheckpointId) -> None:
        """The chain has taken its snapshot, or the checkpoint is aborted: channels are read again."""
        self._passed = max(self._passed, checkpoint)
        if self.aligning is not None and self.aligning <= checkpoint:
            self._unblock()
            self.aligning = None

    def _unblock(self) -> None:
        for channel in self.channels:
            channel.blocked = False
