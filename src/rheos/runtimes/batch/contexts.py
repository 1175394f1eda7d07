"""The contexts of operators within a Spark task."""

from __future__ import annotations

from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.ids import Attempt
from rheos.core.task.contexts import OperatorContexts
from rheos.runtimes.batch.tasks import Task
from rheos.runtimes.host.io import InlineIo, SystemClock
from rheos.runtimes.spark import job_files


def partition_number() -> int:
    """Return the number of the partition of its stage that this task computes."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return int(context.partitionId()) if context is not None else 0


def context_of(
    task: Task, planned: PlannedOperator, partition: int, *, keyed: bool, scratch: str | None
) -> OperatorContext:
    """Return the context of one operator. A keyed operator receives all rows of its keys, whichever
    partition it is in, so it owns all key groups as if it were the only subtask. A source has its split
    to itself, too."""
    alone = keyed or isinstance(planned.spec, SourceSpec)
    contexts = OperatorContexts(
        job=task.job,
        attempt=Attempt(task.first_attempt + _task_attempt()),
        max_parallelism=task.max_parallelism,
        clock=SystemClock(),
        io=InlineIo(),
        batch_rows=task.batch_rows,
        subtask=0 if alone else partition,
        state=task.limits,
        scratch=scratch,
        program=job_files.local(task.context),
    )
    return contexts.of(planned, 1 if alone else max(task.parallelism, partition + 1))


def _task_attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return int(context.taskAttemptId()) if context is not None else 0
