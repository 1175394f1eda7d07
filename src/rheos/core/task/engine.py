"""One slot of a job: subtask i of every chain, stepped by a loop that owns the clock and sockets.

The engine has one thread. `step` handles finished I/O and inbound elements. It then lets the chains
run, the most downstream first, so that rows move on before new ones are produced. There is no deadlock:
a chain that only feeds sinks, or the head of a loop, can always run, which returns credit to the chains
upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial, reduce
from typing import NamedTuple

import pyarrow as pa

from rheos.core.checkpoint.snapshot_writer import SnapshotWriter
from rheos.core.connectors.contract import Split
from rheos.core.operators.contract import Operator, Restored
from rheos.core.operators.prepared_state import PreparedState
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator
from rheos.core.protocol import control
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, BarrierKind
from rheos.core.protocol.ids import Attempt, JobId, OperatorId
from rheos.core.protocol.ports import Clock, Store, TaskIo, ThreadTimes, Transport
from rheos.core.protocol.state_config import StateConfig
from rheos.core.task.chain import ChainRunner
from rheos.core.task.checkpoints import SubtaskCheckpoints
from rheos.core.task.closing import close_each
from rheos.core.task.commits import Committing
from rheos.core.task.config import TaskConfig
from rheos.core.task.contexts import OperatorContexts
from rheos.core.task.deadlines import earlier
from rheos.core.task.input_chain import InputChain
from rheos.core.task.outputs import Outputs
from rheos.core.task.pacing import pacing
from rheos.core.task.slot_metrics import ProcessReadings, slot_readings
from rheos.core.task.source_reports import (
    CaughtUpReporter,
    DiscoveredSplits,
    DriftReporter,
    PhaseReporter,
    ReadSplitsReporter,
    StopReporter,
)
from rheos.core.task.traffic import RunOutcome, SpentTime
from rheos.core.task.tree import OperatorTree
from rheos.core.task.wiring import Wiring, open_chain, restore_in_flight

_RECEIVE_AT_ONCE = 64


class Lifecycle(Enum):
    RUNNING = "running"
    DRAINED = "all input processed; waiting for the final checkpoint"
    DONE = "released by the driver"


class Step(NamedTuple):
    """The result of a step."""

    worked: bool
    """Whether anything was done."""
    wake_after_us: int | None
    """Time after which to step again if nothing arrives; None: at once, as there may be more to do."""


@dataclass(frozen=True)
class Assignment:
    """The subtask and the attempt of an engine, and its initial splits and state."""

    job: JobId
    """Id of the job for its sinks."""
    attempt: Attempt
    subtask: int
    splits: Mapping[OperatorId, Sequence[Split]]
    """All splits of every source."""
    restored: Mapping[OperatorId, Restored]
    state: StateConfig = field(default_factory=StateConfig)
    scratch: str | None = None
    """Local folder of this subtask alone. It need not exist yet, and is deleted with the task. None if
    there is no disk."""
    prepared: Mapping[OperatorId, PreparedState] = field(default_factory=dict)
    """State that was restored ahead. `restored` has what follows."""


class SubtaskEngine:
    """Runs one slot. The runtime calls `deliver` for each control message and `step` in a loop."""

    def __init__(
        self,
        plan: PhysicalPlan,
        assignment: Assignment,
        config: TaskConfig,
        *,
        transport: Transport,
        clock: Clock,
        io: TaskIo,
        snapshots: SnapshotWriter,
        report: Callable[[control.ToMaster], None],
        open_store: Callable[[str], Store],
        process: ProcessReadings = list,
        thread: ThreadTimes = lambda: None,
        processor_ns: Callable[[], int] | None = None,
    ) -> None:
        """Create the engine. `open_store` opens the folder of a savepoint; it is called on the I/O
        executor. `process` reads the metrics of the hosting process, `thread` the processor time of the
        stepping thread, and `processor_ns` the same precisely, in ns."""
        self.lifecycle = Lifecycle.RUNNING
        self._assignment = assignment
        self._attempt = assignment.attempt
        self._subtask = assignment.subtask
        self._config = config
        self._transport = transport
        self._clock = clock
        self._io = io
        self._process = process
        self._report = report
        self._plan = plan
        self._operators: dict[OperatorId, Operator] = {}
        self._feedback = frozenset(edge.id for edge in plan.edges if edge.feedback)
        # Operators with keyed input share the memory for state.
        sharing = sum(any(port.keys for port in planned.ports) for planned in plan.operators())
        self._contexts = OperatorContexts(
            job=assignment.job,
            attempt=assignment.attempt,
            max_parallelism=plan.max_parallelism,
            clock=clock,
            io=io,
            batch_rows=config.batch_rows,
            subtask=assignment.subtask,
            state=assignment.state,
            state_bytes=assignment.state.memory_bytes // max(sharing, 1),
            scratch=assignment.scratch,
            program=plan.context,
            prepared=assignment.prepared,
            processor_ns=processor_ns,
        )
        wiring = Wiring(
            plan=plan,
            subtask=assignment.subtask,
            attempt=assignment.attempt,
            config=config,
            buffers=config,
            transport=transport,
            clock=clock,
            make_tree=self._make_tree,
        )
        self._chains = wiring.chains()
        self._turns = [(chain, SpentTime()) for chain in reversed(self._chains)]
        self._turn: ChainRunner | None = None
        """Chain that was called last."""
        self._gates = {
            edge_id: chain.gate
            for chain in self._chains
            if isinstance(chain, InputChain)
            for edge_id in chain.chain.inputs
        }
        self._committing = Committing(self._operators, io, clock.monotonic_us)
        self._checkpoints = SubtaskCheckpoints(
            self._attempt,
            self._subtask,
            len(self._chains),
            plan.max_parallelism,
            self._operators,
            self._committing,
            snapshots=snapshots,
            open_store=open_store,
            io=io,
            clock=clock,
            report=report,
        )
        self._pacing = pacing(plan, config, self._turns, clock, thread)
        self._busy_us = 0
        self._blocked_us = 0
        self._was_blocked = False
        self._last_end_us = clock.monotonic_us()
        self._report_every_us = config.report_interval_us(plan.parallelism)
        self._next_progress_us = clock.monotonic_us() + self._report_every_us

    # --- building ---------------------------------------------------------------------------------

    def _make_tree(self, chain: Chain, outputs: Outputs) -> OperatorTree[None]:
        return OperatorTree(chain, partial(self._build_operator, self._plan.width(chain.id)), outputs)

    def _build_operator(self, width: int, planned: PlannedOperator) -> Operator:
        ctx = self._contexts.of(planned, width)
        spec = planned.spec
        if isinstance(spec, SourceSpec):
            operator = spec.operator(ctx, self._assignment.splits.get(planned.id, ()))
        else:
            operator = spec.operator(ctx)
        self._operators[planned.id] = operator
        return operator

    def open(self) -> None:
        """Open every operator with its restored state. Called once, before everything else."""
        for chain in self._chains:
            self._turn = chain
            open_chain(chain, self._assignment.restored)
        self._phases = PhaseReporter(self._attempt, self._subtask, self._operators)
        self._read_splits = ReadSplitsReporter(self._attempt, self._subtask, self._operators)
        self._caught_up = CaughtUpReporter(self._attempt, self._subtask, self._operators)
        self._stops = StopReporter(self._attempt, self._subtask, self._operators)
        self._found = DiscoveredSplits(self._subtask, self._operators)
        now_us = self._clock.monotonic_us
        self._drift = DriftReporter(self._attempt, self._subtask, self._operators, now_us)
        reporters = (self._phases, self._read_splits, self._caught_up, self._stops, self._drift)
        self._reporters = [reporter for reporter in reporters if reporter.watches]
        for chain in self._chains:
            restore_in_flight(chain, self._assignment.restored, self._config.batch_rows)

    # --- control ----------------------------------------------------------------------------------

    def deliver(self, message: control.ToTask) -> None:
        """Handle a message of the master. Ignore a message of another attempt."""
        if message.attempt != self._attempt:
            return
        match message:
            case control.TriggerCheckpoint(checkpoint=checkpoint, savepoint=savepoint):
                self._checkpoints.triggered(message)
                kind = BarrierKind.CHECKPOINT if savepoint is None else BarrierKind.SAVEPOINT
                for chain in self._chains:
                    chain.trigger(checkpoint, kind)
            case control.CheckpointComplete(checkpoint=checkpoint):
                self._committing.complete(checkpoint)
                for operator in self._operators.values():
                    operator.completed(checkpoint)
            case control.SinkPublished(operator=published, checkpoint=checkpoint):
                self._committing.published(published, checkpoint)
            case control.CheckpointAborted(checkpoint=checkpoint):
                for chain in self._chains:
                    chain.abort(checkpoint)
                self._checkpoints.aborted(checkpoint)
            case control.Drain():
                for chain in self._chains:
                    chain.drain()
            case control.OpenPhase():
                self._phases.opened(message)
            case control.SplitsEnded():
                self._read_splits.ended(message)
            case control.SplitsFound():
                self._report(self._found.take(message))
            case control.Align():
                self._drift.heard(message)
            case control.SampleStacks():
                pass  # The host samples its threads.
            case control.Finish() | control.Cancel():
                self.lifecycle = Lifecycle.DONE

    # --- the step ---------------------------------------------------------------------------------

    def step(self) -> Step:
        """Run one turn of the loop. Raise the RheosError that ends the attempt."""
        began_us = self._clock.monotonic_us()
        restless = worked = self._finish_commits()
        for channel, element in self._transport.receive(_RECEIVE_AT_ONCE):
            self._gates[channel.edge].offer(channel, element)
            if channel.edge in self._feedback and isinstance(element, pa.RecordBatch):
                # A loop must never wait for itself. Its head bounds the rows that return.
                self._transport.release(channel)
            worked = True
        blocked = False
        turn_us = began_us
        for chain, spent in self._turns:
            self._turn = chain
            ran = chain.run()
            sent = chain.pump()
            worked |= sent or ran.worked
            blocked |= ran.blocked
            restless |= ran is RunOutcome.WORKED or (sent and ran.blocked)
            for taken in chain.take_snapshots():
                self._checkpoints.gather(taken)
            now_us = self._clock.monotonic_us()
            spent.turn(ran, turn_us, now_us)
            turn_us = now_us
        for reporter in self._reporters:
            for news in reporter.poll():
                self._report(news)
        if self._checkpoints.busy:
            restless |= self._checkpoints.poll()
        if self.lifecycle is Lifecycle.RUNNING and all(chain.ended for chain in self._chains):
            for chain in self._chains:
                # Errors of these chains still fail the job while it has not finished.
                self._turn = chain
                chain.close_functions()
            self.lifecycle = Lifecycle.DRAINED
            self._report(control.Drained(attempt=self._attempt, subtask=self._subtask))
        worked |= restless
        # Rows that return in a loop may be work for a chain that already had its turn.
        restless |= worked and bool(self._feedback)
        now_us = self._clock.monotonic_us()
        if self._was_blocked:
            self._blocked_us += began_us - self._last_end_us
        if worked:
            self._busy_us += now_us - began_us
            self._pacing.turned(now_us - began_us, now_us)
        elif blocked:
            self._blocked_us += now_us - began_us
        self._was_blocked = blocked and not restless
        self._last_end_us = now_us
        if now_us >= self._next_progress_us:
            self._next_progress_us = now_us + self._report_every_us
            self.report_progress()
        return Step(worked, None if restless else self._wake_after_us(now_us))

    def _wake_after_us(self, now_us: int) -> int:
        """Return the time for which only an arrival can create work."""
        next_us = earlier(self._next_progress_us, self._committing.next_us())
        assert next_us is not None
        wake_us = next_us - now_us
        now_ms: int | None = None
        for chain in self._chains:
            next_us = chain.next_us()
            if next_us is not None:
                wake_us = min(wake_us, next_us - now_us)
            timer_ms = chain.next_timer_ms()
            if timer_ms is not None:
                now_ms = self._clock.now_ms() if now_ms is None else now_ms
                wake_us = min(wake_us, (timer_ms - now_ms) * 1000)
        return max(wake_us, 0)

    def _finish_commits(self) -> bool:
        committed = self._committing.poll()
        if committed is None:
            return False
        self._report(
            control.Committed(attempt=self._attempt, subtask=self._subtask, checkpoint=committed)
        )
        return True

    def at_work(self) -> OperatorId | None:
        """Return the operator for which this thread is working: the sink whose commits are handled, or
        the operator that was called last. The stepping thread may call it at any moment."""
        if self._committing.at is not None:
            return self._committing.at
        return None if self._turn is None else self._turn.at

    # --- reports and the end ----------------------------------------------------------------------

    def report_progress(self) -> None:
        """Send the subtask's metrics. Also called a last time before the subtask exits."""
        totals = _sum(chain.totals() for chain in self._chains)
        watermarks = {
            str(planned.id): runner.watermark_ms
            for runner in self._chains
            if runner.watermark_ms > MIN_TIMESTAMP_MS
            for planned in runner.chain.operators
        }
        self._report(
            control.Progress(
                attempt=self._attempt,
                subtask=self._subtask,
                step_us=self._clock.monotonic_us(),
                records_in=totals.records_in,
                records_out=totals.records_out,
                watermark_ms=watermarks,
                busy_us=self._busy_us,
                blocked_us=self._blocked_us,
                counters=totals.counters,
                strangers=self._transport.strangers(),
                accumulated=totals.accumulated,
                gauges={
                    name: shown for chain in self._chains for name, shown in chain.gauges().items()
                },
                readings=[
                    *slot_readings(reversed(self._turns), self._committing, self._clock.now_ms()),
                    *self._pacing.readings(),
                    *self._process(),
                ],
            )
        )

    def close(self) -> None:
        """Close every operator. Rows that sinks have not prepared are dropped."""
        close_each(chain.close for chain in self._chains)


def _sum(totals: Iterable[control.Totals]) -> control.Totals:
    return reduce(control.Totals.plus, totals, control.Totals())
