"""The handle of a running job, and the contract of runtimes, which start a plan and return one."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa

from rheos.core.errors import RheosError
from rheos.core.metrics.model import MetricsReport
from rheos.core.plan.physical import PhysicalPlan
from rheos.runtimes.job import JobConfig, JobResult, JobStatus
from rheos.runtimes.job_methods import JobMethods
from rheos.runtimes.operation_contract import DriverOperation

T = TypeVar("T")


class JobHandle(JobMethods, ABC):
    """A running job. Its methods may be called from any thread.

    ```python
    job = env.execute_async("count events")
    print(job.status().state, job.savepoint("savepoints"))
    job.wait()
    ```
    """

    endless: Sequence[str] = ()
    """Names of the sources that keep a job in virtual time running until it is cancelled."""

    @abstractmethod
    def ask(self, operation: DriverOperation[T]) -> T:
        """Return the answer of the job's driver. Raise the RheosError with which it refuses."""

    @abstractmethod
    def status(self) -> JobStatus:
        """Return the current status of the job."""

    @abstractmethod
    def wait(self, timeout_s: float | None = None) -> JobResult:
        """Wait until the job has ended.

        Args:
            timeout_s: Maximum time in seconds; None waits without a limit.

        Returns:
            The result of the job.

        Raises:
            RheosError: The error that ended the job.
            TimeoutError: The job still runs.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Stop the job: no further output is committed. Return when it has stopped."""

    def leave(self, within_s: float) -> None:
        """End the job under this driver. It takes a checkpoint, from which the next driver resumes it.

        Args:
            within_s: Maximum time in seconds. The job may still run when it is over.
        """
        self.cancel()

    @abstractmethod
    def metrics(self) -> MetricsReport:
        """Return all current metrics of the job, by operator, subtask and edge."""

    def take_collected(self) -> Mapping[str, pa.Table]:
        """Return the rows of complete checkpoints that collect sinks have gathered since the last call.
        They are no longer part of the result. A job without checkpoints has no rows before its end."""
        return {}

    def figures(self) -> MetricsReport:
        """Return `metrics()`. Deprecated name."""
        _warn_of_renaming("figures", "metrics")
        return self.metrics()

    def story(self) -> Sequence[str]:
        """Return `decisions()`. Deprecated name."""
        _warn_of_renaming("story", "decisions")
        return self.decisions()


def _warn_of_renaming(old: str, new: str) -> None:
    what = f"JobHandle.{old}() has been renamed to JobHandle.{new}()"
    warnings.warn(what, DeprecationWarning, stacklevel=4)


class WithoutCheckpoints(JobHandle):
    """A job without checkpoints. It refuses what needs them, and has no history or event log."""

    def ask(self, operation: DriverOperation[T]) -> T:
        """Return the empty answer, or raise the operation's refusal."""
        answer = operation.nothing()
        if answer is None:
            raise self._refused(operation.refusal())
        return answer

    def _refused(self, refusal: RheosError) -> RheosError:
        return refusal


class Runtime(Protocol):
    """An executor of plans."""

    def submit(
        self, plan: PhysicalPlan, config: JobConfig, listener: Callable[[JobStatus], None] | None = None
    ) -> JobHandle:
        """Start the plan. Raise ConfigurationError if the environment does not allow it. `listener` is
        called about once a second from a thread of the runtime."""
        ...
