"""Processes batches that wait at the input of a chain, before their turn.

A batch stays in the queue of its channel until its calls have completed. So the channel waits, with
everything after the batch; other channels continue. An unaligned barrier overtakes the batch like any
row at an input, and an aligned barrier waits for it. The credits of the channels limit the number of
waiting batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pyarrow as pa

from rheos.core.operators.contract import StartedWork
from rheos.core.protocol.elements import Element
from rheos.core.protocol.ids import ChannelId
from rheos.core.task.in_flight_rows import InFlight
from rheos.core.task.inputs import Channel, InputGate
from rheos.core.task.tree import OperatorTree, Work


class EarlyWork:
    """The work ahead of one chain whose head is an asynchronous operator."""

    def __init__(
        self, tree: OperatorTree[None], gate: InputGate, may_take: Callable[[Channel], bool] | None
    ) -> None:
        """Create the work. `may_take` returns whether the chain may now take a channel's first
        element."""
        self._tree = tree
        self._gate = gate
        self._may_take = may_take
        self._begun: dict[ChannelId, deque[StartedWork]] = {
            channel.id: deque() for channel in gate.channels
        }
        """Work in progress on the first batches in the queue of each channel."""
        self._restored: list[StartedWork] = []
        """Work in progress on the next rows in flight."""

    def take(self) -> tuple[Channel, Element] | None:
        """Take the next element of a channel, unless it is a batch whose calls are still running."""
        for channel in self._gate.channels:
            begun = self._begun[channel.id]
            batches = [element for element in channel.queue if isinstance(element, pa.RecordBatch)]
            begun.extend(self._tree.begin(channel.port, batch) for batch in batches[len(begun) :])
        return self._gate.take(self._is_ready)

    def _is_ready(self, channel: Channel) -> bool:
        if self._may_take is not None and not self._may_take(channel):
            return False
        if not isinstance(channel.queue[0], pa.RecordBatch):
            return True
        return self._tree.is_ready(self._begun[channel.id][0])

    def finish(self, channel: Channel, batch: pa.RecordBatch) -> Work[None]:
        """Return the work on a batch that was just taken."""
        return self._tree.finish(self._begun[channel.id].popleft(), batch)

    def early(self) -> tuple[Channel, bool, Work[None]] | None:
        """Return the work on rows that may leave before the rows ahead of them, and whether it
        completes a batch of the channel. The chain calls it if it could take nothing. The rest of the
        batch stays in the queue, or is joined to the batch ahead of it. So is a batch from which no row
        may leave: otherwise small batches would use up the credits that later rows need."""
        for channel in self._gate.channels:
            if channel.blocked or not channel.queue:
                continue
            if self._may_take is not None and not self._may_take(channel):
                continue
            queue, begun = channel.queue, self._begun[channel.id]
            for place in range(len(begun)):
                batch = queue[place]
                if not isinstance(batch, pa.RecordBatch):
                    break
                parted = begun[place].part(batch)
                if parted is None:
                    if self._join(queue, begun, place):
                        self._gate.remove(channel, place)
                        del begun[place]
                        return channel, True, _no_work()
                    continue
                queue[place] = parted.stays
                frees = not parted.stays.num_rows or self._join(queue, begun, place)
                if frees:
                    self._gate.remove(channel, place)
                    del begun[place]
                leaves = self._gate.merged(channel, parted.leaves)
                return channel, frees, self._tree.finish(parted.begun, leaves)
        return None

    def _join(self, queue: deque[Element], begun: deque[StartedWork], place: int) -> bool:
        """Join the rest of a batch to the batch ahead of it, if possible. Return whether it was
        possible."""
        if not place:
            return False
        joined = begun[place - 1].joined(begun[place])
        ahead, batch = queue[place - 1], queue[place]
        if joined is None or not isinstance(ahead, pa.RecordBatch):
            return False
        begun[place - 1] = joined
        queue[place - 1] = pa.concat_batches([ahead, batch])
        return True

    def restored(self, rows: InFlight) -> Work[None] | None:
        """Return the work on rows that were in flight, or None while their calls run: then the caller
        must ask again. Rows for an operator after the head need no calls."""
        if rows.operator != self._tree.chain.operators[0].id:
            return self._tree.in_flight(rows)
        if not self._restored:
            self._restored = [self._tree.begin(rows.port, batch) for batch in rows.batches]
        if not all(map(self._tree.is_ready, self._restored)):
            return None
        begun, self._restored = self._restored, []
        return self._finish_all(begun, rows)

    def _finish_all(self, begun: list[StartedWork], rows: InFlight) -> Work[None]:
        for each, batch in zip(begun, rows.batches, strict=True):
            yield from self._tree.finish(each, batch)

    def wake_after_us(self) -> int | None:
        """Return the time after which to ask again, unless a completion wakes the task earlier. Called
        if nothing could be taken."""
        first = [*self._restored, *(begun[0] for begun in self._begun.values() if begun)]
        # The gate skips a channel that is held for a barrier, but work on its batches continues, too.
        waiting = [each for each in first if not self._tree.is_ready(each)]
        return min((us for each in waiting if (us := each.wake_after_us()) is not None), default=None)


def _no_work() -> Work[None]:
    yield from ()
