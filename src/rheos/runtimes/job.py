"""Values that describe a job: its settings, its status and its result."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from typing import Any, TypeVar

import pyarrow as pa

from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.events import Outcome
from rheos.core.checkpoint.log_entries import JobCounts
from rheos.core.checkpoint.upgrade import Upgrade
from rheos.core.known_names import meant, unknown_key
from rheos.core.metrics.counters import ENGINE_COUNTERS
from rheos.core.metrics.health import HealthState, JobHealth
from rheos.core.metrics.history import HistoryConfig
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.control import LAPS, Cost
from rheos.core.protocol.ids import JobId, JobKey, OperatorId
from rheos.core.protocol.state_config import StateConfig
from rheos.core.redaction import host_alone, redacted, redacted_repr
from rheos.core.task.config import TaskConfig
from rheos.core.unknown_names import HintedObject
from rheos.runtimes.dropped_rows import dropped_rows

T = TypeVar("T")


class JobState(Enum):
    """The state of a job, or its outcome."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    """Stopped with a savepoint: everything up to it is committed, and nothing after it."""
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self not in (JobState.STARTING, JobState.RUNNING, JobState.RESTARTING)


@dataclass(frozen=True)
class CommandSettings:
    """Settings that a command passed instead of the program's own."""

    file: str | None = None
    """Absolute path of the file of settings; None if the command has no such file."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options by the names of `rh.Settings`, without credentials. They override the file."""


@dataclass(frozen=True)
class ScalingBounds:
    """Bounds of the parallelism of a job that follows its load."""

    least: int
    most: int | None = None
    """Maximum parallelism; None for the number of slots."""

    def __str__(self) -> str:
        return f"{self.least} to {self.most if self.most is not None else 'all available slots'}"


class AlertConfig:
    """The destination of a job's alerts. Only the URL's host is shown, because its path is often a
    secret."""

    def __init__(self, url: str, least: HealthState = HealthState.STUCK) -> None:
        """Send alerts to `url`. `least` is the lightest state of health that causes an alert."""
        self.url = url
        self.least = least

    def __repr__(self) -> str:
        return f"{host_alone(self.url)}, from {self.least.value} on"


@dataclass(frozen=True)
class ParentRun:
    """Run of another system that has started the job, such as a task of Airflow."""

    namespace: str
    job: str
    run: str
    """Id of the run, a UUID."""


@dataclass(frozen=True, repr=False)
class LineageConfig:
    """Destination of the events of a job's lineage. Only the URL's host is shown."""

    url: str
    """Address to which each event is posted; empty if `path` is set."""
    path: str | None = None
    """File to which each event is appended."""
    namespace: str = "default"
    """Namespace of the job in the catalog."""
    api_key: str | None = None
    parent: ParentRun | None = None

    def __repr__(self) -> str:
        return host_alone(self.url) if self.path is None else self.path


@dataclass(frozen=True)
class Predecessor:
    """The driver that ran the job before this one, according to its note."""

    driver: str
    """Process and host of the driver, for display."""
    released: bool
    """Whether it released the job; otherwise it was lost."""
    outcome: Outcome | None = None
    """Outcome of the job; None if this driver did not end it."""
    seen_ms: int | None = None
    """Wall-clock time of its last sign of life, ms since the epoch."""


@dataclass(frozen=True)
class JobConfig:
    """Everything that a runtime needs to know about a job, except its plan."""

    job: JobId
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    checkpoint_dir: str | None = None
    """Path or fsspec URL. None: a temporary folder that is deleted with the job."""
    master: str | None = None
    """Spark master. None: the existing session, else `local[parallelism + 1]`."""
    extra_slots: int = 0
    """Number of additional slots, in a session that Rheos makes, for Spark jobs next to this one."""
    spark: Any | None = None
    """An existing SparkSession."""
    compiled: bool = True
    """Whether functions are compiled while they run, if that is possible."""
    encrypt: bool | None = None
    """Whether to encrypt traffic between the job's processes. None: only if they run on several
    machines."""
    heartbeat_timeout_ms: int = 15_000
    """Time in ms without a message after which a worker and its driver abandon each other."""
    termination_grace_ms: int = 20_000
    """Time in ms that the job has for a checkpoint when its driver receives SIGTERM."""
    termination_savepoint: bool = False
    """Whether it takes a savepoint instead."""
    state: StateConfig = field(default_factory=StateConfig)
    from_savepoint: str | None = None
    """Folder of a savepoint from which the job starts, unless its log shows that it already did."""
    allow_dropped: bool = False
    """Whether to drop state of the savepoint whose operator the program no longer has."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """New uids of operators, by the uids that they had when their state was stored."""
    history: HistoryConfig | None = field(default_factory=HistoryConfig)
    """Settings of the metrics history; None keeps no history."""
    log_level: int | None = 20
    """Minimum level of the workers' log records that are kept, as in `logging`; None keeps none."""
    scaling: ScalingBounds | None = None
    """Bounds within which the parallelism follows the load; None: it stays as it is."""
    min_parallelism: int | None = None
    """Minimum parallelism with which the job continues after losing slots; None: it waits for them."""
    alerts: AlertConfig | None = None
    """Destination of changes of the job's health; None: none are sent."""
    lineage: LineageConfig | None = None
    """Destination of the events of its lineage; None: none are sent."""
    origins: Mapping[str, Mapping[str, Sequence[tuple[str, str]]]] = field(default_factory=dict)
    """Source columns, as table and column, of each column that SQL writes to a table, by its name."""
    until_now: bool = False
    """Whether the job stops, with a checkpoint, once it has read the input that exists at its start."""
    standby: bool = False
    """Whether this driver waits while another one runs the job, and takes over when that one is
    gone."""
    succeeds: str | None = None
    """Running job that is handed over to this driver, as the user names it; None if this driver starts
    its job itself."""
    succeeds_driver: str | None = None
    """Id of the driver that must still run that job; None for any driver."""
    keep_ms: int = 0
    """Time in ms for which the driver that hands the job over is kept ready, for a rollback."""
    command: CommandSettings = field(default_factory=CommandSettings)
    """Settings of the command that runs the program."""
    settings: tuple[tuple[str, str], ...] = ()
    """Settings by the names of `rh.Settings`, as a user writes them, for display."""
    driver: str = ""
    """Process and host of this driver, for display."""
    predecessor: Predecessor | None = None
    """The previous driver of the job; None for the first driver, or if it is unknown."""

    __repr__ = redacted_repr

    @property
    def upgrade(self) -> Upgrade:
        """Return the treatment of stored state that does not match the program."""
        renamed = {OperatorId(old): OperatorId(new) for old, new in self.renamed.items()}
        return Upgrade(self.allow_dropped, self.state.new_aggregates, renamed)

    @property
    def writer(self) -> JobId:
        """Return the identity of the job for sinks: its name and its directory. With it, a fork of the
        same name does not treat the other job's staged output as its own, and delete it."""
        if self.checkpoint_dir is None:
            return self.job
        return JobId(_job_key(self.job, self.checkpoint_dir))

    @property
    def key(self) -> JobKey:
        """Identity of the job over all its drivers."""
        return job_key(self.job, self.checkpoint_dir)


def job_key(job: JobId, directory: str | None) -> JobKey:
    """Return the identity of a job: the same for every driver that runs it, on any host.

    Two jobs of one name in two checkpoint directories have two keys. A job without a checkpoint
    directory gets a new id at each start, which is also its key.

    Args:
        job: the job's id.
        directory: the job's checkpoint directory, a URL or an absolute path. Credentials in a URL do
            not change the key.
    """
    if directory is None:
        return JobKey(job)
    shown = redacted(directory).replace("://***@", "://").removeprefix("file://")
    return JobKey(_job_key(job, shown))


def _job_key(job: JobId, directory: str) -> str:
    return f"{job}-{zlib.crc32(directory.rstrip('/').encode()):08x}"


@dataclass(frozen=True)
class OperatorStatus:
    """Totals over all subtasks, since the job began."""

    id: str
    name: str
    records_in: int = 0
    records_out: int = 0
    watermark_ms: int | None = None
    """Watermark in ms; None before the first one."""
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
    """Name of the state: `steady`, `settling`, `no_slots`, ..."""
    meaning: str
    """Explanation of that state."""
    last_change: str | None = None
    """The last change of the parallelism and its reason; None before the first."""


@dataclass(frozen=True)
class LatencyStatus:
    """Latency of a job with an objective: the values that its slots have chosen, and the measured
    latency."""

    objective_ms: float
    found_ms: float
    """Time of a row along its path in ms, in the slowest slot."""
    buffer_timeout_ms: float
    """Buffer timeout in ms, the smallest of all slots."""
    batch_rows: int
    """Maximum rows per batch, the smallest of all slots."""


class WaitKind(Enum):
    """The kind of a wait."""

    CALL = "call"
    """A call of the driver to a server."""
    RECOVERY = "recovery"
    PUBLISHING = "publishing"
    """A sink whose output the driver publishes."""
    REQUEST = "request"
    """A savepoint, a stop or a rescale."""
    WORKERS = "workers"
    """The workers of an attempt, which have not all connected."""


@dataclass(frozen=True)
class JobWait:
    """Something that a job waits for, such as a server that does not answer."""

    what: str
    """A sentence that names the sink, the server and the subtasks as far as they are known."""
    since_ms: int
    """Start of the wait: wall-clock time in ms since the epoch."""
    kind: WaitKind = WaitKind.REQUEST


@dataclass(frozen=True, repr=False)
class JobStatus(HintedObject):
    """A job at one moment, for the status line, the command and the tests."""

    _sections = ("status",)

    job: JobId
    name: str
    state: JobState
    attempt: int
    running_s: float
    records_per_s: float
    """Rows per second that the sources emitted, over about the last second."""
    watermark_ms: int | None
    """Lowest watermark of all operators."""
    checkpoints_completed: int
    checkpoints_failed: int
    """Number of failed checkpoints. Like the two other counts, it covers all drivers of the job."""
    last_checkpoint_ms: int | None
    """Duration of the last checkpoint in ms."""
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
    """Size of the newest checkpoint's state, including what it shares with earlier ones."""
    last_checkpoint_sync_us: int | None = None
    """Time for which the newest checkpoint paused processing, in the slowest subtask."""
    strangers: int = 0
    """Number of frames and connections of other programs that the job's sockets have dropped."""
    checkpoint_failure: str | None = None
    """Cause if the newest checkpoint failed; None once another is complete."""
    earlier: JobCounts = field(default_factory=JobCounts)
    """Counts of the job from before this driver. They are part of the counts above."""
    finished_before: bool = False
    """Whether the job had finished before this run, so that nothing was run."""
    source_lag_rows: int | None = None
    """Records that wait in the sources; None if no source knows it."""
    source_lag_ms: int | None = None
    """Time by which the newest event time read lags behind the wall clock, of the source with the
    largest lag; None without event time."""
    since_published_ms: int | None = None
    """Time since the last publication of the sink that waits longest; None if no sink publishes with
    checkpoints."""
    latency: LatencyStatus | None = None
    """Latency and its objective; None without an objective, and before the first measurement."""
    scaling: ScalingStatus | None = None
    """Scaling of the job; None if its parallelism does not follow its load."""
    health: JobHealth | None = None
    """Health of the job, with its findings; None before its driver has checked it, and for batch
    jobs."""
    waits: tuple[JobWait, ...] = ()
    """Waits of a recovery, of the driver's publications, or of a savepoint; the longest first."""
    events_dropped: int = 0
    """Number of events that the bound of the event log has dropped."""
    stop_reason: str | None = None
    """Reason why the job stops by itself before the end of its input, such as an altered table. Started
    again, it continues."""
    stage: str | None = None
    """Kind of the Spark stage whose tasks are the job's slots, and why it was chosen. None for batch
    and simulated jobs."""

    @property
    def iterating(self) -> Mapping[str, int]:
        """The loops that continue although their input has ended, with their iterations since then."""
        if self.state is not JobState.RUNNING:
            return {}
        laps = {of.name: int(of.gauges.get(LAPS, 0)) for of in self.operators}
        return {name: count for name, count in laps.items() if count}

    def __repr__(self) -> str:
        """Return one line for a notebook."""
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
class JobResult(HintedObject):
    """The result of a job that has ended."""

    _sections = ("result",)

    status: JobStatus
    collected: Mapping[str, pa.Table] = field(default_factory=dict)
    """The rows of each collect sink that this run committed, by the sink's operator name. If the job
    had finished before, access raises ConfigurationError: an earlier run received the rows."""

    @property
    def dropped(self) -> str | None:
        """Report of late rows, rejected records and dropped timers by operator, with what to do; None
        without any."""
        return dropped_rows(self.status.operators)

    def counter(self, operator: str, name: str) -> int:
        """Return the total of a counter, such as `late` or `skipped`.

        Args:
            operator: Name of the operator.
            name: Name of the counter.

        Returns:
            The total; 0 if the operator never counted.

        Raises:
            UnknownKeyError: The job has no such operator, or the operator no such counter.
        """
        return sum(self._reported("counter", operator, name, lambda of: of.counters))

    def accumulator(self, operator: str, name: str) -> Accumulated:
        """Return what functions have added to `ctx.accumulator(name)` or `ctx.histogram(name)`.

        Args:
            operator: Name of the operator.
            name: Name of the accumulator or histogram.

        Returns:
            The total of all subtasks; empty if nothing was added.

        Raises:
            UnknownKeyError: The job has no such operator, or its function no such accumulator.
        """
        found = self._reported("accumulator", operator, name, lambda of: of.accumulated)
        return reduce(Accumulated.plus, found, Accumulated())

    def _reported(
        self, kind: str, operator: str, name: str, read: Callable[[OperatorStatus], Mapping[str, T]]
    ) -> list[T]:
        """Return the metric of each operator of that name; none if no operator has processed rows,
        because its function may not have been opened."""
        found = [of for of in self.status.operators if of.name == operator]
        if not found:
            raise unknown_key(
                "the job has no operator", operator, [of.name for of in self.status.operators]
            )
        known = {each for of in found for each in read(of)}
        built_in = ENGINE_COUNTERS if kind == "counter" else frozenset()
        if name not in known | built_in and any(of.records_in or of.records_out for of in found):
            more = f"; {meant(name, built_in - known)}a function declares its own in open()"
            raise unknown_key(f"operator {operator!r} has no {kind}", name, sorted(known), more)
        return [read(of)[name] for of in found if name in read(of)]
