"""One subtask of a chain, run a step at a time: its current work, its marks and its snapshots.

The current work of the chain is a generator (`_work`). It is resumed only while every output has room,
so that the outputs stay within their bounds. It runs to its end before the chain takes the next
element. If a barrier may wait no longer (an unaligned checkpoint), the work runs to its end at once,
beyond these bounds. The snapshot is then taken before the rows that wait (`_overtake`).

`ChainRunner` is the part that all chains share. A chain either polls a source (`source_chain`) or takes
elements from its input channels (`input_chain`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from rheos.core.operators.contract import CommittingOperator, Operator, Restored
from rheos.core.protocol.control import Totals
from rheos.core.protocol.elements import (
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    Active,
    Barrier,
    BarrierKind,
    End,
    Idle,
    Mark,
    WatermarkMark,
)
from rheos.core.protocol.ids import Attempt, CheckpointId, OperatorId
from rheos.core.protocol.ports import Clock
from rheos.core.task.barriers import TriggeredBarriers
from rheos.core.task.chain_snapshot import ChainSnapshot
from rheos.core.task.config import TaskConfig
from rheos.core.task.deadlines import earlier
from rheos.core.task.in_flight_rows import InFlight
from rheos.core.task.inputs import Arrival
from rheos.core.task.latency import LatencyMarkers
from rheos.core.task.outputs import OutputEdge, Outputs
from rheos.core.task.traffic import RunOutcome, Traffic
from rheos.core.task.tree import OperatorTree
from rheos.core.task.tree import Work as WorkOf

Work: TypeAlias = WorkOf[None]


@dataclass(frozen=True)
class ChainParts:
    """The parts of every chain."""

    tree: OperatorTree[None]
    outputs: Outputs
    clock: Clock
    attempt: Attempt
    config: TaskConfig
    latency: LatencyMarkers


class ChainRunner(ABC):
    """Runs one subtask of a chain. Only the engine calls it, from one thread."""

    def __init__(
        self, parts: ChainParts, barriers: TriggeredBarriers, *, elements_per_run: int
    ) -> None:
        """Create the chain. It takes up to `elements_per_run` elements before other chains run."""
        self.chain = parts.tree.chain
        self.latency = parts.latency
        self._tree = parts.tree
        self._outputs = parts.outputs
        self._clock = parts.clock
        self._attempt = parts.attempt
        self._barriers = barriers
        self._elements_per_run = elements_per_run
        self._set(parts.config)
        self._checks: list[Callable[[], None]] = []
        """Checks to run at the start of each run; they raise errors that end the attempt."""
        self._sinks: tuple[CommittingOperator, ...] = ()
        self._work: Work | None = None
        self._restored: deque[InFlight] = deque()
        """Rows that were in flight when the checkpoint was taken; the chain processes them first."""
        self._last_checkpoint = 0
        self.rows_taken = 0
        self.batches_taken = 0
        """Number of batches that the chain has processed. Each batch is one unit of work."""
        self._taken: list[ChainSnapshot] = []
        self.watermark_ms = MIN_TIMESTAMP_MS
        self.ended = False
        self._rests = False
        """Whether the chain takes no more elements in this run, even if there are some."""
        self._wake_at_us: int | None = None
        """Time, on the monotonic clock, at which to look for work again even if nothing has arrived."""
        self._ran = RunOutcome.STARVED
        """The result of the last run."""

    # --- calls of the engine ----------------------------------------------------------------------

    def open(self, restored: Mapping[OperatorId, Restored]) -> None:
        """Open the operators with their restored state. Called once, first."""
        self._tree.open(restored)
        operators = self._tree.operators.values()
        self._sinks = tuple(each for each in operators if isinstance(each, CommittingOperator))

    def restore(self, in_flight: Iterable[InFlight]) -> None:
        """Add rows that were in flight to the chain's operators, in the order in which to process them.
        Called before the first run."""
        self._restored.extend(in_flight)

    @property
    def restoring(self) -> bool:
        """Return whether rows that were in flight still have to be processed."""
        return bool(self._restored) or (self._work is not None)

    def _set(self, config: TaskConfig) -> None:
        self._batch_rows = config.batch_rows

    def configure(self, config: TaskConfig) -> None:
        """Change the sizes of batches and the buffer timeout."""
        self._set(config)
        self._outputs.configure(config)

    def watch_sojourn(self) -> None:
        """Begin to measure how long batches stay in the chain, if the chain supports that."""

    def longest_sojourn_us(self) -> int:
        """Return the longest time from a batch's arrival until it was processed, since the last call.
        Return 0 if the chain does not measure it: a source, or a chain that works ahead."""
        return 0

    def oldest_us(self) -> int | None:
        """Return when the oldest buffered row arrived in its buffer."""
        return self._outputs.oldest_us()

    def trigger(self, checkpoint: CheckpointId, kind: BarrierKind) -> None:
        """Record a checkpoint that the master triggered. A source or an ended chain takes its snapshot
        without a barrier."""
        if checkpoint > self._last_checkpoint:
            self._barriers.trigger(Barrier(checkpoint, self._attempt, kind))

    def abort(self, checkpoint: CheckpointId) -> None:
        """Abort the checkpoint. An input that aligns for it continues to read."""
        self._barriers.abort(checkpoint)

    def drain(self) -> None:
        """End the input of a source, so that it reads no more."""

    def take_snapshots(self) -> list[ChainSnapshot]:
        """Return the snapshots taken since the last call."""
        taken, self._taken = self._taken, []
        return taken

    def totals(self) -> Totals:
        """Return what the operators have counted."""
        return self._tree.totals()

    def gauges(self) -> dict[str, float]:
        """Return the gauges of the functions. Raise the RheosError of a function that fails."""
        try:
            return self._tree.gauges()
        except Exception as error:
            raise self._tree.located(error) from error

    @property
    def at(self) -> OperatorId:
        """Return the operator that was called last."""
        return self._tree.at

    def operator(self, id: OperatorId) -> Operator:
        """Return an operator of the chain."""
        return self._tree.operators[id]

    def sending(self) -> Iterable[tuple[int, OutputEdge]]:
        """Return the outgoing edges, by id."""
        return self._outputs.edges.items()

    def receiving(self) -> Iterable[tuple[int, Traffic, int]]:
        """Return the incoming edges, by id, with the counts of arrived elements and of waiting ones."""
        return ()

    def run(self) -> RunOutcome:
        """Do a bounded amount of work. Raise the RheosError that ends the attempt."""
        try:
            self._ran = self._run()
        except Exception as error:
            raise self._tree.located(error) from error
        return self._ran

    def _run(self) -> RunOutcome:
        for check in self._checks:
            check()
        barriers = self._barriers
        if barriers.patience_us is not None and (due := barriers.overdue()) is not None:
            self._overtake(due)
            return RunOutcome.WORKED
        worked = False
        for _ in range(self._elements_per_run):
            work = self._work
            if work is None:
                if not self._outputs.writable or not self._have_room():
                    return RunOutcome.SUSPENDED if worked else RunOutcome.BLOCKED
                work = self._work = self._next_work()
                if work is None:
                    return RunOutcome.SETTLED if worked else RunOutcome.STARVED
                worked = True
            if self._suspends(work):
                return RunOutcome.SUSPENDED if worked else RunOutcome.BLOCKED
            worked = True
            if self._rests:
                return RunOutcome.SETTLED
        return RunOutcome.WORKED

    def _have_room(self) -> bool:
        """Return whether all sinks can accept more rows."""
        # A list, because a generator costs more than the usual sink.
        return not [sink for sink in self._sinks if not sink.has_room()]

    def _suspends(self, work: Work) -> bool:
        """Resume the current work. Return whether it was suspended again, for lack of credit."""
        try:
            next(work)
        except StopIteration:
            self._work = None
            return False
        return True

    def pump(self) -> bool:
        """Send buffered rows, as far as timeouts and credits allow. Return whether any were sent."""
        return self._outputs.pump()

    def next_timer_ms(self) -> int | None:
        """Return when the next processing-time timer is due."""
        return None if self.ended or self._ran.blocked else self._tree.next_timer_ms()

    def next_us(self) -> int | None:
        """Return when the chain can continue without an arrival, on the monotonic clock: a buffer must
        be sent, a barrier may wait no longer, or the chain must look for work again."""
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
        return self._read()

    def _read_restored(self) -> Work | None:
        """Return the work on the next rows that were in flight."""
        return self._tree.in_flight(self._restored.popleft())

    @abstractmethod
    def _read(self) -> Work | None:
        """Return the work on the next element, or None if nothing can be done now."""

    def _wake_after(self, us: int | None) -> None:
        self._wake_at_us = None if us is None else self._clock.monotonic_us() + us

    # --- marks ------------------------------------------------------------------------------------

    def _watermark(self, timestamp_ms: int) -> Work:
        self.watermark_ms = timestamp_ms
        yield from self._tree.watermark(timestamp_ms)
        self._outputs.mark(WatermarkMark(self._tree.delayed(timestamp_ms)))

    def _end(self) -> Work:
        if self.watermark_ms < MAX_TIMESTAMP_MS:
            yield from self._watermark(MAX_TIMESTAMP_MS)
        yield from self._tree.end()
        yield from self._forward(End())
        self.ended = self._barriers.by_itself = True

    def _forward_activity(self, idle: bool, edges: Iterable[int] | None = None) -> Work:
        return self._forward(Idle() if idle else Active(), edges)

    def _forward(self, mark: Mark, edges: Iterable[int] | None = None) -> Work:
        """Send a mark that must not wait, on all edges or on some. The rows before it are flushed as
        credit arrives."""
        while not self._outputs.flush():
            yield
        self._outputs.mark(mark, edges)

    # --- checkpoints ------------------------------------------------------------------------------

    def _checkpoint(self, arrival: Arrival) -> Work:
        """Take the snapshot between two elements. Forward the barrier after the rows before it, or
        before them if it has waited for the maximum time."""
        taken = self._take(arrival)
        self._snapshot_taken(taken)
        barriers = self._barriers
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
        """Take the snapshot: the synchronous part of the checkpoint."""
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

    def _snapshot_taken(self, taken: ChainSnapshot) -> None:
        """Add rows to the snapshot that belong to it although no barrier has overtaken them."""

    # --- unaligned checkpoints (EX12) -------------------------------------------------------------

    def _overtake(self, arrival: Arrival) -> None:
        """Take the snapshot before the rows ahead of the barrier, and store these rows with it."""
        self._finish_work()
        barrier = arrival.barrier
        if barrier.checkpoint <= self._last_checkpoint:
            return  # The work that just ended has taken it.
        taken = self._take(arrival)
        # They have reached their subtask, so they come before rows that are still to arrive.
        restored = [replace(rows, sent=True) for rows in self._restored]
        if not self.ended:
            self._record(taken)
        self._barriers.taken(barrier.checkpoint)
        taken.overtaken = [*restored, *self._outputs.overtake(barrier)]
        taken.forwarded = True

    def _record(self, taken: ChainSnapshot) -> None:
        """Store the rows that the barrier overtakes at the chain's input. A source has no input."""

    def _finish_work(self) -> None:
        """Run the current work to its end. Its rows may exceed the bounds of the outputs."""
        self._outputs.overdraw(True)
        while (work := self._work) is not None:
            self._suspends(work)
        self._outputs.overdraw(False)

    def close_functions(self) -> None:
        """Close the functions of an ended chain. Raise the RheosError of a function that fails."""
        self._tree.close_functions()

    def close(self) -> None:
        """Close the operators."""
        if self._work is not None:
            self._work.close()
            self._work = None
        self._tree.close()
