"""The contract between master and runtime: running the subtasks of an attempt, and sending messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from rheos.core.checkpoint.events import AttemptEnded, AttemptLost, AttemptRunning
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.connectors.contract import Split
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.control import ToMaster, ToTask
from rheos.core.protocol.ids import Attempt, OperatorId
from rheos.core.task.slot import Deployment
from rheos.runtimes.job import JobConfig

LauncherEvent: TypeAlias = ToMaster | AttemptRunning | AttemptLost | AttemptEnded


class Launcher(Protocol):
    """Runs the subtasks of one attempt at a time, and carries the messages. Used by the master alone.

    The last event of every attempt that was launched is one AttemptEnded, when nothing of it runs any
    longer: after a stop, a failure, or the end of all its subtasks.
    """

    def free_slots(self) -> int:
        """Return the number of subtasks that can run now, without waiting."""
        ...

    def launch(self, attempt: Attempt, restore: Restore | None, parallelism: int) -> None:
        """Starts `parallelism` subtasks of every operator, from the checkpoint or savepoint where there
        is one. Does not wait for them: AttemptRunning follows when all are connected. Raises RheosError
        where it cannot begin."""
        ...

    def send(self, message: ToTask, subtask: int | None = None) -> None:
        """To one subtask, or to all; lost where the attempt is over."""
        ...

    def stop(self, attempt: Attempt) -> None:
        """Makes an end of the attempt, by force where need be. Does not wait; may be called again."""
        ...

    def strangers(self) -> int:
        """Return the number of frames and connections of unauthenticated peers that the driver has
        dropped so far."""
        ...

    def poll(self) -> Sequence[LauncherEvent]:
        """Return the events since the last call, in order."""
        ...


def deployment(
    plan: PhysicalPlan,
    config: JobConfig,
    splits: Mapping[OperatorId, Sequence[Split]],
    attempt: Attempt,
    restore: Restore | None,
) -> Deployment:
    """Return the deployment of an attempt's slots. `plan` has the attempt's parallelism."""
    return Deployment(
        plan=plan,
        job=config.job,
        writer=config.writer,
        attempt=attempt,
        config=config.task,
        splits=splits,
        restore=restore,
        state=config.state,
    )
