"""Runs a program over taped input, in this thread and in one subtask of each operator.

The run begins with the state of a checkpoint, or with none. All operators process the rows of one poll
before a source is polled again. The clock does not advance, so no timer of processing time fires.
"""

from __future__ import annotations

from dataclasses import dataclass

from rheos.core.checkpoint.as_savepoint import CopiedCheckpoint
from rheos.core.checkpoint.restored_state import RestoredByOperator
from rheos.core.operators.contract import Operator
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, ChainId, JobId
from rheos.core.protocol.snapshots import PartMode
from rheos.core.protocol.state_config import Backend, StateConfig
from rheos.core.task.contexts import OperatorContexts
from rheos.core.task.outputs import Outputs
from rheos.core.task.plan_driver import PlanDriver
from rheos.core.task.tree import OperatorTree
from rheos.runtimes.host.awaited_calls import wait_for
from rheos.runtimes.host.io import ThreadedIo
from rheos.runtimes.simulated.clock import SimClock

_ROWS = 1024
"""Maximum number of rows in a batch that an operator emits."""
_THREADS = 4


@dataclass(frozen=True)
class Beginning:
    """The initial state of a run."""

    restored: RestoredByOperator
    state: StateConfig
    folder: str
    """An empty folder, for state on disk."""


def state_backend(checkpoint: CopiedCheckpoint | None) -> StateConfig:
    """Return a state backend that reads the checkpoint. Only a database reads its own files."""
    handles = () if checkpoint is None else checkpoint.savepoint.entry.handles
    in_files = any(handle.mode is PartMode.FILE for handle in handles)
    return StateConfig(Backend.ROCKSDB if in_files else Backend.MEMORY).without_limits()


class TapedRun:
    """One run of a plan whose sources are tapes. The caller closes it."""

    def __init__(self, job: JobId, plan: PhysicalPlan, beginning: Beginning, rows_at_once: int) -> None:
        """`rows_at_once`: maximum number of rows that a source reads before another has its turn.
        Raises the RheosError of an operator that cannot be made."""
        self._restored = beginning.restored
        self._clock = SimClock()
        self._io = ThreadedIo(_THREADS, lambda: None)
        self._contexts = OperatorContexts(
            job=job,
            attempt=Attempt(1),
            max_parallelism=plan.max_parallelism,
            clock=self._clock,
            io=self._io,
            batch_rows=_ROWS,
            state=beginning.state,
            scratch=beginning.folder,
            program=plan.context,
        )
        try:
            self._driver = PlanDriver(
                plan,
                attempt=Attempt(1),
                clock=self._clock,
                make_tree=self._make_tree,
                batch_rows=rows_at_once,
                delivers=self._delivers,
            )
        except BaseException:
            self._io.close()
            raise

    def _make_tree(self, chain: Chain, outputs: Outputs) -> OperatorTree[None]:
        return UntimedTree(chain, self._make_operator, outputs, wait_for=wait_for)

    def _make_operator(self, planned: PlannedOperator) -> Operator:
        spec = planned.spec
        ctx = self._contexts.of(planned)
        if isinstance(spec, SourceSpec):
            return spec.operator(ctx, list(spec.source.splits()))
        return spec.operator(ctx)

    def _delivers(self, batch: Batch) -> None:
        """Note a batch that another chain is about to process."""

    def open(self) -> None:
        """Open every operator with its restored state. Raises the RheosError of one that fails."""
        self._driver.open(self._restored)

    def read(self, source: ChainId) -> bool:
        """Let a source read a little, and process that. Return whether its tape has more."""
        worked = self._driver.poll(source)
        chain = self._driver.sources[source]
        return not chain.ended and (worked or not chain.has_caught_up())

    def run(self) -> None:
        """Read all tapes to their ends, the sources in turns. Raises the RheosError of what fails."""
        self.open()
        reading = list(self._driver.sources)
        while reading:
            reading = [source for source in reading if self.read(source)]

    def close(self) -> None:
        """Close the operators and the I/O."""
        self._driver.close()
        self._io.close()


class UntimedTree(OperatorTree[None]):
    """The operators of a chain in a run whose clock does not advance."""

    def next_timer_ms(self) -> None:
        """Return None: no timer of processing time fires."""
        return None
