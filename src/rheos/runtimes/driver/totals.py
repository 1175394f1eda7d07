"""Totals of a job over all attempts, and the status of its operators.

An attempt counts on from the totals that its restored checkpoint recorded, so that replayed rows are
counted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.accumulated import Accumulated
from rheos.core.protocol.control import Progress, Totals
from rheos.runtimes.driver.subtask_reports import SubtaskReports
from rheos.runtimes.job import OperatorStatus

T = TypeVar("T")


class JobTotals:
    """Totals that the master keeps, for the running attempt and for the job."""

    def __init__(self, plan: PhysicalPlan, reports: SubtaskReports) -> None:
        self._names = {operator.id: operator.name for operator in plan.operators()}
        self._reports = reports
        self._base = Totals()
        self._counted: dict[int, Totals] = {}
        """By subtask, in this attempt."""

    def begin(self, base: Totals) -> None:
        """Start an attempt from a checkpoint with these totals."""
        self._base = base
        self._counted.clear()

    def progressed(self, progress: Progress) -> None:
        """Count what a subtask has reported."""
        self.count(
            progress.subtask,
            Totals(progress.records_in, progress.records_out, progress.counters, progress.accumulated),
        )

    def count(self, subtask: int, totals: Totals) -> None:
        """Count the totals of a subtask. Those of an acknowledgement are counted up to its barrier, and
        may arrive after a later report."""
        before = self._counted.get(subtask, Totals())
        self._counted[subtask] = Totals(
            _larger(before.records_in, totals.records_in),
            _larger(before.records_out, totals.records_out),
            _larger(before.counters, totals.counters),
            _longer(before.accumulated, totals.accumulated),
        )

    def operators(self) -> tuple[OperatorStatus, ...]:
        """Return the status of each operator, in the order of the plan."""
        totals = self._base
        for counted in self._counted.values():
            totals = totals.plus(counted)
        counters = _by_operator(totals.counters)
        accumulated = _by_operator(totals.accumulated)
        gauges = _by_operator(self._reports.gauges())
        return tuple(
            OperatorStatus(
                id=id,
                name=name,
                records_in=totals.records_in.get(id, 0),
                records_out=totals.records_out.get(id, 0),
                watermark_ms=self._reports.watermark_ms(id),
                counters=counters.get(id, {}),
                accumulated=accumulated.get(id, {}),
                gauges=gauges.get(id, {}),
            )
            for id, name in self._names.items()
        )


def _larger(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def _longer(left: dict[str, Accumulated], right: dict[str, Accumulated]) -> dict[str, Accumulated]:
    """Return, for each name, the value that has more in it."""
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
