"""Creates the context of each operator in a subtask. No other place creates contexts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rheos.core.checkpoint.names import safe_name
from rheos.core.graph.job_context import JobContext
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.prepared_state import PreparedState
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.ids import Attempt, JobId, OperatorId
from rheos.core.protocol.ports import Clock, TaskIo
from rheos.core.protocol.state_config import StateConfig


@dataclass(frozen=True, kw_only=True)
class OperatorContexts:
    """Everything that the operators of one subtask share.

    Each host of operators has one: a slot, a task of a batch job, a test harness, a replay.
    """

    job: JobId
    attempt: Attempt
    max_parallelism: int
    clock: Clock
    io: TaskIo
    batch_rows: int
    """Maximum number of rows in a batch that an operator emits."""
    subtask: int = 0
    state: StateConfig = field(default_factory=StateConfig)
    state_bytes: int = StateConfig.memory_bytes
    """Memory limit for the state of one operator."""
    scratch: str | None = None
    """Local folder of the subtask, in which each operator gets a folder. None if there is no disk."""
    program: JobContext = field(default_factory=JobContext)
    number: int | None = None
    """Number among the operator's tasks, if it differs from `subtask`."""
    prepared: Mapping[OperatorId, PreparedState] = field(default_factory=dict)
    """State of operators that was restored ahead."""
    processor_ns: Callable[[], int] | None = None
    """Reads the processor time of the thread that calls the operators; None if nothing measures it."""

    def of(self, planned: PlannedOperator, width: int = 1) -> OperatorContext:
        """Return a new context for an operator, of which `width` subtasks have rows."""
        return OperatorContext(
            job=self.job,
            attempt=self.attempt,
            operator=planned.id,
            name=planned.name,
            site=planned.site,
            subtask=self.subtask,
            parallelism=width,
            max_parallelism=self.max_parallelism,
            ports=planned.ports,
            outputs=planned.outputs,
            clock=self.clock,
            io=self.io,
            batch_rows=self.batch_rows,
            state=self.state,
            state_bytes=self.state_bytes,
            scratch=None if self.scratch is None else f"{self.scratch}/{safe_name(planned.id)}",
            program=self.program,
            prepared=self.prepared.get(planned.id),
            processor_ns=self.processor_ns,
            leads=(self.subtask if self.number is None else self.number) == 0,
        )
