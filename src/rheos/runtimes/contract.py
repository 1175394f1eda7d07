"""What a runtime is: it takes a physical plan and gives a running job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from rheos.checkpoint.config import CheckpointConfig
from rheos.checkpoint.events import AttemptEnded, AttemptLost, AttemptRunning
from rheos.checkpoint.log import CheckpointCompleted
from rheos.plan.physical import PhysicalPlan
from rheos.protocol.control import ToMaster, ToTask
from rheos.protocol.ids import Attempt, JobId
from rheos.task.config import TaskConfig


class JobState(Enum):
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True)
class JobConfig:
    """All that a runtime is told of a job, beside its plan."""

    job: JobId
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    checkpoint_dir: str | None = None
    """A path or fsspec URL; None puts it into a temporary folder that goes with the job."""
    master: str | None = None
    """A Spark master; None makes `local[parallelism + 1]`, or takes the session there is."""
    spark: Any | None = None
    """An existing SparkSession."""
    encrypt: bool = False


@dataclass(frozen=True)
class OperatorStatus:
    """Totals over all subtasks, since the job began."""

    id: str
    name: str
    records_in: int = 0
    records_out: int = 0
    watermark_ms: int | None = None
    """None before there is one."""
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class JobStatus:
    """A job at one moment, for the status line, the command and the tests."""

    job: JobId
    name: str
    state: JobState
    attempt: int
    running_s: float
    records_per_s: float
    """What the sources gave, over the last second or so."""
    watermark_ms: int | None
    """The least over all operators."""
    checkpoints_completed: int
    checkpoints_failed: int
    last_checkpoint_ms: int | None
    """How long the last one took."""
    restarts: int
    busy_ratio: float
    """Share of the time in which the busiest subtask worked."""
    backpressure_ratio: float
    """Share of the time in which the most held-up subtask waited for credit."""
    operators: tuple[OperatorStatus, ...] = ()
    failure: str | None = None


@dataclass(frozen=True)
class JobResult:
    """What is left when a job has ended."""

    status: JobStatus
    collected: Mapping[str, pa.Table] = field(default_factory=dict)
    """The rows of each collect sink, by the sink's operator name."""

    def counter(self, operator: str, name: str) -> int:
        """A counter (`late`, `skipped`, ...) of the operator of that name; 0 where it never counted."""
        return sum(o.counters.get(name, 0) for o in self.status.operators if o.name == operator)


LauncherEvent: TypeAlias = ToMaster | AttemptRunning | AttemptLost | AttemptEnded


class Launcher(Protocol):
    """Runs the subtasks of one attempt at a time, and carries the messages. Used by the master alone.

    Every attempt that was launched is told of once by AttemptEnded, last of all, when nothing of it
    runs any more: after a stop, a failure, or the end of all its subtasks.
    """

    def launch(self, attempt: Attempt, restore: CheckpointCompleted | None) -> None:
        """Starts all subtasks, from the checkpoint where there is one. Does not wait for them:
        AttemptRunning follows when all are connected. Raises RheosError where it cannot begin."""
        ...

    def send(self, message: ToTask, subtask: int | None = None) -> None:
        """To one subtask, or to all; lost where the attempt is over."""
        ...

    def stop(self, attempt: Attempt) -> None:
        """Makes an end of the attempt, by force where need be. Does not wait; may be called again."""
        ...

    def poll(self) -> Sequence[LauncherEvent]:
        """What has happened since the last call, in order."""
        ...


class JobHandle(Protocol):
    """A running job. Its methods may be called from any thread."""

    def status(self) -> JobStatus: ...

    def wait(self, timeout_s: float | None = None) -> JobResult:
        """Returns when the job has ended. Raises the RheosError that ended it, TimeoutError."""
        ...

    def cancel(self) -> None:
        """Stops the job: no further output is committed. Returns when it has stopped."""
        ...


class Runtime(Protocol):
    """Executes plans."""

    def submit(
        self, plan: PhysicalPlan, config: JobConfig, listener: Callable[[JobStatus], None] | None = None
    ) -> JobHandle:
        """Starts the plan. Raises ConfigurationError where the surroundings do not allow it.

        `listener` is called about once a second from a thread of the runtime.
        """
        ...
