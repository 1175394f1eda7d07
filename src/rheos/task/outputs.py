"""The outputs of a chain: rows cut per target, buffered, and sent while there is credit.

A channel's buffer is full at half of an even share of a batch, so that a whole batch, split over
the targets, passes through without being copied together. A buffer that is not full waits for the
buffer timeout at most. Marks keep their place behind buffered rows; a watermark behind them is replaced
by a newer one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from rheos.plan.physical import Edge, Exchange
from rheos.protocol.elements import Batch, Mark, Watermark
from rheos.protocol.ids import ChannelId
from rheos.protocol.ports import Clock, Transport
from rheos.task.config import TaskConfig
from rheos.task.partition import Partitioner


@dataclass(slots=True)
class _Lane:
    """What waits to be sent on one channel."""

    channel: ChannelId
    pieces: list[Batch] = field(default_factory=list)
    rows: int = 0
    since_us: int = 0
    """When the oldest buffered row came."""
    watermark: Watermark | None = None
    """Follows the buffered rows."""


class OutputEdge:
    """The sending side of one edge in one subtask."""

    def __init__(
        self,
        edge: Edge,
        subtask: int,
        parallelism: int,
        max_parallelism: int,
        config: TaskConfig,
        transport: Transport,
        clock: Clock,
    ) -> None:
        self.edge = edge
        self._transport = transport
        self._clock = clock
        self._timeout_us = config.flush_after_us
        self._partitioner: Partitioner | None = None
        if edge.exchange is Exchange.HASH and parallelism > 1:
            self._partitioner = Partitioner(edge.keys, parallelism, max_parallelism)
        targets = range(parallelism) if edge.exchange is Exchange.HASH else [subtask]
        self._lanes = [_Lane(ChannelId(edge.id, subtask, target)) for target in targets]
        self._full_rows = max(1, config.batch_rows // (2 * len(self._lanes)))
        self._full = 0
        """How many lanes hold a full buffer that waits for credit."""

    @property
    def writable(self) -> bool:
        """Whether rows may be written; so a buffer never holds more than it did, and one write."""
        return self._full == 0

    @property
    def empty(self) -> bool:
        return not any(lane.pieces for lane in self._lanes)

    def write(self, batch: Batch) -> None:
        """Takes rows for their targets; the caller has seen `writable`."""
        if self._partitioner is None:
            self._append(self._lanes[0], batch)
            return
        for lane, piece in zip(self._lanes, self._partitioner.split(batch), strict=True):
            if piece is not None and piece.num_rows:
                self._append(lane, piece)

    def _append(self, lane: _Lane, piece: Batch) -> None:
        if not lane.pieces:
            lane.since_us = self._clock.monotonic_us()
        lane.pieces.append(piece)
        before = lane.rows
        lane.rows += piece.num_rows
        if self._timeout_us == 0 or lane.rows >= self._full_rows:
            if self._transport.credits(lane.channel) > 0:
                self._send(lane)
            elif before < self._full_rows <= lane.rows:
                self._full += 1

    def _send(self, lane: _Lane) -> None:
        pieces = lane.pieces
        self._transport.send(lane.channel, pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces))
        lane.pieces = []
        lane.rows = 0
        if lane.watermark is not None:
            self._transport.send_mark(lane.channel, lane.watermark)
            lane.watermark = None

    def pump(self, *, force: bool = False) -> bool:
        """Sends what is full, what has waited long enough, or with `force` all, as credit allows.

        Returns whether anything was sent.
        """
        sent = False
        now_us = self._clock.monotonic_us() if self._timeout_us else 0
        for lane in self._lanes:
            if not lane.pieces or self._transport.credits(lane.channel) <= 0:
                continue
            full = lane.rows >= self._full_rows
            due = self._timeout_us is not None and now_us - lane.since_us >= self._timeout_us
            if full or due or force or self._timeout_us == 0:
                self._full -= full
                self._send(lane)
                sent = True
        return sent

    def next_flush_us(self) -> int | None:
        """When the buffer timeout strikes next, by the monotonic clock; None where it does not.

        Lanes without credit are left out: a credit's arrival wakes the task.
        """
        if self._timeout_us is None:
            return None
        waiting = [
            lane.since_us
            for lane in self._lanes
            if lane.pieces and self._transport.credits(lane.channel) > 0
        ]
        return min(waiting) + self._timeout_us if waiting else None

    def mark(self, mark: Mark) -> None:
        """Sends a mark to every target, behind the rows before it.

        Watermarks may wait with buffered rows. For the others the caller has flushed: `empty`.
        """
        if isinstance(mark, Watermark):
            for lane in self._lanes:
                if lane.pieces:
                    lane.watermark = mark
                else:
                    self._transport.send_mark(lane.channel, mark)
            return
        assert self.empty, f"EX4: edge {self.edge.id}: {mark} overtakes buffered rows"
        for lane in self._lanes:
            self._transport.send_mark(lane.channel, mark)
