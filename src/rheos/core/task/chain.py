"""One subtask of a chain, run a step at a time: what it takes next, and its barriers.

What the chain is doing is a generator (`_work`). It is resumed only while every output has room, so
nothing is emitted that cannot be kept, and it is driven to its end before the next element is taken.
Where a barrier may wait no longer (an unaligned checkpoint), it is driven to its end at once, beyond
what the outputs should keep, and the snapshot is taken before the rows that wait (`_overtake`).

A chain on a loop takes no new rows while many go round (`LoopRoom`); the one at its head ends when the
loop has fallen silent (`LoopHead`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from rheos.core.connectors.contract import Pending
from rheos.core.graph.nodes import SourceSpec
from rheos.core.operators.contract import CommittingOperator, Operator, Out, Restored
from rheos.core.operators.source import EndOfInput
from rheos.core.protocol.control import LAPS, Totals
from rheos.core.protocol.elements import (
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    SWM,
    Active,
    Barrier,
    BarrierKind,
    Batch,
    End,
    Idle,
    IterationMark,
    Mark,
    WatermarkMark,
)
from rheos.core.protocol.ids import Attempt, CheckpointId, OperatorId
from rheos.core.protocol.ports import Clock, Transport
from rheos.core.task.ahead import WorkAhead
from rheos.core.task.barriers import WaitingBarriers
from rheos.core.task.chain_snapshot import ChainSnapshot
from rheos.core.task.config import TaskConfig
from rheos.core.task.deadlines import earlier
from rheos.core.task.in_flight import InFlight
from rheos.core.task.inputs import Arrival, Channel, GateEvent, InputGate
from rheos.core.task.laps import LoopHead
from rheos.core.task.latency import LatencyMarkers
from rheos.core.task.loop_room import LoopRoom
from rheos.core.task.outputs import OutputEdge, Outputs
from rheos.core.task.sojourn import GateLatency
from rheos.core.task.traffic import BatchSizes, Ran, Traffic
from rheos.core.task.tree import OperatorTree
from rheos.core.task.tree import Work as WorkOf

Work: TypeAlias = WorkOf[None]

_FEW_BYTES = 1 << 18
"""Rows that take more are many, however few there are."""
_ELEMENTS_PER_RUN = 4
"""How many elements a chain takes before the others have their turn."""


class ChainRunner:
    """Runs one subtask of a chain. The engine alone calls it, from one thread."""

    def __init__(
        self,
        tree: OperatorTree[None],
        gate: InputGate | None,
        outputs: Outputs,
        transport: Transport,
        clock: Clock,
        attempt: Attempt,
        config: TaskConfig,
        room: LoopRoom | None,
        latency: LatencyMarkers,
    ) -> None:
        """`gate` is None for a source. `room` is that of the loop that the chain lies on."""
        self.chain = tree.chain
        self.gate = gate
        self.latency = latency
        self._tree = tree
        self._source = tree.source
        self._room = room
        may_take = None if room is None else self._may_take
        ahead = gate is not None and tree.works_ahead
        self._ahead = WorkAhead(tree, gate, may_take) if gate is not None and ahead else None
        self._outputs = outputs
        self._transport = transport
        self._clock = clock
        self._attempt = attempt
        head = tree.chain.operators[0].spec
        self._bounded = isinstance(head, SourceSpec) and head.source.bounded
        self._poll_at_us = 0
        """Before then the source is not asked again."""
        self._set(config)
        self._sizes: defaultdict[str, BatchSizes] = defaultdict(BatchSizes)
        """Of what the source gives, by tag."""
        self._sinks: tuple[CommittingOperator, ...] = ()
        self._work: Work | None = None
        self._barriers = WaitingBarriers(gate, clock, config)
        self._loop = LoopHead() if gate is not None and gate.of_loop else None
        # A barrier that may overtake is looked for after every element, which may take long.
        looks = self._source is not None or self._barriers.patience_us is not None
        self._elements_per_run = 1 if looks else _ELEMENTS_PER_RUN
        self._restored: deque[InFlight] = deque()
        """Rows that were in flight when the checkpoint was taken: they go before all else."""
        self._draining = False
        self._last_checkpoint = 0
        self.rows_taken = 0
        self.batches_taken = 0
        """What it worked on at once, each time."""
        self._taken: list[ChainSnapshot] = []
        self._sent_idle = False
        self.watermark_ms = MIN_TIMESTAMP_MS
        self.ended = False
        self._rests = False
        """Whether the source gave few rows, and is not asked again at once."""
        self._wake_at_us: int | None = None
        """When a source's reader wants to be asked again, or what is worked on ahead."""
        self._ran = Ran.STARVED
        """What came of it last."""

    # --- what the engine asks ---------------------------------------------------------------------

    def open(self, restored: Mapping[OperatorId, Restored]) -> None:
        """Opens the operators with their restored state. Called once, first."""
        self._tree.open(restored)
        operators = self._tree.operators.values()
        self._sinks = tuple(each for each in operators if isinstance(each, CommittingOperator))

    def restore(self, in_flight: Iterable[InFlight]) -> None:
        """Rows that were on their way to the chain's operators, in the order to process them in. Called
        before the first run."""
        self._restored.extend(in_flight)

    def _set(self, config: TaskConfig) -> None:
        self._batch_rows = config.batch_rows
        self._few_rows = config.few_rows
        self._poll_interval_us = config.poll_interval_us(bounded=self._bounded)

    def configure(self, config: TaskConfig) -> None:
        """Sizes of batches and the buffer timeout, from now on."""
        self._set(config)
        self._outputs.configure(config)

    def watch_sojourn(self) -> None:
        """From now on it is watched how long rows are here."""
        if self.gate is not None and self.gate.sojourn is None and self._ahead is None:
            self.gate.sojourn = GateLatency(self._clock.monotonic_us)

    def longest_sojourn_us(self) -> int:
        """Of a batch, from its arrival until it was processed, since the last call; 0 where nothing
        watches it: at a source, and where the chain works ahead."""
        return 0 if self.gate is None or self.gate.sojourn is None else self.gate.sojourn.longest_us()

    def oldest_us(self) -> int | None:
        """When the oldest row came that waits in a buffer."""
        return self._outputs.oldest_us()

    def trigger(self, checkpoint: CheckpointId, kind: BarrierKind) -> None:
        """The master triggered a checkpoint: a source and an ended chain take it by themselves."""
        if checkpoint > self._last_checkpoint:
            self._barriers.trigger(Barrier(checkpoint, self._attempt, kind))

    def abort(self, checkpoint: CheckpointId) -> None:
        """The checkpoint is aborted: an input that aligns for it reads on."""
        self._barriers.abort(checkpoint)

    def drain(self) -> None:
        """A source stops reading: its input has ended."""
        self._draining = True

    def take_snapshots(self) -> list[ChainSnapshot]:
        """The snapshots taken since the last call."""
        taken, self._taken = self._taken, []
        return taken

    def totals(self) -> Totals:
        if self.gate is not None and self.gate.dropped_rows:
            self._tree.count("after_silence", self.gate.dropped_rows)
        return self._tree.totals()

    def gauges(self) -> dict[str, float]:
        """What functions show now. Raises the RheosError of one that fails."""
        try:
            return self._tree.gauges()
        except Exception as error:
            raise self._tree.located(error) from error

    @property
    def at(self) -> OperatorId:
        """The operator that has been called last."""
        return self._tree.at

    def operator(self, id: OperatorId) -> Operator:
        return self._tree.operators[id]

    def sending(self) -> Iterable[tuple[int, OutputEdge]]:
        """Its outgoing edges, by id."""
        return self._outputs.edges.items()

    def receiving(self) -> Iterable[tuple[int, Traffic, int]]:
        """Its incoming edges, by id: what has come, and how many elements wait."""
        return () if self.gate is None else self.gate.traffic()

    def run(self) -> Ran:
        """Does a bounded amount of work. Raises the RheosError that ends the attempt."""
        try:
            self._ran = self._run()
        except Exception as error:
            raise self._tree.located(error) from error
        return self._ran

    def _run(self) -> Ran:
        barriers = self._barriers
        if self._room is not None:
            self._room.check()
        if barriers.patience_us is not None and (due := barriers.overdue()) is not None:
            self._overtake(due)
            return Ran.WORKED
        worked = False
        for _ in range(self._elements_per_run):
            if self._work is None:
                if not self._outputs.writable or not all(sink.has_room() for sink in self._sinks):
                    return Ran.SUSPENDED if worked else Ran.BLOCKED
                self._work = self._next_work()
                if self._work is None:
                    return Ran.SETTLED if worked else Ran.STARVED
                worked = True
            if self._resume():
                return Ran.SUSPENDED if worked else Ran.BLOCKED
            worked = True
            if self._rests:
                self._wake_at_us = self._poll_at_us
                return Ran.SETTLED
        return Ran.WORKED

    def _resume(self) -> bool:
        """Goes on with the work at hand. Whether it is suspended: only for want of credit."""
        assert self._work is not None
        try:
            next(self._work)
        except StopIteration:
            self._work = None
            return False
        return True

    def pump(self) -> bool:
        """Sends what buffers hold, as timeouts and credits allow."""
        return self._outputs.pump()

    def next_timer_ms(self) -> int | None:
        return None if self.ended or self._ran.blocked else self._tree.next_timer_ms()

    def next_us(self) -> int | None:
        """When time alone lets it go on, by the monotonic clock: a buffer is to be sent, a barrier that
        waits may wait no longer, or a source's reader, or what is worked on ahead, is to be asked."""
        ask_us = None if self._ran.blocked else self._wake_at_us
        overdue_us = self._barriers.next_overdue_us()
        return earlier(earlier(self._outputs.next_flush_us(), overdue_us), ask_us)

    # --- choosing work ----------------------------------------------------------------------------

    def _next_work(self) -> Work | None:
        self._rests = False
        if self._restored:
            return self._read_restored()
        if (triggered := self._barriers.next_triggered()) is not None:
            return self._checkpoint(triggered)
        if self.ended:
            return None
        due = self._tree.next_timer_ms()
        if due is not None and due <= (now_ms := self._clock.now_ms()):
            return self._tree.processing_time(now_ms)
        return self._read_source() if self._source is not None else self._read_gate()

    def _read_restored(self) -> Work | None:
        ahead = self._ahead
        if ahead is None:
            return self._tree.in_flight(self._restored.popleft())
        work = ahead.restored(self._restored[0])
        if work is not None:
            self._restored.popleft()
        self._wake_after(ahead.wake_after_us() if work is None else None)
        return work

    def _wake_after(self, us: int | None) -> None:
        self._wake_at_us = None if us is None else self._clock.monotonic_us() + us

    def _read_gate(self) -> Work | None:
        assert self.gate is not None
        ahead = self._ahead
        if ahead is not None:
            taken = ahead.take()
        else:
            taken = self.gate.take(None if self._room is None else self._may_take)
        if ahead is not None:
            self._wake_after(ahead.wake_after_us() if taken is None else None)
        if taken is None:
            early = None if ahead is None else ahead.early()
            return None if early is None else self._early(*early)
        channel, element = taken
        if not isinstance(element, pa.RecordBatch):
            return self._react(self.gate.interpret(channel, element))
        if self._room is not None and not channel.cycle:
            self._room.admitted()
        if ahead is not None:
            return self._finish_ahead(ahead, channel, element)
        return self._rows(channel, element)

    def _may_take(self, channel: Channel) -> bool:
        """Whether a chain of a loop may take what is next on the channel: rows from outside only where
        the loop has room, or waits for a barrier that they are before (IT5)."""
        if channel.cycle or not isinstance(channel.queue[0], pa.RecordBatch):
            return True
        assert self._room is not None
        assert self.gate is not None
        if self.gate.holds_loop:
            return True
        return self._room.admits(awaited=self._barriers.awaited)

    def _read_source(self) -> Work | None:
        assert self._source is not None
        self._wake_at_us = None
        if self._draining:
            return self._end()
        now_us = self._clock.monotonic_us()
        if now_us < self._poll_at_us:
            self._wake_at_us = self._poll_at_us
            return None
        polled = self._tree.poll(self._batch_rows)
        if isinstance(polled, EndOfInput):
            return self._end()
        if isinstance(polled, Pending):
            self._wake_after(polled.wake_after_us)
            return self._source_marks() if any(time.has_news for time in self._tree.times) else None
        rows = sum(out.batch.num_rows for out in polled)
        self.rows_taken += rows
        self.batches_taken += 1
        if rows < self._few_rows and self._is_small(polled):
            self._poll_at_us = now_us + self._poll_interval_us
            self._rests = True
        return self._polled(polled)

    def _is_small(self, polled: Sequence[Out]) -> bool:
        return sum(self._sizes[out.tag].of(out.batch) for out in polled) < _FEW_BYTES

    # --- kinds of work ----------------------------------------------------------------------------

    def _rows(self, channel: Channel, batch: Batch) -> Work:
        """Rows of a channel, and with them those of the same edge that wait: a small batch costs as
        much as a large one."""
        assert self.gate is not None
        if channel.feedback:
            assert self._loop is not None
            self._loop.rows_came_round()
        taken = [channel.id]
        # By `__swm` no row is behind one before it, which holds of one channel's rows.
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
            return  # Their credit went back as they came (IT5).
        for id in taken:
            self._transport.release(id)

    def _finish_ahead(self, ahead: WorkAhead, channel: Channel, batch: Batch) -> Work:
        assert self.gate is not None
        yield from ahead.finish(channel, self.gate.merged(channel, batch))
        self._transport.release(channel.id)

    def _early(self, channel: Channel, frees: bool, work: Work) -> Work:
        yield from work
        if frees:
            self._transport.release(channel.id)

    def _polled(self, outs: Sequence[Out]) -> Work:
        yield from self._tree.polled(outs)
        if (born := self.latency.born()) is not None:
            self._outputs.latency(born)
        yield from self._source_marks()

    def _source_marks(self) -> Work:
        times = self._tree.times
        for time in times:
            if (idle := time.of.idle()) != time.idle:
                time.idle = idle
                yield from self._forward(Idle() if idle else Active(), time.edges)
            watermark_ms = time.of.watermark()
            if watermark_ms > time.watermark_ms:
                time.watermark_ms = watermark_ms
                yield from self._tree.watermark_of(time.operators, watermark_ms)
                self._outputs.mark(WatermarkMark(watermark_ms), time.edges)
        self.watermark_ms = min(time.watermark_ms for time in times)

    def _react(self, events: list[GateEvent]) -> Work:
        assert self.gate is not None
        for event in events:
            if event is GateEvent.WATERMARK:
                yield from self._watermark(self.gate.watermark_ms)
            elif event is GateEvent.ALIGNED:
                # It may have been aborted while rows of an event before this one waited for credit.
                while (arrival := self.gate.aligned()) is not None:
                    yield from self._checkpoint(arrival)
            elif event is GateEvent.ENDED:
                yield from self._end() if self._loop is None else self._begin_laps(self._loop)
            elif event is GateEvent.LAP:
                yield from self._lap(self.gate.lap)
            elif event is GateEvent.LATENCY:
                assert self.gate.latency is not None
                self.latency.arrived(self.gate.latency)
                self._outputs.latency(self.gate.latency)
            elif self.gate.idle != self._sent_idle:
                yield from self._forward_activity(self.gate.idle)

    def _watermark(self, timestamp_ms: int) -> Work:
        self.watermark_ms = timestamp_ms
        yield from self._tree.watermark(timestamp_ms)
        self._outputs.mark(WatermarkMark(timestamp_ms))

    def _end(self) -> Work:
        if self.watermark_ms < MAX_TIMESTAMP_MS:
            yield from self._watermark(MAX_TIMESTAMP_MS)
        yield from self._tree.end()
        yield from self._forward(End())
        self.ended = self._barriers.by_itself = True

    def _begin_laps(self, loop: LoopHead) -> Work:
        self._tree.show(LAPS, lambda: 0 if self.ended else loop.laps())
        self._barriers.by_itself = True
        yield from self._forward(loop.begin(), self._outputs.cycle)

    def _lap(self, lap: IterationMark) -> Work:
        """A lap has come on all channels of the loop: it goes on, or has come round."""
        onward = lap if self._loop is None else self._loop.came_round(lap)
        if onward is not None:
            yield from self._forward(onward, self._outputs.cycle)
            return
        assert self.gate is not None
        assert not self.gate.feedback_rows, "IT4: a row is left in the loop"
        self.gate.over = True
        yield from self._end()

    def _forward_activity(self, idle: bool) -> Work:
        self._sent_idle = idle
        yield from self._forward(Idle() if idle else Active())

    def _forward(self, mark: Mark, edges: Iterable[int] | None = None) -> Work:
        """Sends a mark that must not wait, on all edges or on some: the rows before it are flushed as
        credit comes."""
        while not self._outputs.flush():
            yield
        self._outputs.mark(mark, edges)

    # --- checkpoints ------------------------------------------------------------------------------

    def _checkpoint(self, arrival: Arrival) -> Work:
        """Takes the snapshot between two elements, and sends the barrier on behind the rows before it;
        or ahead of them, where it has waited for long enough."""
        taken = self._take(arrival)
        barriers = self._barriers
        if self._loop is not None and not self.ended:
            self._record(taken)
        barriers.taken(arrival.barrier.checkpoint)
        if not self.ended:
            barriers.forwarding = arrival
            while not self._outputs.flush() and not barriers.is_overdue(arrival):
                yield
            barriers.forwarding = None
            if barriers.may_overtake(arrival.barrier):
                taken.overtaken = self._outputs.overtake(arrival.barrier)
            else:
                self._outputs.mark(arrival.barrier)
        taken.forwarded = True

    def _take(self, arrival: Arrival) -> ChainSnapshot:
        """The synchronous part."""
        barrier = arrival.barrier
        checkpoint = barrier.checkpoint
        assert checkpoint > self._last_checkpoint, "EX6: a checkpoint is taken once"
        began_us = self._clock.monotonic_us()
        shares = self._tree.snapshot(checkpoint, savepoint=barrier.kind is BarrierKind.SAVEPOINT)
        taken = ChainSnapshot(
            chain=self.chain.id,
            checkpoint=checkpoint,
            kind=barrier.kind,
            snapshots=shares.snapshots,
            savepoint=shares.savepoint,
            totals=self._tree.totals(),
            sync_us=self._clock.monotonic_us() - began_us,
            since_us=began_us if self._barriers.by_itself else arrival.at_us,
            aligned_us=began_us,
        )
        self._last_checkpoint = checkpoint
        self._taken.append(taken)
        return taken

    # --- barriers that overtake (EX12) ------------------------------------------------------------

    def _overtake(self, arrival: Arrival) -> None:
        """Takes the snapshot before the rows that lie before the barrier; they are stored with it."""
        self._finish_work()
        barrier = arrival.barrier
        if barrier.checkpoint <= self._last_checkpoint:
            return  # What was under way has taken it.
        taken = self._take(arrival)
        # They have reached their subtask: so they go before what is yet to come.
        restored = [replace(rows, sent=True) for rows in self._restored]
        if self.gate is not None and not self.ended:
            self._record(taken)
        self._barriers.taken(barrier.checkpoint)
        taken.overtaken = [*restored, *self._outputs.overtake(barrier)]
        taken.forwarded = True

    def _record(self, taken: ChainSnapshot) -> None:
        """The rows before the barrier on channels that have not brought it belong to the snapshot."""
        assert self.gate is not None
        taken.recording = self.gate.overtake(taken.checkpoint)
        head = self.chain.operators[0]
        taken.ports = [InFlight.to(head, port, [], sent=True) for port in range(len(head.ports))]

    def _finish_work(self) -> None:
        """Drives what is under way to its end: its rows go beyond the outputs' bounds."""
        self._outputs.overdraw(True)
        while self._work is not None:
            self._resume()
        self._outputs.overdraw(False)

    def close_functions(self) -> None:
        """It has ended. Raises the RheosError of a function of the user that fails to close."""
        self._tree.close_functions()

    def close(self) -> None:
        if self._work is not None:
            self._work.close()
            self._work = None
        self._tree.close()
