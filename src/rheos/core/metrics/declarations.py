"""Every metric of a job, declared once: its name, unit, kind, scope, and how readings are merged.

A name ends with its unit, if it has one. A new metric is a declaration here and the code that reads its
value. Exports, history, the command and the page of metrics follow from the declaration.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    COUNTER = "counter"
    """Value that only grows within an attempt."""
    GAUGE = "gauge"
    """Current value of something."""
    HISTOGRAM = "histogram"
    """Distribution of numbers; it only grows within an attempt."""


class Unit(Enum):
    ROWS = "rows"
    BYTES = "bytes"
    BATCHES = "batches"
    MS = "ms"
    SECONDS = "s"
    EPOCH_MS = "ms since the epoch"
    COUNT = "count"
    AS_GIVEN = "as the program defines it"


class Scope(Enum):
    """Subject of a reading, which determines the labels that identify it."""

    JOB = ()
    CAUSE = ("cause",)
    WHOLE_OPERATOR = ("operator",)
    SUBTASK = ("subtask",)
    CHAIN = ("chain", "subtask")
    OPERATOR = ("operator", "subtask")
    EDGE = ("edge", "subtask")
    SPLIT = ("operator", "split", "subtask")
    PATH = ("source", "sink", "subtask")
    NAMED = ("operator", "name", "subtask")
    CALL = ("call", "subtask")
    KEY = ("operator", "key", "subtask")
    SERVER = ("server", "subtask")
    DRIVER_CALL = ("call",)
    STORE = ("store", "request", "reason", "subtask")
    DRIVER_STORE = ("store", "request", "reason")
    DRIVER_TABLE = ("table",)
    FINDING = ("finding",)

    @property
    def labels(self) -> tuple[str, ...]:
        labels: tuple[str, ...] = self.value
        return labels

    @property
    def of_subtask(self) -> bool:
        """Return whether each subtask has its own readings."""
        return self.labels[-1:] == ("subtask",)


class Merge(Enum):
    """Ways to merge the readings of several subtasks, or of a span of time, into one."""

    SUM = "sum"
    MEAN = "mean"
    MOST = "most"
    LEAST = "least"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    unit: Unit
    kind: Kind
    scope: Scope
    meaning: str
    flink: str
    """Name of the same or the closest metric in Flink; empty if Flink has no such metric."""
    across: Merge
    """Rule that merges readings of several subtasks."""
    over: Merge
    """Rule that merges gauges over time. For counters and histograms, the growth is merged instead."""


METRICS: dict[str, Metric] = {}
"""All metrics by name, in the order of their page."""


def _counter(name: str, unit: Unit, scope: Scope, meaning: str, flink: str = "") -> Metric:
    return _declared(Metric(name, unit, Kind.COUNTER, scope, meaning, flink, Merge.SUM, Merge.MEAN))


def _gauge(
    name: str,
    unit: Unit,
    scope: Scope,
    meaning: str,
    flink: str = "",
    *,
    across: Merge = Merge.SUM,
    over: Merge = Merge.MEAN,
) -> Metric:
    return _declared(Metric(name, unit, Kind.GAUGE, scope, meaning, flink, across, over))


def _histogram(name: str, unit: Unit, scope: Scope, meaning: str, flink: str = "") -> Metric:
    return _declared(Metric(name, unit, Kind.HISTOGRAM, scope, meaning, flink, Merge.SUM, Merge.MEAN))


def _declared(metric: Metric) -> Metric:
    assert metric.name not in METRICS, f"the metric {metric.name} is declared twice"
    METRICS[metric.name] = metric
    return metric


# --- the job ------------------------------------------------------------------------------------

UPTIME = _gauge(
    "uptime_s",
    Unit.SECONDS,
    Scope.JOB,
    "time for which this driver has run the job",
    "uptime",
    over=Merge.LAST,
)
ATTEMPT = _gauge(
    "attempt", Unit.COUNT, Scope.JOB, "number of the running attempt, from 1", "", over=Merge.LAST
)
PARALLELISM = _gauge("parallelism", Unit.COUNT, Scope.JOB, "subtasks of the attempt", over=Merge.LAST)
SOURCE_ROWS = _gauge("source_rows_per_s", Unit.ROWS, Scope.JOB, "rows per second that all sources emit")
RESTARTS = _counter(
    "restarts", Unit.COUNT, Scope.CAUSE, "restarts, by the error that caused them", "numRestarts"
)
CHECKPOINTS = _counter(
    "checkpoints_completed",
    Unit.COUNT,
    Scope.JOB,
    "checkpoints in the log, over all drivers of the job",
    "numberOfCompletedCheckpoints",
)
CHECKPOINTS_FAILED = _counter(
    "checkpoints_failed",
    Unit.COUNT,
    Scope.JOB,
    "failed checkpoints, over all drivers of the job",
    "numberOfFailedCheckpoints",
)
SINCE_CHECKPOINT = _gauge(
    "since_checkpoint_ms",
    Unit.MS,
    Scope.JOB,
    "time since a checkpoint was completed, or since the attempt began",
    over=Merge.MOST,
)
EVENTS_DROPPED = _counter(
    "events_dropped",
    Unit.COUNT,
    Scope.JOB,
    "events that the job's event log has dropped to make room for newer ones",
)
CHECKPOINT_DURATION = _histogram(
    "checkpoint_duration_ms",
    Unit.MS,
    Scope.JOB,
    "time from the trigger of a checkpoint to its entry in the log",
    "lastCheckpointDuration",
)
CHECKPOINT_BYTES = _gauge(
    "checkpoint_bytes",
    Unit.BYTES,
    Scope.JOB,
    "size of the state in the newest checkpoint, including files shared with earlier ones",
    "lastCheckpointFullSize",
    over=Merge.LAST,
)
LOG_ENTRIES = _gauge(
    "log_entries",
    Unit.COUNT,
    Scope.JOB,
    "files of the job's log; compaction bounds them",
    over=Merge.LAST,
)
HEALTH = _gauge(
    "health",
    Unit.COUNT,
    Scope.JOB,
    "health of the job: 0 healthy, 1 degraded, 2 stuck, 3 failing",
    over=Merge.MOST,
)
FINDINGS = _gauge(
    "findings",
    Unit.COUNT,
    Scope.FINDING,
    "number of health findings of this kind; notes are not counted",
    over=Merge.MOST,
)
DRIVER_WAIT = _gauge(
    "driver_wait_ms",
    Unit.MS,
    Scope.DRIVER_CALL,
    "time since the start of the driver's longest pending call to a server; from 2 s on",
    over=Merge.MOST,
)
DRIVER_STORE_RETRIES = _counter(
    "driver_store_retries",
    Unit.COUNT,
    Scope.DRIVER_STORE,
    "requests to an object store that the driver has repeated, by the reason",
)
COMPACTED_FILES = _counter(
    "compacted_files",
    Unit.COUNT,
    Scope.DRIVER_TABLE,
    "small data files of a table that the driver has merged",
)
COMPACTED_BYTES = _counter(
    "compacted_bytes",
    Unit.BYTES,
    Scope.DRIVER_TABLE,
    "size of the small data files that the driver has merged",
)
COMPACTIONS_GIVEN_UP = _counter(
    "compactions_given_up",
    Unit.COUNT,
    Scope.DRIVER_TABLE,
    "compactions that the driver has given up, after a conflict with another writer or an error",
)
EXPIRED_FILES = _counter(
    "expired_files",
    Unit.COUNT,
    Scope.DRIVER_TABLE,
    "files of old versions of a table that the driver has deleted",
)
STRANGERS = _counter(
    "strangers",
    Unit.COUNT,
    Scope.JOB,
    "frames and connections of unauthenticated peers, which were dropped",
)
REFUSED = _counter(
    "reports_refused",
    Unit.COUNT,
    Scope.JOB,
    "invalid reports of workers, which the driver did not accept",
)

# --- a subtask: one slot, one process -------------------------------------------------------------

SLOT_BUSY = _counter(
    "slot_busy_ms",
    Unit.MS,
    Scope.SUBTASK,
    "time for which the slot's loop had work",
    "busyTimeMsPerSecond",
)
SLOT_BLOCKED = _counter(
    "slot_backpressured_ms",
    Unit.MS,
    Scope.SUBTASK,
    "time for which the slot was blocked, because its work had no credit",
    "backPressuredTimeMsPerSecond",
)
CORE_WAIT = _counter(
    "slot_core_wait_ms",
    Unit.MS,
    Scope.SUBTASK,
    "part of `slot_busy_ms` in which the slot's thread waited for a core, as other threads ran",
)
FIXED_COST = _counter(
    "slot_fixed_cost_ms",
    Unit.MS,
    Scope.SUBTASK,
    "part of `slot_busy_ms` for the fixed cost of small runs, which falls if a run takes more rows",
)
CPU = _counter(
    "cpu_ms", Unit.MS, Scope.SUBTASK, "processor time of the worker, all threads", "Status.JVM.CPU.Time"
)
MEMORY = _gauge(
    "memory_bytes", Unit.BYTES, Scope.SUBTASK, "resident memory of the worker", "Status.JVM.Memory"
)
MEMORY_USED = _gauge(
    "memory_used_bytes",
    Unit.BYTES,
    Scope.SUBTASK,
    "memory in use, without reclaimable memory, in the worker's container or machine",
    across=Merge.MOST,
    over=Merge.MOST,
)
MEMORY_LIMIT = _gauge(
    "memory_limit_bytes",
    Unit.BYTES,
    Scope.SUBTASK,
    "memory that the worker's container may use, or that its machine has",
    across=Merge.LEAST,
    over=Merge.LAST,
)
REPORT_AGE = _gauge(
    "report_age_ms",
    Unit.MS,
    Scope.SUBTASK,
    "time since the subtask's newest report; it reports about once a second",
    across=Merge.MOST,
    over=Merge.MOST,
)
SERVER_WAIT = _gauge(
    "server_wait_ms",
    Unit.MS,
    Scope.CALL,
    "time since the start of the process's longest pending call to a server; from 2 s on",
    across=Merge.MOST,
    over=Merge.MOST,
)
SERVER_AWAY = _gauge(
    "server_away_ms",
    Unit.MS,
    Scope.SERVER,
    "time for which a client of the worker has not reached its server; 0 if it does",
    across=Merge.MOST,
    over=Merge.MOST,
)
STORE_RETRIES = _counter(
    "store_retries",
    Unit.COUNT,
    Scope.STORE,
    "requests to an object store that the worker has repeated, by the reason",
)
GC_RUNS = _counter(
    "gc_runs",
    Unit.COUNT,
    Scope.SUBTASK,
    "runs of Python's garbage collector",
    "Status.JVM.GarbageCollector.<GC>.Count",
)
GC_TIME = _counter(
    "gc_ms",
    Unit.MS,
    Scope.SUBTASK,
    "time in Python's garbage collector",
    "Status.JVM.GarbageCollector.<GC>.Time",
)
LATENCY_OBJECTIVE = _gauge(
    "latency_objective_ms",
    Unit.MS,
    Scope.SUBTASK,
    "the latency objective of the job",
    across=Merge.MOST,
    over=Merge.LAST,
)
LATENCY_FOUND = _gauge(
    "latency_found_ms",
    Unit.MS,
    Scope.SUBTASK,
    "with a latency objective: latency of a row along its path, as the slot measures it",
    across=Merge.MOST,
    over=Merge.MOST,
)
CHOSEN_TIMEOUT = _gauge(
    "chosen_buffer_timeout_ms",
    Unit.MS,
    Scope.SUBTASK,
    "with a latency objective: the buffer timeout that the slot has chosen",
    across=Merge.LEAST,
    over=Merge.LAST,
)
CHOSEN_ROWS = _gauge(
    "chosen_batch_rows",
    Unit.ROWS,
    Scope.SUBTASK,
    "with a latency objective: maximum rows of a batch that the slot has chosen",
    across=Merge.LEAST,
    over=Merge.LAST,
)
SYNC = _gauge(
    "checkpoint_sync_ms",
    Unit.MS,
    Scope.SUBTASK,
    "time for which the newest checkpoint stopped processing in the subtask",
    "REST: checkpoint_duration.sync",
    across=Merge.MOST,
    over=Merge.MOST,
)
ALIGN = _gauge(
    "checkpoint_align_ms",
    Unit.MS,
    Scope.SUBTASK,
    "time from the first to the last barrier of the newest checkpoint, in the chain that "
    "waited longest",
    "checkpointAlignmentTime",
    across=Merge.MOST,
    over=Merge.MOST,
)
ASYNC = _gauge(
    "checkpoint_async_ms",
    Unit.MS,
    Scope.SUBTASK,
    "time from the end of the newest checkpoint's synchronous part to the last written byte",
    "REST: checkpoint_duration.async",
    across=Merge.MOST,
    over=Merge.MOST,
)
WRITTEN = _gauge(
    "checkpoint_written_bytes",
    Unit.BYTES,
    Scope.SUBTASK,
    "bytes that the newest checkpoint has written",
    "lastCheckpointSize",
)
IN_FLIGHT = _gauge(
    "checkpoint_in_flight_bytes",
    Unit.BYTES,
    Scope.SUBTASK,
    "size of the in-flight rows that the newest checkpoint has stored",
    "lastCheckpointPersistedData",
)

# --- chains ---------------------------------------------------------------------------------------

BUSY = _counter(
    "busy_ms", Unit.MS, Scope.CHAIN, "time for which the chain worked", "busyTimeMsPerSecond"
)
BLOCKED = _counter(
    "backpressured_ms",
    Unit.MS,
    Scope.CHAIN,
    "time for which the chain had work, but no credit to emit its output",
    "backPressuredTimeMsPerSecond",
)
IDLE = _counter(
    "idle_ms", Unit.MS, Scope.CHAIN, "time for which the chain had no work", "idleTimeMsPerSecond"
)

# --- operators ------------------------------------------------------------------------------------

ROWS_IN = _counter(
    "rows_in", Unit.ROWS, Scope.OPERATOR, "rows that the operator received", "numRecordsIn"
)
ROWS_OUT = _counter(
    "rows_out", Unit.ROWS, Scope.OPERATOR, "rows that the operator emitted", "numRecordsOut"
)
WATERMARK = _gauge(
    "watermark_ms",
    Unit.EPOCH_MS,
    Scope.OPERATOR,
    "watermark of the operator's output",
    "currentOutputWatermark",
    across=Merge.LEAST,
    over=Merge.LAST,
)
WATERMARK_LAG = _gauge(
    "watermark_lag_ms",
    Unit.MS,
    Scope.OPERATOR,
    "wall clock minus the watermark",
    "watermarkLag",
    across=Merge.MOST,
    over=Merge.MOST,
)
STATE_BYTES = _gauge(
    "state_bytes",
    Unit.BYTES,
    Scope.OPERATOR,
    "size of the operator's state in the newest checkpoint, including files shared with earlier ones",
    "REST: state_size",
    over=Merge.LAST,
)
STATE_ROWS = _gauge(
    "state_rows",
    Unit.ROWS,
    Scope.OPERATOR,
    "rows of the operator's keyed state in the newest checkpoint, such as one for each key and window; "
    "0 for state that is stored as files",
    over=Merge.LAST,
)
KEYS = _gauge(
    "keys",
    Unit.COUNT,
    Scope.OPERATOR,
    "keys with state, if the operator knows their number without counting",
    "rocksdb.estimate-num-keys",
    over=Merge.LAST,
)
LARGEST_KEY = _gauge(
    "largest_key",
    Unit.COUNT,
    Scope.KEY,
    "largest number of rows, elements, values or partial matches of one key in this attempt, "
    "with the key; from 100 on, with an error of up to an eighth",
    across=Merge.MOST,
    over=Merge.MOST,
)
COMMITS = _counter(
    "commits", Unit.COUNT, Scope.OPERATOR, "commits of the sink, in its task", "successfulCommits"
)
COMMIT_DURATION = _histogram(
    "commit_duration_ms",
    Unit.MS,
    Scope.OPERATOR,
    "duration of a commit of the sink",
)
EPOCHS_WAITING = _gauge(
    "epochs_waiting",
    Unit.COUNT,
    Scope.OPERATOR,
    "complete checkpoints whose output the sink has not published yet",
    across=Merge.MOST,
    over=Merge.LAST,
)
SINCE_PUBLISHED = _gauge(
    "since_published_ms",
    Unit.MS,
    Scope.OPERATOR,
    "time since the sink last published, or since it first had something to publish",
    across=Merge.MOST,
    over=Merge.LAST,
)
UNPUBLISHED = _gauge(
    "unpublished_ms",
    Unit.MS,
    Scope.OPERATOR,
    "time for which the output of the sink's oldest complete checkpoint has waited to be published",
    across=Merge.MOST,
    over=Merge.MOST,
)
OPEN_SPLITS = _gauge(
    "open_splits",
    Unit.COUNT,
    Scope.OPERATOR,
    "splits that the source reads",
    "assignedSplits",
    over=Merge.LAST,
)
WAITING_SPLITS = _gauge(
    "waiting_splits",
    Unit.COUNT,
    Scope.OPERATOR,
    "splits that wait to be read",
    "unassignedSplits",
    over=Merge.LAST,
)
SINCE_RECORD = _gauge(
    "since_record_ms",
    Unit.MS,
    Scope.OPERATOR,
    "time since the source last received a row in this attempt; of all subtasks, the shortest",
    across=Merge.LEAST,
    over=Merge.LAST,
)
LONGEST_PAUSE = _gauge(
    "longest_pause_ms",
    Unit.MS,
    Scope.OPERATOR,
    "longest time between two rows of the source in this attempt, the current pause excluded",
    across=Merge.LEAST,
    over=Merge.LAST,
)
SOURCE_LAG_ROWS = _gauge(
    "source_lag_rows",
    Unit.ROWS,
    Scope.OPERATOR,
    "unread records, if the source knows their number",
    "pendingRecords",
    over=Merge.LAST,
)
SOURCE_LAG = _gauge(
    "source_lag_ms",
    Unit.MS,
    Scope.OPERATOR,
    "wall clock minus the latest event time read, of the split that is furthest behind",
    "currentFetchEventTimeLag",
    across=Merge.MOST,
    over=Merge.MOST,
)
SKEW = _gauge(
    "event_time_skew_ms",
    Unit.MS,
    Scope.WHOLE_OPERATOR,
    "event time between the fastest and the slowest split, among open splits that are not idle",
    "watermarkAlignmentDrift",
    over=Merge.MOST,
)
SPLIT_WATERMARK = _gauge(
    "split_watermark_ms",
    Unit.EPOCH_MS,
    Scope.SPLIT,
    "event time that an open split has reached, if it is not idle",
    "<split>.watermark.currentWatermark",
    across=Merge.LEAST,
    over=Merge.LAST,
)
SPLIT_STANDS = _gauge(
    "split_stands_ms",
    Unit.MS,
    Scope.SPLIT,
    "time for which the event time of an open split has not advanced",
    across=Merge.MOST,
    over=Merge.MOST,
)
SPLIT_IDLE = _gauge(
    "split_idle",
    Unit.COUNT,
    Scope.SPLIT,
    "1 for an open split that is idle, and does not hold back the watermark; otherwise 0",
    over=Merge.LAST,
)
SPLIT_LAG_ROWS = _gauge(
    "split_lag_rows",
    Unit.ROWS,
    Scope.SPLIT,
    "unread records of an open split, if the source knows their number",
    "KafkaSourceReader: records-lag",
    over=Merge.LAST,
)

# --- edges ----------------------------------------------------------------------------------------

SENT_ROWS = _counter("sent_rows", Unit.ROWS, Scope.EDGE, "rows sent", "numRecordsOut")
SENT_BYTES = _counter(
    "sent_bytes", Unit.BYTES, Scope.EDGE, "size of these rows in memory", "numBytesOut"
)
SENT_BATCHES = _counter(
    "sent_batches", Unit.BATCHES, Scope.EDGE, "batches that contained these rows", "numBuffersOut"
)
RECEIVED_ROWS = _counter("received_rows", Unit.ROWS, Scope.EDGE, "rows received", "numRecordsIn")
RECEIVED_BYTES = _counter(
    "received_bytes", Unit.BYTES, Scope.EDGE, "size of these rows in memory", "numBytesIn"
)
BUFFERED_ROWS = _gauge(
    "buffered_rows", Unit.ROWS, Scope.EDGE, "rows that wait in output buffers", "outputQueueLength"
)
CREDITS_USED = _gauge(
    "credits_used",
    Unit.BATCHES,
    Scope.EDGE,
    "batches that were sent but not yet processed, over all channels of the sender",
    "outPoolUsage",
)
QUEUED_BATCHES = _gauge(
    "queued_batches",
    Unit.BATCHES,
    Scope.EDGE,
    "batches and marks that wait in the receiver's queue",
    "inputQueueLength",
)

# --- from source to sink ----------------------------------------------------------------------------

LATENCY = _histogram(
    "latency_ms",
    Unit.MS,
    Scope.PATH,
    "time that a latency marker took from a source to a sink",
    "latency",
)

# --- counted by operators and by the program ------------------------------------------------------

COUNTER = _counter(
    "counter",
    Unit.AS_GIVEN,
    Scope.NAMED,
    "a counter of the operator (`late`, `skipped`) or of the program: `ctx.counter(name)`",
    "user metrics: Counter",
)
GAUGE = _gauge(
    "gauge",
    Unit.AS_GIVEN,
    Scope.NAMED,
    "a gauge of the program: `ctx.gauge(name, ...)`",
    "user metrics: Gauge",
    across=Merge.MOST,
)
ADDED = _histogram(
    "accumulated",
    Unit.AS_GIVEN,
    Scope.NAMED,
    "a distribution of the program: `ctx.accumulator(name)`, `ctx.histogram(name)`",
    "user metrics: Histogram",
)
