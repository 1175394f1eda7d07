"""The outputs of a chain: rows divided by target, buffered, and sent while there is credit.

A full buffer is sent as soon as there is credit. A buffer that is not full is sent after the buffer
timeout, once no batch of its channel is in transit or waits at the receiver. Rows that would wait there
collect here, and are sent as one batch. Marks keep their place after buffered rows; a newer watermark
replaces one that waits.

If a barrier may overtake (an unaligned checkpoint), the current work may write beyond the bound. Marks
wait in their place among the rows, and the barrier is sent before all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from rheos.core.plan.physical import Edge, PlannedOperator
from rheos.core.protocol.elements import Barrier, Batch, Element, End, LatencyMark, Mark, WatermarkMark
from rheos.core.protocol.ids import ChannelId
from rheos.core.protocol.ports import Clock, Transport
from rheos.core.task.config import TaskConfig
from rheos.core.task.deadlines import earlier
from rheos.core.task.in_flight_rows import InFlight
from rheos.core.task.routing import router
from rheos.core.task.traffic import Traffic


@dataclass(slots=True)
class _Lane:
    """Rows and marks that wait to be sent on one channel."""

    channel: ChannelId
    pieces: list[Batch] = field(default_factory=list)
    rows: int = 0
    since_us: int = 0
    """Time when the oldest buffered row was written."""
    watermark: WatermarkMark | None = None
    """Watermark to send after the buffered rows."""
    latency: LatencyMark | None = None
    """Latency mark to send after the buffered rows."""
    sealed: deque[Element] = field(default_factory=deque)
    """Rows and marks left from an overdraft; they are sent before the buffered rows."""
    held: bool = False
    """Whether the lane has a full buffer, or sealed elements, and waits for credit."""
    ended: bool = False
    """Whether the lane's End has been sent."""

    def marks(self) -> Iterator[Mark]:
        """Remove and yield the marks that follow the buffered rows."""
        if self.watermark is not None:
            yield self.watermark
            self.watermark = None
        if self.latency is not None:
            yield self.latency
            self.latency = None


class OutputEdge:
    """The sending side of one edge in one subtask."""

    def __init__(
        self,
        edge: Edge,
        subtask: int,
        parallelism: int,
        senders: int,
        width: int,
        max_parallelism: int,
        config: TaskConfig,
        transport: Transport,
        clock: Clock,
        *,
        polls: bool = False,
        ahead: bool = False,
    ) -> None:
        """Create the edge. `senders` of the `parallelism` sending subtasks have rows, and `width`
        receiving subtasks take them. `polls`: the rows come from a source. `ahead`: the receiver
        processes several batches of a channel at once."""
        self.edge = edge
        self.traffic = Traffic()
        """Number of batches, rows and bytes sent."""
        self._granted = config.credits
        self._transport = transport
        self._clock = clock
        self._polls = polls
        self._router = router(edge, subtask, senders, width, max_parallelism)
        peers = edge.peers(subtask, parallelism)
        self._lanes = [_Lane(ChannelId(edge.id, subtask, peer)) for peer in peers]
        self._width = min(width, len(self._lanes))
        """Number of lanes that rows may use."""
        self._next_marked = subtask % self._width
        self._timeout_us: int | None = None
        self._full_rows = 1
        self._eager_from = 1 if ahead else config.credits
        """Minimum number of a channel's credits for sending a buffer that is not full."""
        self._held = 0
        """Number of lanes that are held."""
        self.overdraft = False
        """Whether rows are accepted beyond the bound, for work that must no longer be suspended."""
        self.configure(config)

    def configure(self, config: TaskConfig) -> None:
        """Apply the size and the timeout of buffers from now on."""
        self._timeout_us = config.flush_after_us(polls=self._polls)
        self._full_rows = config.full_rows(self._router.shares)
        for lane in self._lanes:
            if lane.held and not lane.sealed and lane.rows < self._full_rows:
                self._release(lane)

    def oldest_us(self) -> int | None:
        """Return when the oldest buffered row was written, on the monotonic clock."""
        return min((lane.since_us for lane in self._lanes if lane.pieces), default=None)

    @property
    def writable(self) -> bool:
        """Return whether rows may be written. A buffer exceeds its bound by one write at most."""
        return self._held == 0 or self.overdraft

    @property
    def buffered_rows(self) -> int:
        """Return the number of buffered rows, without those left from an overdraft."""
        return sum(lane.rows for lane in self._lanes)

    @property
    def credits_used(self) -> int:
        """Return the number of batches that were sent but not processed, over all channels."""
        return sum(self._granted - self._transport.credits(lane.channel) for lane in self._lanes)

    @property
    def empty(self) -> bool:
        return not any(lane.pieces or lane.sealed for lane in self._lanes)

    def write(self, batch: Batch) -> None:
        """Buffer rows for their targets. The caller has checked `writable`."""
        for lane, piece in self._router.route(batch):
            self._append(self._lanes[lane], piece)

    def _append(self, lane: _Lane, piece: Batch) -> None:
        if not lane.pieces:
            lane.since_us = self._clock.monotonic_us()
        lane.pieces.append(piece)
        lane.rows += piece.num_rows
        if lane.rows >= self._full_rows:
            if not lane.sealed and self._transport.credits(lane.channel) > 0:
                self._send(lane)
            else:
                self._hold(lane)

    def _hold(self, lane: _Lane) -> None:
        if not lane.held:
            lane.held = True
            self._held += 1

    def _release(self, lane: _Lane) -> None:
        if lane.held:
            lane.held = False
            self._held -= 1

    def _send(self, lane: _Lane) -> None:
        pieces = lane.pieces
        self._send_batch(lane, pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces))
        lane.pieces = []
        lane.rows = 0
        if lane.held:
            self._release(lane)
        for mark in lane.marks():
            self._transport.send_mark(lane.channel, mark)

    def _send_batch(self, lane: _Lane, batch: Batch) -> None:
        self.traffic.add(batch)
        self._transport.send(lane.channel, batch)

    def pump(self, *, force: bool = False) -> bool:
        """Send buffers that are full or old enough, or with `force` all, as far as credit allows.

        Return whether anything was sent.
        """
        sent = False
        now_us = self._clock.monotonic_us() if self._timeout_us else 0
        for lane in self._lanes:
            if lane.sealed:
                sent |= self._send_sealed(lane)
            if not lane.pieces or lane.sealed:
                continue
            credits = self._transport.credits(lane.channel)
            if credits <= 0:
                continue
            if force or lane.rows >= self._full_rows or self._is_due(lane, credits, now_us):
                self._send(lane)
                sent = True
        return sent

    def _is_due(self, lane: _Lane, credits: int, now_us: int) -> bool:
        timeout_us = self._timeout_us
        return (
            timeout_us is not None
            and credits >= self._eager_from
            and (timeout_us == 0 or now_us - lane.since_us >= timeout_us)
        )

    def next_flush_us(self) -> int | None:
        """Return when the buffer timeout expires next, on the monotonic clock; None if it does not.

        Lanes that wait for credit do not count: its arrival wakes the task.
        """
        if self._timeout_us is None:
            return None
        waiting = [
            lane.since_us
            for lane in self._lanes
            if lane.pieces
            and not lane.sealed
            and self._transport.credits(lane.channel) >= self._eager_from
        ]
        return min(waiting) + self._timeout_us if waiting else None

    def mark(self, mark: Mark) -> None:
        """Send a mark to every target, after the rows before it.

        Watermarks may wait with buffered rows. For other marks, the caller has flushed the buffers
        (`empty`); in an overdraft, they wait as well.
        """
        for lane in self._lanes:
            if isinstance(mark, WatermarkMark) and lane.pieces:
                lane.watermark = mark
            elif lane.pieces or lane.sealed:
                assert self.overdraft or isinstance(mark, WatermarkMark), (
                    f"EX4: edge {self.edge.id}: {mark} overtakes buffered rows"
                )
                self._seal(lane)
                lane.sealed.append(mark)
            else:
                self._send_mark(lane, mark)

    def latency(self, mark: LatencyMark) -> None:
        """Send a latency marker to one target: the next one with buffered rows, or just the next."""
        count = self._width
        order = [self._lanes[(self._next_marked + step) % count] for step in range(count)]
        lane = next((each for each in order if each.pieces), order[0])
        self._next_marked = (self._next_marked + 1) % count
        if lane.ended:
            return
        if lane.pieces:
            lane.latency = lane.latency or mark
        elif lane.sealed:
            lane.sealed.append(mark)
        else:
            self._transport.send_mark(lane.channel, mark)

    def _send_mark(self, lane: _Lane, mark: Mark) -> None:
        self._transport.send_mark(lane.channel, mark)
        lane.ended |= isinstance(mark, End)

    # --- overdraft and overtaking -----------------------------------------------------------------

    def _seal(self, lane: _Lane) -> None:
        """Move the buffered rows to the sealed elements, before anything that is written later."""
        if lane.pieces:
            lane.sealed.append(pa.concat_batches(lane.pieces))
            lane.pieces = []
            lane.rows = 0
            lane.sealed.extend(lane.marks())
        self._hold(lane)

    def _send_sealed(self, lane: _Lane) -> bool:
        sent = False
        while lane.sealed:
            element = lane.sealed[0]
            if not isinstance(element, pa.RecordBatch):
                self._send_mark(lane, element)
            elif self._transport.credits(lane.channel) > 0:
                self._send_batch(lane, element)
            else:
                return sent
            lane.sealed.popleft()
            sent = True
        if lane.rows < self._full_rows:
            self._release(lane)
        return sent

    def overtake(self, barrier: Barrier) -> dict[int, list[Batch]]:
        """Send the barrier before everything that waits here. Return the overtaken rows by receiving
        subtask, in order (EX12)."""
        overtaken: dict[int, list[Batch]] = {}
        for lane in self._lanes:
            if lane.ended:
                continue  # EX5: End counts as every later barrier.
            waiting = [e for e in lane.sealed if isinstance(e, pa.RecordBatch)] + lane.pieces
            if waiting:
                overtaken[lane.channel.receiver] = waiting
            self._transport.send_mark(lane.channel, barrier)
        return overtaken


class Outputs:
    """All outputs of one subtask of a chain; `readers` has the receiving operator of each."""

    def __init__(self, edges: Mapping[int, OutputEdge], readers: Mapping[int, PlannedOperator]) -> None:
        self.edges = edges
        self._all = list(edges.values())
        self.cycle = [id for id, edge in edges.items() if edge.edge.loop is not None]
        """Edges that are part of a loop."""
        self._readers = readers
        self.overdraft = False
        """Whether rows and marks are accepted without waiting for credit."""

    def rows(self, edge: int, batch: Batch) -> Iterator[None]:
        """Write rows to an edge. Suspend (`yield`) while it has no room."""
        output = self.edges[edge]
        while not output.writable:
            yield
        output.write(batch)

    @property
    def aligns(self) -> bool:
        """Return whether a barrier may overtake no rows to one of the readers."""
        return any(reader.spec.aligns for reader in self._readers.values())

    @property
    def writable(self) -> bool:
        """Return whether work may be started that writes to any of the edges (EX8)."""
        # A list, because a generator costs more than the usual one or two edges.
        return not [edge for edge in self._all if not edge.writable]

    def overdraw(self, overdraft: bool) -> None:
        """Start or end an overdraft, in which rows and marks are accepted beyond all bounds."""
        self.overdraft = overdraft
        for edge in self._all:
            edge.overdraft = overdraft

    def pump(self) -> bool:
        """Send buffered rows, as far as timeouts and credits allow. Return whether any were sent."""
        sent = False
        for edge in self._all:
            sent |= edge.pump()
        return sent

    def configure(self, config: TaskConfig) -> None:
        """Set the size of buffers and their timeout from now on."""
        for edge in self._all:
            edge.configure(config)

    def oldest_us(self) -> int | None:
        return min((t for e in self._all if (t := e.oldest_us()) is not None), default=None)

    def next_flush_us(self) -> int | None:
        next_us: int | None = None
        for edge in self._all:
            next_us = earlier(next_us, edge.next_flush_us())
        return next_us

    def flush(self) -> bool:
        """Send what is buffered, as far as credit allows. Return whether a mark that must not wait may
        be sent: no rows are left that it would overtake, or an overdraft lets it wait among them."""
        for edge in self._all:
            if not edge.empty:
                edge.pump(force=True)
        return self.overdraft or all(edge.empty for edge in self._all)

    def mark(self, mark: Mark, edges: Iterable[int] | None = None) -> None:
        """Send a mark on all edges, or on some."""
        for edge in self._all if edges is None else (self.edges[id] for id in edges):
            edge.mark(mark)

    def latency(self, mark: LatencyMark) -> None:
        """Forward a latency marker, but not around a loop."""
        for edge in self._all:
            if edge.edge.loop is None:
                edge.latency(mark)

    def overtake(self, barrier: Barrier) -> list[InFlight]:
        """Send the barrier before everything that waits here, and return the overtaken rows."""
        return [
            InFlight.to(self._readers[id], edge.edge.target_port, rows, sent=False, receiver=receiver)
            for id, edge in self.edges.items()
            for receiver, rows in edge.overtake(barrier).items()
        ]
