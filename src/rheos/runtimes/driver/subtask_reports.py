"""The newest and the previous report of each subtask of the running attempt, and views of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rheos.core.metrics import declarations as f
from rheos.core.metrics.reports import ReportShape, report_problem
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.control import Progress
from rheos.core.protocol.readings import Reading
from rheos.runtimes.job import LatencyStatus


class SubtaskReport(NamedTuple):
    """The newest report of a subtask."""

    newest: Progress
    before: Progress | None
    """The previous report."""
    at_ms: int
    """Wall-clock time of its arrival."""
    at_us: int
    """Monotonic time of its arrival."""
    numbers: Mapping[str, Sequence[Reading]]
    """Its numbers, by the metrics in `LOOKED_UP`."""


LOOKED_UP = frozenset(
    metric.name
    for metric in (
        f.SOURCE_LAG_ROWS,
        f.SOURCE_LAG,
        f.SINCE_PUBLISHED,
        f.UNPUBLISHED,
        f.MEMORY,
        f.LATENCY_OBJECTIVE,
        f.LATENCY_FOUND,
        f.CHOSEN_TIMEOUT,
        f.CHOSEN_ROWS,
    )
)
"""Metrics that the status looks up in all reports. A report has some dozens of others."""


_SPARE = frozenset({f.CORE_WAIT.name, f.FIXED_COST.name})


class SubtaskReports:
    """The reports of all subtasks. The master's thread adds them; any thread may read them. The metrics
    and the status of a job are views of them."""

    def __init__(self, plan: PhysicalPlan) -> None:
        operators = list(plan.operators())
        self._operators = frozenset(str(operator.id) for operator in operators)
        self._chains = frozenset(str(chain.id) for chain in plan.chains)
        self._edges = frozenset(str(edge.id) for edge in plan.edges)
        self._sources = [each.id for each in operators if isinstance(each.spec, SourceSpec)]
        self._of: dict[int, SubtaskReport] = {}
        """Reports by subtask."""
        self._strangers_before = 0
        self.refused = 0
        """Number of refused reports, whose values cannot be true."""
        self.parallelism = 0
        """Parallelism of the attempt."""
        self.begin(0)

    def begin(self, parallelism: int) -> None:
        """Start an attempt, and drop the reports of the previous one."""
        self._strangers_before = self.strangers()
        self.parallelism = parallelism
        self._shape = ReportShape(self._operators, self._chains, self._edges, parallelism)
        self._of = {}

    def take(self, report: Progress, now_ms: int, now_us: int) -> bool:
        """Store a report, and return True. If its values cannot be true, count it and return False.

        Args:
            report: a report of a subtask.
            now_ms: the wall-clock time.
            now_us: the monotonic time.
        """
        if report_problem(report, self._shape) is not None:
            self.refused += 1
            return False
        before = self._of.get(report.subtask)
        previous = None if before is None else before.newest
        numbers = _numbers_in(report)
        self._of[report.subtask] = SubtaskReport(report, previous, now_ms, now_us, numbers)
        return True

    def all(self) -> list[SubtaskReport]:
        """Return the newest report of each subtask, in the order of their first reports."""
        return list(self._of.values())

    def numbers(self, metric: f.Metric) -> list[tuple[SubtaskReport, Reading, float]]:
        """Return each number that the newest reports have for a metric of `LOOKED_UP`."""
        assert metric.name in LOOKED_UP, metric.name
        return [
            (of, reading, reading.value)
            for of in self.all()
            for reading in of.numbers.get(metric.name, ())
            if isinstance(reading.value, int | float)
        ]

    # --- over the last two reports of each subtask ------------------------------------------------

    def records_per_s(self) -> float:
        """Return the number of rows per second that the sources emit."""
        return sum(
            1e6 * (_rows(newest, self._sources) - _rows(before, self._sources)) / us
            for before, newest, us in self._spans()
        )

    def busy_ratio(self) -> float:
        """Return the share of the time in which the busiest subtask worked."""
        return _ratio((newest.busy_us - before.busy_us) / us for before, newest, us in self._spans())

    def backpressure_ratio(self) -> float:
        """Return the share of the time in which the most blocked subtask waited for credit."""
        return _ratio(
            (newest.blocked_us - before.blocked_us) / us for before, newest, us in self._spans()
        )

    def shares(self) -> list[float]:
        """Return, for each subtask, the share of the time in which it worked or was blocked. Empty
        until all have reported twice."""
        return [_share(*span) for span in self._complete_spans()]

    def needed_shares(self) -> list[float]:
        """Return the same as `shares`, without waits for a core and the fixed cost of small runs."""
        return [
            max(_share(before, newest, us) - 1000 * (_spare_ms(newest) - _spare_ms(before)) / us, 0.0)
            for before, newest, us in self._complete_spans()
        ]

    def _complete_spans(self) -> list[tuple[Progress, Progress, int]]:
        """Return the spans of all subtasks. Empty until all have reported twice."""
        spans = self._spans()
        return spans if len(spans) >= self.parallelism else []

    def _spans(self) -> list[tuple[Progress, Progress, int]]:
        spans = (
            (of.before, of.newest, of.newest.step_us - of.before.step_us)
            for of in self.all()
            if of.before is not None
        )
        return [span for span in spans if span[2] > 0]

    # --- over the newest reports ------------------------------------------------------------------

    def watermark_ms(self, operator: str) -> int | None:
        """Return the lowest watermark of an operator's subtasks; None until each has one."""
        reported = [
            of.newest.watermark_ms[operator] for of in self.all() if operator in of.newest.watermark_ms
        ]
        return min(reported) if reported and len(reported) == self.parallelism else None

    def gauges(self) -> dict[str, float]:
        """Return the gauges of functions by path: the maximum over all subtasks."""
        shown: dict[str, float] = {}
        for of in self.all():
            for path, value in of.newest.gauges.items():
                shown[path] = max(value, shown.get(path, value))
        return shown

    def lag_rows(self) -> int | None:
        """Return the number of records that wait in the sources; None if no source knows it."""
        known = self._values(f.SOURCE_LAG_ROWS)
        return int(sum(known)) if known else None

    def lag_ms(self) -> int | None:
        """Return the lag of the newest event time read behind the wall clock, of the source with the
        largest lag. Return None without event time."""
        return max(map(round, self._values(f.SOURCE_LAG)), default=None)

    def since_published_ms(self) -> int | None:
        """Return the time since the last publication of the sink that waits longest; None if no sink
        publishes with checkpoints."""
        return max(map(round, self._values(f.SINCE_PUBLISHED)), default=None)

    def latency(self) -> LatencyStatus | None:
        """Return what the slots have chosen for the latency objective; None without an objective."""
        metrics = (f.LATENCY_OBJECTIVE, f.LATENCY_FOUND, f.CHOSEN_TIMEOUT, f.CHOSEN_ROWS)
        objectives, found, timeouts, rows = map(self._values, metrics)
        if not (objectives and found and timeouts and rows):
            return None
        return LatencyStatus(
            objective_ms=max(objectives),
            found_ms=max(found),
            buffer_timeout_ms=min(timeouts),
            batch_rows=int(min(rows)),
        )

    def strangers(self) -> int:
        """Return the number of frames and connections that the subtasks' data sockets have dropped, in
        all attempts."""
        return self._strangers_before + sum(of.newest.strangers for of in self.all())

    def _values(self, metric: f.Metric) -> list[float]:
        return [value for _, _, value in self.numbers(metric)]


def _numbers_in(report: Progress) -> dict[str, list[Reading]]:
    found: dict[str, list[Reading]] = {}
    for reading in report.readings:
        if reading.metric in LOOKED_UP:
            found.setdefault(reading.metric, []).append(reading)
    return found


def _share(before: Progress, newest: Progress, us: int) -> float:
    """Return the share of the time between two reports in which the subtask worked or was blocked."""
    return (newest.busy_us - before.busy_us + newest.blocked_us - before.blocked_us) / us


def _spare_ms(report: Progress) -> float:
    """Return the working time that the rows did not need, since the attempt began."""
    return sum(
        each.value
        for each in report.readings
        if each.metric in _SPARE and isinstance(each.value, int | float)
    )


def _rows(report: Progress, sources: Iterable[str]) -> int:
    return sum(report.records_out.get(source, 0) for source in sources)


def _ratio(ratios: Iterable[float]) -> float:
    return min(max(ratios, default=0.0), 1.0)
