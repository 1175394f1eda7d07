"""All metrics of a job, from the reports of its subtasks and from the driver's own knowledge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.metrics import declarations as f
from rheos.core.metrics.model import MetricsReport, event_time_skew, subtask_readings
from rheos.core.operators.runtime_context import Distribution
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.control import Acknowledge, Progress, Totals
from rheos.core.protocol.ids import Attempt, JobId
from rheos.core.protocol.readings import Reading
from rheos.core.protocol.snapshots import StateKind
from rheos.runtimes.driver.subtask_reports import SubtaskReports
from rheos.runtimes.job import JobStatus, OperatorStatus

# --- totals over all attempts -------------------------------------------------------------------------


T = TypeVar("T")


class SummedCounts:
    """Counts by name that only rise, of all subtasks of an attempt, and their sums."""

    def __init__(self, base: Mapping[str, int]) -> None:
        """Start with these sums, which belong to no subtask."""
        self.sums = dict(base)
        self._of: dict[int, dict[str, int]] = {}
        """Counts by subtask."""

    def raise_to(self, subtask: int, counts: Mapping[str, int]) -> None:
        """Raise a subtask's counts. A count that is lower than before changes nothing."""
        of = self._of.setdefault(subtask, {})
        for name, count in counts.items():
            more = max(count - of.get(name, 0), 0)
            of[name] = of.get(name, 0) + more
            self.sums[name] = self.sums.get(name, 0) + more


class JobTotals:
    """Totals for the running attempt and for the job, kept by the master.

    A report costs as much as its own counts, however many subtasks there are: sums are kept, and each
    report adds its difference to the previous one of the subtask.
    """

    def __init__(self, plan: PhysicalPlan, reports: SubtaskReports) -> None:
        self._names = {operator.id: operator.name for operator in plan.operators()}
        self._reports = reports
        self.begin(Totals())

    def begin(self, base: Totals) -> None:
        """Start an attempt from a checkpoint with these totals."""
        self._records_in = SummedCounts(base.records_in)
        self._records_out = SummedCounts(base.records_out)
        self._counters = SummedCounts(base.counters)
        self._base = base.accumulated
        self._accumulated: dict[int, dict[str, Accumulated]] = {}
        """Accumulators by subtask, in this attempt."""

    def progressed(self, progress: Progress) -> None:
        """Count a subtask's report."""
        self.count(
            progress.subtask,
            Totals(progress.records_in, progress.records_out, progress.counters, progress.accumulated),
        )

    def count(self, subtask: int, totals: Totals) -> None:
        """Count the totals of a subtask. The totals in an acknowledgement are counted up to its
        barrier, and may arrive after a later report."""
        self._records_in.raise_to(subtask, totals.records_in)
        self._records_out.raise_to(subtask, totals.records_out)
        self._counters.raise_to(subtask, totals.counters)
        if totals.accumulated:
            before = self._accumulated.get(subtask, {})
            self._accumulated[subtask] = _longer(before, totals.accumulated)

    def _all_accumulated(self) -> dict[str, Accumulated]:
        merged = dict(self._base)
        for of in self._accumulated.values():
            for name, value in of.items():
                merged[name] = merged[name].plus(value) if name in merged else value
        return merged

    def operators(self) -> tuple[OperatorStatus, ...]:
        """Return the status of each operator, in the order of the plan."""
        counters = _by_operator(self._counters.sums)
        accumulated = _by_operator(self._all_accumulated())
        gauges = _by_operator(self._reports.gauges())
        return tuple(
            OperatorStatus(
                id=id,
                name=name,
                records_in=self._records_in.sums.get(id, 0),
                records_out=self._records_out.sums.get(id, 0),
                watermark_ms=self._reports.watermark_ms(id),
                counters=counters.get(id, {}),
                accumulated=accumulated.get(id, {}),
                gauges=gauges.get(id, {}),
            )
            for id, name in self._names.items()
        )


def _longer(left: dict[str, Accumulated], right: dict[str, Accumulated]) -> dict[str, Accumulated]:
    """Return, for each name, the accumulator that has more values."""
    nothing = Accumulated()
    return {
        name: max(left.get(name, nothing), right.get(name, nothing), key=lambda each: each.n)
        for name in {**left, **right}
    }


def _by_operator(values: Mapping[str, T]) -> dict[str, dict[str, T]]:
    of: dict[str, dict[str, T]] = {}
    for path, value in values.items():
        operator, _, name = path.rpartition("/")
        of.setdefault(operator, {})[name] = value
    return of


EARLIER_DRIVERS = "under earlier drivers"
"""The cause shown for restarts under earlier drivers of the job."""
_MOST_STATE = 3


class UnpublishedOutput(NamedTuple):
    """Complete output of a sink that waits to be published."""

    operator: str
    subtask: int
    since_ms: int
    """Wall-clock time in ms since the epoch."""


class MetricsKeeper:
    """The metrics of a job, from the reports of its subtasks and the driver's own knowledge. The master
    calls it, from one thread; any thread may call `now`."""

    def __init__(self, plan: PhysicalPlan, job: JobId, reports: SubtaskReports) -> None:
        self._job = job
        self._name = plan.name
        self._operators = {str(operator.id): operator.name for operator in plan.operators()}
        self._chains = {str(c.id): [str(operator.id) for operator in c.operators] for c in plan.chains}
        self._edges = {str(edge.id): (str(edge.source), str(edge.target)) for edge in plan.edges}
        self._attempt = Attempt(0)
        self._reports = reports
        self._shares: dict[int, Acknowledge] = {}
        """The acknowledgement of its newest checkpoint, by subtask."""
        self._state_before: Counter[str] = Counter()
        """The size of each operator's state in the checkpoints of earlier attempts."""
        self._causes: Counter[str] = Counter()
        self._durations_ms = Distribution()
        self._last_checkpoint = 0
        self._completed_us: int | None = None
        """Monotonic time at which the newest checkpoint completed, or the attempt began."""
        self.log_entries = 0
        """Number of files of the job's log."""

    # --- updates by the master --------------------------------------------------------------------

    def begin(self, attempt: Attempt, now_us: int) -> None:
        """Start an attempt. The previous attempt's checkpoints no longer count."""
        self._completed_us = now_us
        self._state_before = self._state_bytes()
        self._attempt = attempt
        self._shares = {}

    def restarted(self, restarts: int, cause: Exception | None) -> None:
        """Record the number of restarts so far, and the cause of the last one."""
        if restarts > self._causes.total():
            name = "unknown" if cause is None else type(cause).__name__
            self._causes[name] += restarts - self._causes.total()

    def acknowledged(self, share: Acknowledge) -> None:
        """Record that a subtask has written its part of a checkpoint."""
        if 0 <= share.subtask < self._reports.parallelism:
            self._shares[share.subtask] = share

    def completed(self, entry: CheckpointCompleted, now_us: int) -> None:
        """Record the newest checkpoint in the log. It may be an old one."""
        if entry.checkpoint > self._last_checkpoint:
            self._last_checkpoint = entry.checkpoint
            self._completed_us = now_us
            if entry.attempt == self._attempt:
                self._durations_ms.add(entry.duration_ms)

    # --- views ------------------------------------------------------------------------------------

    def now(self, status: JobStatus, now_ms: int, now_us: int) -> MetricsReport:
        """Return all metrics of the job, at a wall-clock time and a monotonic time."""
        reports, shares = self._reports.all(), list(self._shares.values())
        ages = [
            # The wall clock may be set while the job runs.
            Reading(f.REPORT_AGE.name, (str(of.newest.subtask),), max(now_us - of.at_us, 0) // 1000)
            for of in reports
        ]
        of_subtasks = [
            reading for of in reports for reading in subtask_readings(of.newest, of.before, of.at_ms)
        ]
        of_shares = [reading for share in shares for reading in self._share_readings(share)]
        skews = event_time_skew(of_subtasks)
        since_us = now_us if self._completed_us is None else self._completed_us
        of_job = [
            *self._job_readings(status),
            Reading(f.SINCE_CHECKPOINT.name, (), max(now_us - since_us, 0) // 1000),
        ]
        return MetricsReport(
            job=self._job,
            name=self._name,
            at_ms=now_ms,
            attempt=status.attempt,
            operators=self._operators,
            chains=self._chains,
            edges=self._edges,
            readings=[*of_job, *of_subtasks, *ages, *of_shares, *skews],
        )

    def unpublished(self) -> list[UnpublishedOutput]:
        """Return the sinks that have reported complete output that is not published yet."""
        return [
            UnpublishedOutput(reading.at[0], of.newest.subtask, of.at_ms - int(value))
            for of, reading, value in self._reports.numbers(f.UNPUBLISHED)
            if value > 0
        ]

    def memory(self) -> str:
        """Return the memory usage and state sizes, as lines for an error about lack of memory. If the
        attempt has no checkpoint yet, the sizes are those of the previous attempt."""
        numbers = self._reports.numbers(f.MEMORY)
        used = dict(sorted((of.newest.subtask, value) for of, _, value in numbers))
        largest = max(used, key=lambda subtask: used[subtask], default=None)
        state = [
            f"{self._operators[operator]!r} {size / 1e6:,.1f} MB"
            for operator, size in self._state_bytes().most_common(_MOST_STATE)
        ]
        lines = []
        if largest is not None:
            total, most = sum(used.values()) / 1e6, used[largest] / 1e6
            lines.append(
                f"memory of workers at their last reports: {total:,.0f} MB; most in subtask {largest}: "
                f"{most:,.0f} MB"
            )
        if state:
            lines.append(f"most state at the last checkpoint: {', '.join(state)}")
        return "\n".join(lines)

    def _state_bytes(self) -> Counter[str]:
        sizes: Counter[str] = Counter()
        for share in list(self._shares.values()):
            for handle in share.handles:
                if handle.operator in self._operators:
                    sizes[str(handle.operator)] += handle.size_bytes
        return sizes or self._state_before

    def _job_readings(self, status: JobStatus) -> list[Reading]:
        of_job: list[tuple[f.Metric, float]] = [
            (f.UPTIME, round(status.running_s, 3)),
            (f.ATTEMPT, status.attempt),
            (f.PARALLELISM, status.parallelism),
            (f.SOURCE_ROWS, status.records_per_s),
            (f.CHECKPOINTS, status.checkpoints_completed),
            (f.CHECKPOINTS_FAILED, status.checkpoints_failed),
            (f.EVENTS_DROPPED, status.events_dropped),
            (f.STRANGERS, status.strangers),
            (f.REFUSED, self._reports.refused),
            (f.LOG_ENTRIES, self.log_entries),
        ]
        if status.last_checkpoint_bytes is not None:
            of_job.append((f.CHECKPOINT_BYTES, status.last_checkpoint_bytes))
        found = [Reading(metric.name, (), value) for metric, value in of_job]
        found += [Reading(f.RESTARTS.name, (cause,), n) for cause, n in self._causes.copy().items()]
        if status.earlier.restarts:
            found.append(Reading(f.RESTARTS.name, (EARLIER_DRIVERS,), status.earlier.restarts))
        if self._durations_ms.value.n:
            found.append(Reading(f.CHECKPOINT_DURATION.name, (), self._durations_ms.value))
        return found

    def _share_readings(self, share: Acknowledge) -> list[Reading]:
        cost, at = share.cost, (str(share.subtask),)
        found = [
            Reading(f.SYNC.name, at, cost.sync_us / 1000),
            Reading(f.ALIGN.name, at, cost.align_us / 1000),
            Reading(f.ASYNC.name, at, cost.async_us / 1000),
            Reading(f.WRITTEN.name, at, cost.written_bytes),
            Reading(f.IN_FLIGHT.name, at, cost.in_flight_bytes),
        ]
        sizes: Counter[str] = Counter()
        rows: Counter[str] = Counter()
        for handle in share.handles:
            if handle.operator in self._operators:
                sizes[str(handle.operator)] += handle.size_bytes
                if handle.kind is StateKind.KEYED:
                    rows[str(handle.operator)] += handle.rows
        found += [Reading(f.STATE_BYTES.name, (op, *at), size) for op, size in sizes.items()]
        return found + [Reading(f.STATE_ROWS.name, (op, *at), count) for op, count in rows.items()]
