"""A job's figures, from what its subtasks report.

Totals hold over all attempts: an attempt counts on from the totals that its restored checkpoint
recorded, so that replayed rows are counted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from rheos.core.metrics.figures import SINCE_PUBLISHED, SOURCE_LAG, SOURCE_LAG_ROWS, Figure
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.accumulated import Accumulated
from rheos.core.protocol.control import Acknowledge, Progress, Totals
from rheos.runtimes.job import OperatorStatus

T = TypeVar("T")


class JobMetrics:
    """Kept by the master, for the attempt that runs and for the job."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._parallelism = plan.parallelism
        self._names = {operator.id: operator.name for operator in plan.operators()}
        self._sources = [
            operator.id for operator in plan.operators() if isinstance(operator.spec, SourceSpec)
        ]
        self._base = Totals()
        self._counted: dict[int, Totals] = {}
        """By subtask, in this attempt."""
        self._latest: dict[int, Progress] = {}
        self._before: dict[int, Progress] = {}
        self._strangers_before = 0

    def begin(self, base: Totals, parallelism: int) -> None:
        """An attempt starts from a checkpoint with these totals."""
        self._strangers_before = self.strangers()
        self._base = base
        self._parallelism = parallelism
        self._counted.clear()
        self._latest.clear()
        self._before.clear()

    def progressed(self, progress: Progress) -> None:
        subtask = progress.subtask
        if subtask in self._latest:
            self._before[subtask] = self._latest[subtask]
        self._latest[subtask] = progress
        totals = Totals(
            progress.records_in, progress.records_out, progress.counters, progress.accumulated
        )
        self._count(subtask, totals)

    def acknowledged(self, acknowledge: Acknowledge) -> None:
        self._count(acknowledge.subtask, acknowledge.totals)

    def _count(self, subtask: int, totals: Totals) -> None:
        before = self._counted.get(subtask, Totals())
        # An acknowledgement counts up to its barrier, and may come after a later report.
        self._counted[subtask] = Totals(
            _larger(before.records_in, totals.records_in),
            _larger(before.records_out, totals.records_out),
            _larger(before.counters, totals.counters),
            _longer(before.accumulated, totals.accumulated),
        )

    def records_per_s(self) -> float:
        """What the sources gave, between the last two reports of each subtask."""
        return sum(
            1e6
            * sum(
                latest.records_out.get(source, 0) - before.records_out.get(source, 0)
                for source in self._sources
            )
            / elapsed_us
            for before, latest, elapsed_us in self._spans()
        )

    def busy_ratio(self) -> float:
        """Of the busiest subtask."""
        spans = self._spans()
        return _ratio((latest.busy_us - before.busy_us) / us for before, latest, us in spans)

    def backpressure_ratio(self) -> float:
        """Of the most held-up subtask."""
        spans = self._spans()
        return _ratio((latest.blocked_us - before.blocked_us) / us for before, latest, us in spans)

    def shares(self) -> list[float]:
        """Of each subtask: how much of its time it worked, or was held up. Empty until all have said
        so twice."""
        spans = self._spans()
        if len(spans) < self._parallelism:
            return []
        return [
            (latest.busy_us - before.busy_us + latest.blocked_us - before.blocked_us) / us
            for before, latest, us in spans
        ]

    def lag_rows(self) -> int | None:
        """Return the number of records that wait in the sources; None if no source knows it."""
        known = self._reported(SOURCE_LAG_ROWS)
        return int(sum(known)) if known else None

    def lag_ms(self) -> int | None:
        """Return how far the newest event time read is behind the wall clock, of the source that is
        furthest behind; None without event time."""
        return max(map(round, self._reported(SOURCE_LAG)), default=None)

    def since_published_ms(self) -> int | None:
        """Return the time since the last publication of the sink that waits longest; None if no sink
        publishes with checkpoints."""
        return max(map(round, self._reported(SINCE_PUBLISHED)), default=None)

    def _reported(self, figure: Figure) -> list[float]:
        """Return the newest values of a gauge, of all subtasks."""
        return [
            reading.value
            for progress in self._latest.values()
            for reading in progress.readings
            if reading.figure == figure.name and isinstance(reading.value, int | float)
        ]

    def strangers(self) -> int:
        """What the subtasks' data sockets have dropped, in all attempts."""
        return self._strangers_before + sum(latest.strangers for latest in self._latest.values())

    def _spans(self) -> list[tuple[Progress, Progress, int]]:
        spans = (
            (before, self._latest[subtask], self._latest[subtask].step_us - before.step_us)
            for subtask, before in self._before.items()
        )
        return [span for span in spans if span[2] > 0]

    def operators(self) -> tuple[OperatorStatus, ...]:
        totals = self._base
        for counted in self._counted.values():
            totals = totals.plus(counted)
        counters = _by_operator(totals.counters)
        accumulated = _by_operator(totals.accumulated)
        gauges = _by_operator(self._gauges())
        return tuple(
            OperatorStatus(
                id=id,
                name=name,
                records_in=totals.records_in.get(id, 0),
                records_out=totals.records_out.get(id, 0),
                watermark_ms=self._watermark_ms(id),
                counters=counters.get(id, {}),
                accumulated=accumulated.get(id, {}),
                gauges=gauges.get(id, {}),
            )
            for id, name in self._names.items()
        )

    def _gauges(self) -> dict[str, float]:
        """Of all subtasks the most."""
        shown: dict[str, float] = {}
        for progress in self._latest.values():
            for path, value in progress.gauges.items():
                shown[path] = max(value, shown.get(path, value))
        return shown

    def _watermark_ms(self, operator: str) -> int | None:
        """The least over all subtasks; None until each has one."""
        reported = [
            progress.watermark_ms[operator]
            for progress in self._latest.values()
            if operator in progress.watermark_ms
        ]
        return min(reported) if len(reported) == self._parallelism else None


def _larger(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def _longer(left: dict[str, Accumulated], right: dict[str, Accumulated]) -> dict[str, Accumulated]:
    """The one that has more in it."""
    nothing = Accumulated()
    return {
        name: max(left.get(name, nothing), right.get(name, nothing), key=lambda each: each.n)
        for name in {**left, **right}
    }


def _by_operator(figures: Mapping[str, T]) -> dict[str, dict[str, T]]:
    of: dict[str, dict[str, T]] = {}
    for path, figure in figures.items():
        operator, _, name = path.rpartition("/")
        of.setdefault(operator, {})[name] = figure
    return of


def _ratio(ratios: Iterable[float]) -> float:
    return min(max(ratios, default=0.0), 1.0)
