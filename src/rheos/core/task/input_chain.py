"""A chain with input channels: it takes their rows, and reacts to their marks.

A chain in a loop takes no new rows while many circulate (`LoopRoom`). The chain at the head of a loop
ends when the loop is empty (`LoopHead`). A chain whose head is asynchronous starts to process batches
before their turn (`early_work`). A chain whose head holds rows (`HoldingOperator`)
ends when all of them are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, TypeAlias

import pyarrow as pa

from rheos.core.operators.contract import HoldingOperator
from rheos.core.protocol.control import LAPS, Totals
from rheos.core.protocol.elements import SWM, Batch, Element, IterationMark, LatencyMark, Mark
from rheos.core.protocol.ids import ChannelId
from rheos.core.task.barriers import ArrivingBarriers
from rheos.core.task.chain import ChainParts, ChainRunner, Work
from rheos.core.task.chain_snapshot import ChainSnapshot
from rheos.core.task.early_work import EarlyWork
from rheos.core.task.held_room import HeldRoom
from rheos.core.task.in_flight_rows import InFlight
from rheos.core.task.inputs import Channel, GateEvent, InputGate
from rheos.core.task.latency import GateLatency
from rheos.core.task.loop_end import LoopHead
from rheos.core.task.loop_room import LoopRoom
from rheos.core.task.traffic import Traffic

_ELEMENTS_PER_RUN = 4
"""Maximum number of elements that a chain takes before the other chains have their turn."""

Release: TypeAlias = Callable[[ChannelId], None]
"""Function that returns the credit of a processed batch to its channel."""


class Room(Protocol):
    """Admission of new rows to a chain."""

    def check(self) -> None:
        """Raise RheosError if more rows wait than may."""
        ...

    def admits(self, *, awaited: bool) -> bool:
        """Return whether new rows may be taken now. `awaited`: the chain waits for a barrier."""
        ...

    def admitted(self) -> None:
        """Record that new rows were taken."""
        ...


class InputChain(ChainRunner):
    """Runs one subtask of a chain whose head receives rows of other chains."""

    def __init__(
        self, parts: ChainParts, gate: InputGate, release: Release, room: Room | None = None
    ) -> None:
        """Create the chain. `room` is the room of its loop, or of its head; None if it has no bound."""
        barriers = ArrivingBarriers(gate, parts.clock, parts.config)
        # Check for a barrier that may overtake after every element, since an element may take long.
        elements = _ELEMENTS_PER_RUN if barriers.patience_us is None else 1
        super().__init__(parts, barriers, elements_per_run=elements)
        self.gate = gate
        self._release = release
        self._room = room
        if room is not None:
            self._checks.append(room.check)
        self._may_take = None if room is None else partial(self._has_room, room)
        """Function that returns whether the chain may take the next element of a channel; None: it
        always may."""
        self._sent_idle = False

    # --- calls of the engine ----------------------------------------------------------------------

    def watch_sojourn(self) -> None:
        if self.gate.sojourn is None:
            self.gate.sojourn = GateLatency(self._clock.monotonic_us)

    def longest_sojourn_us(self) -> int:
        return 0 if self.gate.sojourn is None else self.gate.sojourn.longest_us()

    def totals(self) -> Totals:
        if self.gate.dropped_rows:
            self._tree.count("after_silence", self.gate.dropped_rows)
        return super().totals()

    def receiving(self) -> Iterable[tuple[int, Traffic, int]]:
        return self.gate.traffic()

    # --- rows -------------------------------------------------------------------------------------

    def _read(self) -> Work | None:
        taken = self.gate.take(self._may_take)
        return None if taken is None else self._work_on(*taken)

    def _work_on(self, channel: Channel, element: Element) -> Work:
        if not isinstance(element, pa.RecordBatch):
            return self._react(channel, element)
        if self._room is not None and not channel.cycle:
            self._room.admitted()
        return self._rows(channel, element)

    def _has_room(self, room: Room, channel: Channel) -> bool:
        """Return whether a chain with a room may take the next element of the channel. It takes rows
        from outside only if there is room, or if it waits for a barrier after these rows (IT5)."""
        if channel.cycle or not isinstance(channel.queue[0], pa.RecordBatch):
            return True
        if self.gate.holds_loop:
            return True
        return room.admits(awaited=self._barriers.awaited)

    def _rows(self, channel: Channel, batch: Batch) -> Work:
        """Process rows of a channel, together with waiting rows of the same edge: a small batch costs
        as much as a large one."""
        taken = [channel.id]
        # No row may follow a row with a later `__swm`, as combined rows of several channels might.
        if batch.num_rows < self._batch_rows and batch.schema.get_field_index(SWM) < 0:
            parts, rows = [batch], batch.num_rows
            while (more := self.gate.take_rows(channel.id.edge, self._batch_rows - rows)) is not None:
                taken.append(more[0].id)
                parts.append(more[1])
                rows += more[1].num_rows
            if len(parts) > 1:
                batch = pa.concat_batches(parts)
        self.rows_taken += batch.num_rows
        self.batches_taken += 1
        yield from self._tree.batch(channel.port, self.gate.merged(channel, batch))
        if self.gate.sojourn is not None:
            self.gate.sojourn.processed()
        if channel.feedback:
            return  # Their credit was returned when they arrived (IT5).
        for id in taken:
            self._release(id)

    # --- marks ------------------------------------------------------------------------------------

    def _react(self, channel: Channel, mark: Mark) -> Work:
        if isinstance(mark, LatencyMark):
            self.latency.arrived(mark)
            self._outputs.latency(mark)
            return
        for event in self.gate.interpret(channel, mark):
            if event is GateEvent.WATERMARK:
                yield from self._watermark(self.gate.watermark_ms)
            elif event is GateEvent.ALIGNED:
                # It may have been aborted while rows of an earlier event waited for credit.
                while (arrival := self.gate.aligned()) is not None:
                    yield from self._checkpoint(arrival)
            elif event is GateEvent.ENDED:
                yield from self._input_ended()
            elif event is GateEvent.LAP:
                yield from self._lap(self.gate.lap)
            elif self.gate.idle != self._sent_idle:
                self._sent_idle = self.gate.idle
                yield from self._forward_activity(self._sent_idle)

    def _input_ended(self) -> Work:
        return self._end()

    def _lap(self, lap: IterationMark) -> Work:
        """Forward an iteration mark that has arrived on all channels of the loop."""
        return self._forward(lap, self._outputs.cycle)

    # --- unaligned checkpoints --------------------------------------------------------------------

    def _record(self, taken: ChainSnapshot) -> None:
        """Store the rows before the barrier on channels that have not delivered it."""
        taken.recording = self.gate.overtake(taken.checkpoint)
        head = self.chain.operators[0]
        taken.ports = [InFlight.to(head, port, [], sent=True) for port in range(len(head.ports))]


class LoopHeadChain(InputChain):
    """Runs one subtask of the chain at the head of a loop."""

    def __init__(self, parts: ChainParts, gate: InputGate, release: Release, room: LoopRoom) -> None:
        super().__init__(parts, gate, release, room)
        self._loop = LoopHead()

    def _rows(self, channel: Channel, batch: Batch) -> Work:
        if channel.feedback:
            self._loop.rows_came_round()
        return super()._rows(channel, batch)

    def _input_ended(self) -> Work:
        self._tree.show(LAPS, lambda: 0 if self.ended else self._loop.laps())
        self._barriers.by_itself = True
        yield from self._forward(self._loop.begin(), self._outputs.cycle)

    def _lap(self, lap: IterationMark) -> Work:
        """Send the next iteration mark, or end the loop: the previous mark has returned."""
        onward = self._loop.came_round(lap)
        if onward is not None:
            yield from self._forward(onward, self._outputs.cycle)
            return
        assert not self.gate.feedback_rows, "IT4: a row is left in the loop"
        self.gate.over = True
        yield from self._end()

    def _snapshot_taken(self, taken: ChainSnapshot) -> None:
        """Store the rows that are in the loop at the barrier."""
        if not self.ended:
            self._record(taken)


class HoldingChain(InputChain):
    """Runs one subtask of a chain whose head holds rows until they are answered."""

    def __init__(
        self, parts: ChainParts, gate: InputGate, release: Release, holder: HoldingOperator
    ) -> None:
        super().__init__(parts, gate, release, HeldRoom(holder))
        self._holder = holder
        self._input_over = False

    def _input_ended(self) -> Work:
        """Wait for the answers. No barrier arrives any more, so the master's triggers replace them."""
        self._input_over = self._barriers.by_itself = True
        yield from ()

    def _read(self) -> Work | None:
        if not self._input_over:
            return super()._read()
        return None if self._holder.waiting_rows() else self._end()


class AheadChain(InputChain):
    """Runs one subtask of a chain whose head is an asynchronous operator."""

    def __init__(
        self, parts: ChainParts, gate: InputGate, release: Release, room: LoopRoom | None
    ) -> None:
        super().__init__(parts, gate, release, room)
        self._ahead = EarlyWork(parts.tree, gate, self._may_take)

    def watch_sojourn(self) -> None:
        """Measure nothing, since batches wait for their calls and not for the chain."""

    def _read_restored(self) -> Work | None:
        work = self._ahead.restored(self._restored[0])
        if work is not None:
            self._restored.popleft()
        self._wake_after(self._ahead.wake_after_us() if work is None else None)
        return work

    def _read(self) -> Work | None:
        taken = self._ahead.take()
        self._wake_after(self._ahead.wake_after_us() if taken is None else None)
        if taken is not None:
            return self._work_on(*taken)
        early = self._ahead.early()
        return None if early is None else self._early(*early)

    def _rows(self, channel: Channel, batch: Batch) -> Work:
        yield from self._ahead.finish(channel, self.gate.merged(channel, batch))
        self._release(channel.id)

    def _early(self, channel: Channel, frees: bool, work: Work) -> Work:
        """Process rows that leave before their turn. `frees`: nothing of their batch stays in the
        queue, so its credit is returned."""
        yield from work
        if frees:
            self._release(channel.id)
