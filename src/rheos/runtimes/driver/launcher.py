"""The contract between master and runtime: run the subtasks of an attempt, and send them messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from rheos.core.checkpoint.events import AttemptEnded, AttemptLost, AttemptRunning, SlotsLeft
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.connectors.contract import Split
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.control import ToMaster, ToTask
from rheos.core.protocol.ids import Attempt, OperatorId
from rheos.core.task.slot import Deployment
from rheos.runtimes.job import JobConfig

LauncherEvent: TypeAlias = ToMaster | AttemptRunning | AttemptLost | SlotsLeft | AttemptEnded


class Launcher(Protocol):
    """An executor of the subtasks of one attempt at a time, and of its messages. For the master only.
    Every launched attempt ends with exactly one AttemptEnded: after a stop, a failure, or the end of
    all its subtasks. It is the attempt's last event, and follows when nothing of the attempt runs.
    SlotsLeft may precede it."""

    def free_slots(self) -> int:
        """Return the number of subtasks that can start now, without waiting."""
        ...

    def launch(self, attempt: Attempt, restore: Restore | None, parallelism: int) -> None:
        """Start `parallelism` subtasks of every operator, from the checkpoint or savepoint in `restore`
        if any. Do not wait for them: AttemptRunning follows when all are connected. Raise RheosError if
        the attempt cannot start."""
        ...

    def prepare_state(self, restore: Restore, parallelism: int) -> None:
        """Let slots start, and restore a checkpoint ahead of the next attempt. Do not wait for them.

        Called also for later checkpoints, and while an attempt runs: then the slots are next to those
        of that attempt (UP12). The next attempt takes them, if it has the same parallelism. A failure
        only makes its start take longer.
        """
        ...

    def has_prepared(self) -> bool:
        """Return whether slots exist that have restored a recent checkpoint ahead of the next attempt.
        For any thread."""
        ...

    def not_prepared(self) -> str | None:
        """Return why no slots restore state ahead of the next attempt, though it was requested. Return
        None if they do, if they start, or if nothing was requested."""
        ...

    def is_prepared(self) -> bool:
        """Return whether waiting for `prepare_state` would not make the next start shorter: all slots
        have restored a recent checkpoint, none was requested, or they failed. For any thread."""
        ...

    def send(self, message: ToTask, subtask: int | None = None) -> None:
        """Send a message to one subtask, or to all. It is lost if the attempt is over."""
        ...

    def stop(self, attempt: Attempt) -> None:
        """End the attempt, by force if necessary, without waiting for it. May be called again."""
        ...

    def joined(self) -> int:
        """Return the number of subtasks of the attempt that have connected to the driver."""
        ...

    def strangers(self) -> int:
        """Return the number of frames and connections of unauthenticated peers that the driver has
        dropped so far."""
        ...

    def stage(self) -> str | None:
        """Return the kind of Spark stage whose tasks are the slots, and the reason; None without
        Spark."""
        ...

    def poll(self) -> Sequence[LauncherEvent]:
        """Return the events since the last call, in order. Raise RheosError if no further attempt can
        run under this driver."""
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
