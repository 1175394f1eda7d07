"""The handle of a job whose driver refuses its stored state, so that nothing has to start.

A master decides that as for every job. So its status, its events and its error are those of a job that
has failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TypeVar

from rheos.core.checkpoint.savepoint import Restore
from rheos.core.errors import CheckpointError
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.control import ToTask
from rheos.core.protocol.ids import Attempt
from rheos.runtimes.driver.driven_job import MasterDrivenJob
from rheos.runtimes.driver.driver_logs import RestartReport
from rheos.runtimes.driver.launcher import LauncherEvent
from rheos.runtimes.driver.master import Master
from rheos.runtimes.host.io import InlineIo, SystemClock
from rheos.runtimes.host.scratch import OwnedFolder
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job import JobConfig, JobResult

T = TypeVar("T")


class RefusedJob(MasterDrivenJob):
    """A job that has failed before Spark starts, because its program does not fit its stored state."""

    def __init__(self, plan: PhysicalPlan, config: JobConfig, misfit: CheckpointError) -> None:
        """Let a master read the log, and refuse it. `misfit` is the expected error."""
        with ExitStack() as undo:
            directory = config.checkpoint_dir
            if directory is None:
                temporary = OwnedFolder("rheos-checkpoints-")
                undo.callback(temporary.close)
                directory = temporary.path
            self._master = Master(
                plan,
                config,
                store=open_store(directory),
                clock=SystemClock(),
                launcher=_NoSlots(plan.parallelism, misfit),
                io=InlineIo(),
                listing=InlineIo(),
                splits={},
            )
            while not self._master.done:
                self._master.step()
        RestartReport().heard(self._master.status())

    @property
    def master(self) -> Master:
        return self._master

    def wait(self, timeout_s: float | None = None) -> JobResult:
        return self._master.result()

    def cancel(self) -> None:
        """Do nothing: the job has ended."""

    def answered(self, answer: Future[T], what_failed: str) -> T:
        """Return the answer, which the master gave when the job ended."""
        return answer.result(0)

    def savepoint_place(self, directory: str | None) -> str:
        raise CheckpointError("no savepoint was taken: the job has ended")

    def wait_until_over(self) -> None:
        """Do nothing: the job has ended."""

    def check_sampled(self) -> None:
        """Do nothing: the master refuses to sample subtasks of an ended job."""


class _NoSlots:
    """A launcher without slots. The master launches an attempt only if the log has changed since the
    misfit was found: then `poll` raises it."""

    def __init__(self, free_slots: int, misfit: CheckpointError) -> None:
        self._free_slots = free_slots
        self._misfit = misfit
        self._launched = False

    def free_slots(self) -> int:
        return self._free_slots

    def launch(self, attempt: Attempt, restore: Restore | None, parallelism: int) -> None:
        self._launched = True

    def prepare_state(self, restore: Restore, parallelism: int) -> None:
        pass

    def has_prepared(self) -> bool:
        return False

    def not_prepared(self) -> str | None:
        return None

    def is_prepared(self) -> bool:
        return True

    def send(self, message: ToTask, subtask: int | None = None) -> None:
        pass

    def stop(self, attempt: Attempt) -> None:
        pass

    def joined(self) -> int:
        return 0

    def strangers(self) -> int:
        return 0

    def stage(self) -> str | None:
        return None

    def poll(self) -> Sequence[LauncherEvent]:
        if self._launched:
            raise self._misfit
        return ()
