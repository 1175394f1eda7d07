"""Values that describe a job: its settings, its status and its result."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa

from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.events import Outcome
from rheos.core.checkpoint.log_entries import JobCounts
from rheos.core.checkpoint.upgrade import Upgrade
from rheos.core.metrics.health import HealthState, JobHealth
from rheos.core.metrics.history import HistoryConfig
from rheos.core.protocol.accumulated import Accumulated
from rheos.core.protocol.control import LAPS, Cost
from rheos.core.protocol.ids import JobId, JobKey, OperatorId
from rheos.core.protocol.state_config import StateConfig
from rheos.core.redaction import host_alone, redacted, redacted_repr
from rheos.core.task.config import TaskConfig


class JobState(Enum):
    """The state of a job, or its outcome."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    """With a savepoint: all up to it is committed, and nothing after it."""
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self not in (JobState.STARTING, JobState.RUNNING, JobState.RESTARTING)


@dataclass(frozen=True)
class ScalingBounds:
    """Bounds of the parallelism of a job that follows its load."""

    least: int
    most: int | None = None
    """None: as many as there are slots."""

    def __str__(self) -> str:
        return f"{self.least} to {self.most if self.most is not None else 'all available slots'}"


class AlertConfig:
    """The destination of a job's alerts. Only the host is shown: the path of such an address is often a
    secret."""

    def __init__(self, url: str, least: HealthState = HealthState.STUCK) -> None:
        """`least` is the lightest state of health that is worth an alert."""
        self.url = url
        self.least = least

    def __repr__(self) -> str:
        return f"{host_alone(self.url)}, from {self.least.value} on"


@dataclass(frozen=True)
class Predecessor:
    """The driver that had the job before this one, as its note says."""

    driver: str
    """Its process and host, for people."""
    released: bool
    """Whether it gave the job back; else it was lost."""
    outcome: Outcome | None = None
    """Outcome of the job; None if this driver did not end it."""
    seen_ms: int | None = None
    """Wall-clock time of its last sign of life, ms since the epoch."""


@dataclass(frozen=True)
class JobConfig:
    """Everything that a runtime receives of a job except its plan."""

    job: JobId
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    checkpoint_dir: str | None = None
    """A path or fsspec URL; None puts it into a temporary folder that goes with the job."""
    master: str | None = None
    """A Spark master; None makes `local[parallelism + 1]`, or takes the session there is."""
    slots_beside: int = 0
    """Number of additional slots of a master that Rheos makes, for Spark jobs next to this one."""
    spark: Any | None = None
    """An existing SparkSession."""
    encrypt: bool | None = None
    """Encrypts what travels between the job's processes; None does so where they run on several
    machines."""
    heartbeat_timeout_ms: int = 15_000
    """Time in ms without a message after which a worker and its driver abandon each other."""
    state: StateConfig = field(default_factory=StateConfig)
    from_savepoint: str | None = None
    """A savepoint's folder: the job's state where its log does not say that it began from there."""
    allow_dropped: bool = False
    """Whether state of the savepoint is dropped that the program no longer has."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The uids of operators in the program, by those that they had when state was stored."""
    history: HistoryConfig | None = field(default_factory=HistoryConfig)
    """Settings of the metrics history; None keeps no history."""
    log_level: int | None = 20
    """Minimum level of the workers' log records that are kept, as in `logging`; None keeps none."""
    scaling: ScalingBounds | None = None
    """Its width follows its load, within these; None keeps it as it is."""
    min_parallelism: int | None = None
    """A job that has lost slots for good goes on with fewer, down to this; None waits for them."""
    alerts: AlertConfig | None = None
    """Destination of changes of its health; None posts none."""
    until_now: bool = False
    """It stops, with a checkpoint, once it has read what its sources have when it is submitted."""
    standby: bool = False
    """Whether this driver waits for another one that runs the job, and takes over when that one is
    gone."""
    settings: tuple[tuple[str, str], ...] = ()
    """The settings by the names of `rh.Settings`, as a user writes them, for display."""
    driver: str = ""
    """Process and host of this driver, for people."""
    predecessor: Predecessor | None = None
    """The previous driver of the job; None if there is none, or it is unknown."""

    __repr__ = redacted_repr

    @property
    def upgrade(self) -> Upgrade:
        """Return the treatment of stored state that does not match the program."""
        renamed = {OperatorId(old): OperatorId(new) for old, new in self.renamed.items()}
        return Upgrade(self.allow_dropped, self.state.new_aggregates, renamed)

    @property
    def writer(self) -> JobId:
        """Return the identity of the job for sinks: its name and its directory. A fork with the same
        name must not treat the other job's staged output as its own, and delete it."""
        if self.checkpoint_dir is None:
            return self.job
        return JobId(_at(self.job, self.checkpoint_dir))

    @property
    def key(self) -> JobKey:
        """Identity of the job over all its drivers."""
        return job_key(self.job, self.checkpoint_dir)


def job_key(job: JobId, directory: str | None) -> JobKey:
    """Return the identity of a job: the same for every driver that runs it, on any host.

    Two jobs of one name in two checkpoint directories have two keys. A job without a checkpoint
    directory has a new id each time it is started, and this is its key.

    Args:
        job: the job's id.
        directory: the job's checkpoint directory, a URL or an absolute path. Credentials in a URL do
            not change the key.
    """
    if directory is None:
        return JobKey(job)
    shown = redacted(directory).replace("://***@", "://").removeprefix("file://")
    return JobKey(_at(job, shown))


def _at(job: JobId, directory: str) -> str:
    return f"{job}-{zlib.crc32(directory.rstrip('/').encode()):08x}"


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
    accumulated: Mapping[str, Accumulated] = field(default_factory=dict)
    """Accumulators of its function: `ctx.accumulator(name)`, `ctx.histogram(name)`."""
    gauges: Mapping[str, float] = field(default_factory=dict)
    """Current gauges of its function, `ctx.gauge(name, ...)`: the maximum over all subtasks."""


@dataclass(frozen=True)
class ScalingStatus:
    """Scaling of a job whose parallelism follows its load."""

    bounds: ScalingBounds
    state: str
    """A word: `steady`, `settling`, `no_slots`, ..."""
    meaning: str
    """Explanation of that state."""
    last_change: str | None = None
    """From which width to which, and why; None before the first."""


@dataclass(frozen=True)
class LatencyStatus:
    """Latency of a job with an objective: the values that its slots have chosen, and the measured
    ones."""

    objective_ms: float
    found_ms: float
    """Time of a row along its path, in the slowest slot."""
    buffer_timeout_ms: float
    """The least of all slots."""
    batch_rows: int
    """The least of all slots."""


class WaitKind(Enum):
    """The kind of a wait."""

    CALL = "call"
    """A call of the driver to a server."""
    RECOVERY = "recovery"
    PUBLISHING = "publishing"
    """A sink whose output the driver publishes."""
    REQUEST = "request"
    """A savepoint, a stop or a rescale."""


@dataclass(frozen=True)
class JobWait:
    """Something that a job waits for, such as a server that does not answer."""

    what: str
    """A sentence, with the sink, the server and the subtasks as far as they are known."""
    since_ms: int
    """Start of the wait: wall-clock time in ms since the epoch."""
    kind: WaitKind = WaitKind.REQUEST


@dataclass(frozen=True, repr=False)
class JobStatus:
    """A job at one moment, for the status line, the command and the tests."""

    job: JobId
    name: str
    state: JobState
    attempt: int
    running_s: float
    records_per_s: float
    """Rows per second that the sources emitted, over about the last second."""
    watermark_ms: int | None
    """The least over all operators."""
    checkpoints_completed: int
    checkpoints_failed: int
    """These two, and `restarts`, are counted over all drivers of the job, as its log says."""
    last_checkpoint_ms: int | None
    """Duration of the last one in ms."""
    restarts: int
    busy_ratio: float
    """Share of the time in which the busiest subtask worked."""
    backpressure_ratio: float
    """Share of the time in which the most held-up subtask waited for credit."""
    operators: tuple[OperatorStatus, ...] = ()
    failure: str | None = None
    parallelism: int = 0
    """Parallelism of the running attempt."""
    last_checkpoint_bytes: int | None = None
    """The size of the newest checkpoint's state, with what it shares with those before it."""
    last_checkpoint_sync_us: int | None = None
    """Time for which the newest checkpoint paused processing, in the slowest subtask."""
    strangers: int = 0
    """Frames and connections that were not of the job, and were dropped by its sockets."""
    checkpoint_failure: str | None = None
    """Why the newest checkpoint failed; None once another is complete."""
    earlier: JobCounts = field(default_factory=JobCounts)
    """Counts of the job from before this driver. They are part of the counts above."""
    finished_before: bool = False
    """It had finished when it was started: nothing was run."""
    source_lag_rows: int | None = None
    """Records that wait in the sources; None if no source knows it."""
    source_lag_ms: int | None = None
    """Time by which the newest event time read is behind the wall clock, of the source that is furthest
    behind; None without event time."""
    since_published_ms: int | None = None
    """Time since the last publication of the sink that waits longest; None if no sink publishes with
    checkpoints."""
    latency: LatencyStatus | None = None
    """None without an objective, and before it was first looked at."""
    scaling: ScalingStatus | None = None
    """None where the width does not follow the load."""
    health: JobHealth | None = None
    """Health of the job, with its findings; None before its driver has checked it, and for batch
    jobs."""
    waits: tuple[JobWait, ...] = ()
    """Waits of a recovery, of the driver's publications, or of a savepoint; the longest first."""
    events_dropped: int = 0
    """Number of events that the bound of the event log has dropped."""

    @property
    def iterating(self) -> Mapping[str, int]:
        """The loops that go on though their input has ended, and how many laps they have gone since."""
        if self.state is not JobState.RUNNING:
            return {}
        laps = {of.name: int(of.gauges.get(LAPS, 0)) for of in self.operators}
        return {name: count for name, count in laps.items() if count}

    def __repr__(self) -> str:
        """One line, for a notebook; the fields say more."""
        return f"<JobStatus {self.summary}>"

    @property
    def summary(self) -> str:
        """The name, the state and the most important metrics, in one line."""
        parts = [
            f"{self.name!r} {self.state.value} for {self.running_s:.1f} s",
            f"{self.records_per_s:,.0f} records/s",
            f"checkpoints {self.checkpoints_completed}",
            f"restarts {self.restarts}",
        ]
        if self.failure:
            parts.append(f"because of: {self.failure.splitlines()[0]}")
        return ", ".join(parts)


@dataclass(frozen=True)
class CheckpointInfo:
    """One completed checkpoint or savepoint, for display."""

    checkpoint: int
    attempt: int
    completed_ms: int
    duration_ms: int
    state_bytes: int
    """Size of all its files, including those that it shares with other checkpoints."""
    cost: Cost
    savepoint: str = ""
    """The folder of the savepoint that was taken with it."""


@dataclass(frozen=True)
class JobResult:
    """The result of a job that has ended."""

    status: JobStatus
    collected: Mapping[str, pa.Table] = field(default_factory=dict)
    """The rows of each collect sink that this run committed, by the sink's operator name. To ask for
    those of a job that had finished before raises ConfigurationError: they went to an earlier run."""

    def counter(self, operator: str, name: str) -> int:
        """A counter (`late`, `skipped`, ...) of the operator of that name; 0 where it never counted."""
        return sum(o.counters.get(name, 0) for o in self.status.operators if o.name == operator)

    def accumulator(self, operator: str, name: str) -> Accumulated:
        """Return the values that functions of the operator with this name have added to
        `ctx.accumulator(name)` or `ctx.histogram(name)`; empty if nothing was added."""
        total = Accumulated()
        for status in self.status.operators:
            if status.name == operator and name in status.accumulated:
                total = total.plus(status.accumulated[name])
        return total
