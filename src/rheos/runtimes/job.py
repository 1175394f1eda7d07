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
    """What a job is doing, or how it has ended."""

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
    """Of the width of a job that follows its load."""

    least: int
    most: int | None = None
    """None: as many as there are slots."""

    def __str__(self) -> str:
        return f"{self.least} to {self.most if self.most is not None else 'as many as there are slots'}"


class AlertConfig:
    """Where alerts of a job go. It shows the host alone: the path of such an address is often a
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
    """How it ended the job. None: it did not."""
    seen_ms: int | None = None
    """Wall-clock time of its last sign of life, ms since the epoch."""


@dataclass(frozen=True)
class JobConfig:
    """All that a runtime is given of a job, beside its plan."""

    job: JobId
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    checkpoint_dir: str | None = None
    """A path or fsspec URL; None puts it into a temporary folder that goes with the job."""
    master: str | None = None
    """A Spark master; None makes `local[parallelism + 1]`, or takes the session there is."""
    slots_beside: int = 0
    """How many slots more a master has that is made so, for jobs that run beside this one."""
    spark: Any | None = None
    """An existing SparkSession."""
    encrypt: bool | None = None
    """Encrypts what travels between the job's processes; None does so where they run on several
    machines."""
    heartbeat_timeout_ms: int = 15_000
    """A worker and its driver that have not heard of each other for so long give each other up."""
    state: StateConfig = field(default_factory=StateConfig)
    from_savepoint: str | None = None
    """A savepoint's folder: the job's state where its log does not say that it began from there."""
    allow_dropped: bool = False
    """State of the savepoint that the program has no place for is left behind."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The uids of operators in the program, by those that they had when state was stored."""
    history: HistoryConfig | None = field(default_factory=HistoryConfig)
    """How its metrics are kept; None keeps none."""
    log_level: int | None = 20
    """What its workers log from this level of Python's logging on is kept; None keeps nothing."""
    scaling: ScalingBounds | None = None
    """Its width follows its load, within these; None keeps it as it is."""
    min_parallelism: int | None = None
    """A job that has lost slots for good goes on with fewer, down to this; None waits for them."""
    alerts: AlertConfig | None = None
    """Where changes of its health are posted; None posts none."""
    until_now: bool = False
    """It stops, with a checkpoint, once it has read what its sources have when it is submitted."""
    standby: bool = False
    """Where another driver runs it, it is taken over when that one is gone."""
    settings: tuple[tuple[str, str], ...] = ()
    """The settings by the names of `rh.Settings`, as a user writes them, for display."""
    driver: str = ""
    """Process and host of this driver, for people."""
    predecessor: Predecessor | None = None
    """The driver that had the job before; None if there was none, or nothing is known of it."""

    __repr__ = redacted_repr

    @property
    def upgrade(self) -> Upgrade:
        """What becomes of stored state that does not fit the program as it is."""
        renamed = {OperatorId(old): OperatorId(new) for old, new in self.renamed.items()}
        return Upgrade(self.allow_dropped, self.state.new_aggregates, renamed)

    @property
    def writer(self) -> JobId:
        """What sinks know the job by: its name and its directory. A fork of the same name must not
        take for its own what the other has staged, and clear it away."""
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
    """What its function has added up: `ctx.accumulator(name)`, `ctx.histogram(name)`."""
    gauges: Mapping[str, float] = field(default_factory=dict)
    """What its function shows at the moment: `ctx.gauge(name, ...)`, of all subtasks the most."""


@dataclass(frozen=True)
class ScalingStatus:
    """Of a job whose width follows its load."""

    bounds: ScalingBounds
    state: str
    """A word: `steady`, `settling`, `no_slots`, ..."""
    meaning: str
    """Of that state."""
    last_change: str | None = None
    """From which width to which, and why; None before the first."""


@dataclass(frozen=True)
class LatencyStatus:
    """Of a job with a latency objective: what its slots have chosen, and what they have found."""

    objective_ms: float
    found_ms: float
    """What a row takes along its path, in the slowest slot."""
    buffer_timeout_ms: float
    """The least of all slots."""
    batch_rows: int
    """The least of all slots."""


class WaitKind(Enum):
    """What waits."""

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
    """When the wait began: wall-clock time in ms since the epoch."""
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
    """What the sources gave, over the last second or so."""
    watermark_ms: int | None
    """The least over all operators."""
    checkpoints_completed: int
    checkpoints_failed: int
    """These two, and `restarts`, are counted over all drivers of the job, as its log says."""
    last_checkpoint_ms: int | None
    """How long the last one took."""
    restarts: int
    busy_ratio: float
    """Share of the time in which the busiest subtask worked."""
    backpressure_ratio: float
    """Share of the time in which the most held-up subtask waited for credit."""
    operators: tuple[OperatorStatus, ...] = ()
    failure: str | None = None
    parallelism: int = 0
    """Of the attempt that runs."""
    last_checkpoint_bytes: int | None = None
    """The size of the newest checkpoint's state, with what it shares with those before it."""
    last_checkpoint_sync_us: int | None = None
    """How long the newest checkpoint made processing stand still, in the slowest subtask."""
    strangers: int = 0
    """Frames and connections that were not of the job, and were dropped by its sockets."""
    checkpoint_failure: str | None = None
    """Why the newest checkpoint failed; None once another is complete."""
    earlier: JobCounts = field(default_factory=JobCounts)
    """What the job had counted before this driver; it is part of the counts above."""
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
    """What is wrong with the job, since when, and what to do; None before its driver has looked, and
    for batch jobs."""
    waits: tuple[JobWait, ...] = ()
    """What a recovery, the driver's publications, or a savepoint waits for; the longest wait first."""
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
    """Of all its files, those it shares with others too."""
    cost: Cost
    savepoint: str = ""
    """The folder of the savepoint that was taken with it."""


@dataclass(frozen=True)
class JobResult:
    """What is left when a job has ended."""

    status: JobStatus
    collected: Mapping[str, pa.Table] = field(default_factory=dict)
    """The rows of each collect sink that this run committed, by the sink's operator name. To ask for
    those of a job that had finished before raises ConfigurationError: they went to an earlier run."""

    def counter(self, operator: str, name: str) -> int:
        """A counter (`late`, `skipped`, ...) of the operator of that name; 0 where it never counted."""
        return sum(o.counters.get(name, 0) for o in self.status.operators if o.name == operator)

    def accumulator(self, operator: str, name: str) -> Accumulated:
        """What functions of the operator of that name have added up in `ctx.accumulator(name)` or
        `ctx.histogram(name)`; empty where nothing was added."""
        total = Accumulated()
        for status in self.status.operators:
            if status.name == operator and name in status.accumulated:
                total = total.plus(status.accumulated[name])
        return total
