"""The input of a chain: its channels, their barriers, and their merged watermark. Pure.

Alignment (as in Flink, after Chandy and Lamport): a channel that has delivered the barrier of a
checkpoint is not read until all channels have. If the gate does not block (at-least-once), it only
counts barriers. Several checkpoints may be in progress. A channel that has ended counts as having
delivered every later barrier. If a channel delivers a newer barrier without an older one, its sender
has abandoned the older checkpoint. The gate drops barriers of checkpoints that are taken or aborted.

Channels by which a loop returns to its head are exempt: the head gets its barrier from the other
channels, and records the rows that return before it (IT1). These channels carry no event time either.

A barrier may also overtake rows. Then the gate records the rows before it, those queued and those still
to arrive. The rules are in docs/protocols/exchange.md (EX5 to EX7, EX10 to EX15) and
docs/protocols/iterations.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import pyarrow as pa

from rheos.core.protocol.elements import (
    SWM,
    Active,
    Barrier,
    BarrierKind,
    Batch,
    Element,
    End,
    Idle,
    IterationMark,
    LatencyMark,
    Mark,
    WatermarkMark,
)
from rheos.core.protocol.ids import ChannelId, CheckpointId
from rheos.core.task.latency import GateLatency
from rheos.core.task.loop_end import IterationMarkMerger
from rheos.core.task.traffic import Traffic
from rheos.core.task.watermarks import Activity, WatermarkMerger

_TURNS = 4
"""One of this number of turns includes the channels that are ahead in event time."""


class GateEvent(Enum):
    """The meaning of a mark that was taken from the input."""

    WATERMARK = "the merged watermark rose"
    ALIGNED = "every channel has delivered a barrier"
    ENDED = "every channel has ended"
    ACTIVITY = "the input as a whole may have become idle or active again"
    LAP = "a lap of the loop has arrived on every channel"


@dataclass(slots=True)
class Channel:
    """One inbound channel. Its sender's credits bound `queue`; for feedback, the loop's capacity."""

    id: ChannelId
    port: int
    feedback: bool = False
    """Whether it returns rows of a loop to the loop's head."""
    cycle: bool = False
    """Whether it is part of a loop."""
    queue: deque[Element] = field(default_factory=deque)
    blocked: int = 0
    """Checkpoint whose barrier the channel has delivered and for which it is held; 0 if it is not
    held."""
    closed: bool = False
    """Whether the channel's End has arrived."""
    ended: bool = False
    """Whether the channel's End has been taken."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A barrier that has arrived on some channel, and is not yet processed."""

    barrier: Barrier
    at_us: int
    """Time when the first one arrived, on the monotonic clock."""


@dataclass(slots=True)
class RecordedRows:
    """Rows before a barrier that has overtaken them (EX12), or rows that return in a loop (IT1)."""

    checkpoint: CheckpointId
    pending: set[int]
    """Channels that have not delivered the barrier."""
    batches: list[tuple[int, Batch]] = field(default_factory=list)
    """Recorded rows by port; those of one channel are in order."""
    abandoned: bool = False
    ended_us: int | None = None
    """Time when the last barrier arrived."""

    @property
    def complete(self) -> bool:
        return not self.pending and not self.abandoned


@dataclass(slots=True)
class _Alignment:
    barrier: Barrier
    lanes: set[int] = field(default_factory=set)
    """Channels that have delivered the barrier."""


class InputGate:
    """Chooses the element that a chain takes next, and interprets marks."""

    def __init__(
        self,
        channels: Sequence[tuple[ChannelId, int]],
        now_us: Callable[[], int],
        *,
        blocking: bool = True,
        untimed: Collection[int] = (),
        feedback: Collection[int] = (),
        cycle: Collection[int] = (),
    ) -> None:
        """Create the gate. `channels` are the channels with their ports. If only some ports have event
        time, the others are `untimed`, and do not hold event time back. `cycle` contains the edges of a
        loop, and `feedback` those that lead to its head."""
        self.channels = [
            Channel(id, port, id.edge in feedback, id.edge in cycle) for id, port in channels
        ]
        self.of_loop = any(channel.feedback for channel in self.channels)
        """Whether the gate belongs to the head of a loop."""
        self.feedback_rows = 0
        """Number of waiting rows that have returned in the loop."""
        self.feedback_taken = 0
        """Number of returned rows that were taken."""
        self.over = False
        """Whether the loop has ended. Rows that return after that are dropped and counted."""
        self.dropped_rows = 0
        self.sojourn: GateLatency | None = None
        """Measurement of the time of batches in the chain; None if it is not needed."""
        self.lap = IterationMark(0, quiet=False)
        """Last iteration mark that has arrived on all channels of the loop."""
        self._inflow = [channel for channel in self.channels if not channel.feedback]
        self._of_loop = [channel for channel in self.channels if channel.cycle]
        self._outside = [channel for channel in self.channels if not channel.cycle]
        self._laps = IterationMarkMerger(
            [n for n, channel in enumerate(self.channels) if channel.cycle]
        )
        self._now_us = now_us
        self._blocking = blocking
        self._index = {channel.id: i for i, channel in enumerate(self.channels)}
        self._traffic = {channel.id.edge: Traffic() for channel in self.channels}
        """Rows and bytes that have arrived, by edge."""
        self._queued = 0
        """Number of elements in the queues of all channels, so that an empty gate is not searched."""
        self._next = 0
        self._turn = 0
        """Number of the turn, modulo `_TURNS`."""
        self._left_out: Collection[int] = ()
        """Channels that let the others go first in this turn."""
        self._watermarks = WatermarkMerger(
            len(channels),
            [n for n, of in enumerate(self.channels) if of.feedback or of.port in untimed],
        )
        self._arrivals: dict[CheckpointId, Arrival] = {}
        self._alignments: dict[CheckpointId, _Alignment] = {}
        self._recordings: list[RecordedRows] = []
        self._passed = 0
        """Newest checkpoint that was taken; barriers up to it are ignored."""
        self._aborted: set[CheckpointId] = set()
        """Later checkpoints that were aborted; their barriers are ignored, too."""

    @property
    def watermark_ms(self) -> int:
        return self._watermarks.watermark_ms

    @property
    def idle(self) -> bool:
        return self._watermarks.idle

    @property
    def ended(self) -> bool:
        return all(channel.ended for channel in self._inflow)

    @property
    def closed(self) -> bool:
        """Return whether nothing more will arrive."""
        return all(channel.closed for channel in self._inflow)

    def traffic(self) -> Iterator[tuple[int, Traffic, int]]:
        """Yield for each edge its traffic and the number of waiting elements."""
        for edge, came in self._traffic.items():
            yield edge, came, sum(len(c.queue) for c in self.channels if c.id.edge == edge)

    @property
    def holds_loop(self) -> bool:
        """Return whether a channel of the loop is held for a barrier."""
        return any(channel.blocked for channel in self._of_loop)

    # --- elements ---------------------------------------------------------------------------------

    def offer(self, id: ChannelId, element: Element) -> None:
        """Add an element that has arrived on the channel."""
        lane = self._index[id]
        channel = self.channels[lane]
        assert not channel.closed, f"EX5: {id} sent {element} after its end"
        if channel.feedback and isinstance(element, pa.RecordBatch):
            if self.over:
                self.dropped_rows += element.num_rows
                return
            self.feedback_rows += element.num_rows
        channel.queue.append(element)
        self._queued += 1
        if self._recordings:
            self._record(lane, element)
        if element.__class__ is pa.RecordBatch:
            self._traffic[id.edge].add(element)
            if self.sojourn is not None:
                self.sojourn.arrived(element)
        else:
            self._arrived(channel, element)

    def _arrived(self, channel: Channel, mark: Element) -> None:
        if isinstance(mark, Barrier):
            if self._is_live(mark.checkpoint) and mark.checkpoint not in self._arrivals:
                self._arrivals[mark.checkpoint] = Arrival(mark, self._now_us())
        elif isinstance(mark, End):
            channel.closed = True

    def take(self, ready: Callable[[Channel], bool] | None = None) -> tuple[Channel, Element] | None:
        """Take the next element of a readable channel; None if no channel has one. Channels take turns,
        but those that are ahead in event time mostly let the others go first. `ready` returns whether
        the first element of a channel may be taken yet."""
        if not self._queued:
            return None
        self._turn = (self._turn + 1) % _TURNS
        # Rows that are ahead would only wait in windows and joins for those of other channels. While
        # they wait in their channel, its sender runs out of credit, and the others catch up.
        self._left_out = self._watermarks.ahead if self._turn and not self._arrivals else ()
        taken = self._take_next(ready)
        if taken is None and self._left_out:
            self._left_out = ()
            taken = self._take_next(ready)
        return taken

    def _take_next(self, ready: Callable[[Channel], bool] | None) -> tuple[Channel, Element] | None:
        count, left_out = len(self.channels), self._left_out
        for step in range(count):
            i = (self._next + step) % count
            channel = self.channels[i]
            if not channel.queue or channel.blocked or i in left_out:
                continue
            if ready is None or ready(channel):
                self._next = (i + 1) % count
                element = channel.queue.popleft()
                self._note_departure(channel, element)
                return channel, element
        return None

    def take_rows(self, edge: int, max_rows: int) -> tuple[Channel, Batch] | None:
        """Take the next batch of a readable channel of the edge, round robin, if it has at most
        `max_rows` rows; None if no channel has one. It comes after the element that `take` returned."""
        if not self._queued:
            return None
        count, left_out = len(self.channels), self._left_out
        for step in range(count):
            i = (self._next + step) % count
            channel = self.channels[i]
            if not channel.queue or channel.blocked or channel.id.edge != edge or i in left_out:
                continue
            element = channel.queue[0]
            if isinstance(element, pa.RecordBatch) and element.num_rows <= max_rows:
                self._next = (i + 1) % count
                channel.queue.popleft()
                self._note_departure(channel, element)
                return channel, element
        return None

    def remove(self, channel: Channel, place: int) -> None:
        """Remove an element of a channel's queue, whose rows have left in another way."""
        del channel.queue[place]
        self._queued -= 1

    def _note_departure(self, channel: Channel, taken: Element) -> None:
        self._queued -= 1
        if self.sojourn is not None:
            self.sojourn.took(taken)
        if channel.feedback and isinstance(taken, pa.RecordBatch):
            self.feedback_rows -= taken.num_rows
            self.feedback_taken += taken.num_rows

    def merged(self, channel: Channel, batch: Batch) -> Batch:
        """Return the batch, just taken from the channel, with its `__swm` merged with the watermarks of
        the other channels. It never decreases, and is at or above `watermark_ms`."""
        column = batch.schema.get_field_index(SWM)
        if column < 0:
            return batch
        reached = np.maximum.accumulate(batch.column(column).to_numpy())
        others_ms = self._watermarks.others(self._index[channel.id])
        np.clip(reached, None, others_ms, out=reached)
        np.clip(reached, self.watermark_ms, None, out=reached)
        return batch.set_column(column, batch.schema.field(column), pa.array(reached))

    def interpret(self, channel: Channel, mark: Mark) -> list[GateEvent]:
        """Return the meanings of the mark that was just taken from the channel, in the order in which
        to act on them."""
        lane = self._index[channel.id]
        match mark:
            case WatermarkMark() | Idle() | Active() if self.of_loop:
                return []  # A loop has no event time.
            case WatermarkMark(timestamp_ms):
                was_idle = self.idle
                rose = self._watermarks.advance(lane, timestamp_ms)
                events = [GateEvent.ACTIVITY] if was_idle != self.idle else []
                return [*events, GateEvent.WATERMARK] if rose else events
            case Idle() | Active():
                activity = Activity.IDLE if isinstance(mark, Idle) else Activity.ACTIVE
                rose = self._watermarks.set_activity(lane, activity)
                return [GateEvent.WATERMARK, GateEvent.ACTIVITY] if rose else [GateEvent.ACTIVITY]
            case Barrier():
                return self._delivered(lane, mark)
            case End():
                channel.ended = True
                rose = self._watermarks.set_activity(lane, Activity.ENDED)
                events = [GateEvent.WATERMARK] if rose and not self.of_loop else []
                if self.aligned() is not None:
                    events.append(GateEvent.ALIGNED)
                if self.ended:
                    events.append(GateEvent.ENDED)
                elif self.idle:
                    events.append(GateEvent.ACTIVITY)
                return [*events, *self._lapped()]
            case LatencyMark():
                return []
            case IterationMark():
                self._laps.came(lane, mark)
                return self._lapped()

    def _lapped(self) -> list[GateEvent]:
        """Return the event of an iteration mark to forward: it has arrived on all channels of the loop,
        and the other channels have ended."""
        lap = self._laps.merged() if all(channel.ended for channel in self._outside) else None
        if lap is None:
            return []
        self.lap = lap
        return [GateEvent.LAP]

    # --- barriers ---------------------------------------------------------------------------------

    def _is_live(self, checkpoint: CheckpointId) -> bool:
        return checkpoint > self._passed and checkpoint not in self._aborted

    def _delivered(self, lane: int, barrier: Barrier) -> list[GateEvent]:
        checkpoint = barrier.checkpoint
        if not self._is_live(checkpoint):
            return []
        for older in [n for n, a in self._alignments.items() if n < checkpoint and lane not in a.lanes]:
            self.abort(older)
        alignment = self._alignments.setdefault(checkpoint, _Alignment(barrier))
        alignment.lanes.add(lane)
        if self._blocking or barrier.kind is BarrierKind.SAVEPOINT:
            self.channels[lane].blocked = checkpoint
        return [GateEvent.ALIGNED] if self.aligned() is not None else []

    def aligned(self) -> Arrival | None:
        """Return the earliest barrier that all channels except feedback have delivered, or None."""
        for checkpoint in sorted(self._alignments):
            lanes = self._alignments[checkpoint].lanes
            if all(
                i in lanes or channel.ended or channel.feedback
                for i, channel in enumerate(self.channels)
            ):
                return self._arrivals[checkpoint]
        return None

    def earliest(self) -> Arrival | None:
        """Return the earliest barrier that has arrived and is not yet processed, or None."""
        return self._arrivals[min(self._arrivals)] if self._arrivals else None

    def finish_alignment(self, checkpoint: CheckpointId) -> None:
        """Read all channels again, after the chain has taken its snapshot."""
        self._passed = max(self._passed, checkpoint)
        for passed in [n for n in self._arrivals if n <= checkpoint]:
            self._drop(passed)
        self._aborted = {n for n in self._aborted if n > self._passed}

    def abort(self, checkpoint: CheckpointId) -> None:
        """Stop holding channels and recording rows for an aborted checkpoint."""
        if checkpoint > self._passed:
            self._aborted.add(checkpoint)
        self._drop(checkpoint)
        for recording in self._recordings:
            if recording.checkpoint == checkpoint:
                self._abandon(recording)
        self._recordings = [r for r in self._recordings if not r.abandoned]

    def _drop(self, checkpoint: CheckpointId) -> None:
        self._arrivals.pop(checkpoint, None)
        self._alignments.pop(checkpoint, None)
        for channel in self.channels:
            if channel.blocked == checkpoint:
                channel.blocked = 0

    # --- overtaken rows ---------------------------------------------------------------------------

    def overtake(self, checkpoint: CheckpointId) -> RecordedRows:
        """Record the rows before the barrier, and rows that return in a loop before it. The chain has
        taken its snapshot without them."""
        delivered = self._alignments[checkpoint].lanes if checkpoint in self._alignments else set()
        recording = RecordedRows(checkpoint, set(range(len(self.channels))) - delivered)
        self._recordings.append(recording)
        for lane, channel in enumerate(self.channels):
            if channel.ended:
                recording.pending.discard(lane)
            for element in channel.queue:
                self._record_in(recording, lane, element)
        self.finish_alignment(checkpoint)
        self._settle()
        return recording

    def _record(self, lane: int, element: Element) -> None:
        for recording in self._recordings:
            self._record_in(recording, lane, element)
        self._settle()

    def _record_in(self, recording: RecordedRows, lane: int, element: Element) -> None:
        if lane not in recording.pending:
            return
        if isinstance(element, pa.RecordBatch):
            recording.batches.append((self.channels[lane].port, element))
        elif isinstance(element, End):
            recording.pending.discard(lane)
        elif isinstance(element, Barrier) and element.checkpoint >= recording.checkpoint:
            recording.pending.discard(lane)
            if element.checkpoint > recording.checkpoint:
                self._abandon(recording)

    def _settle(self) -> None:
        for recording in self._recordings:
            if not recording.pending:
                recording.ended_us = self._now_us()
        self._recordings = [r for r in self._recordings if r.pending and not r.abandoned]

    def _abandon(self, recording: RecordedRows) -> None:
        recording.abandoned = True
        recording.batches.clear()
