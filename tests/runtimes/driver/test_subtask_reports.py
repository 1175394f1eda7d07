"""The status and the metrics of a job are views of the same reports, so they agree."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rheos.core.metrics import declarations as f
from rheos.core.metrics.model import MetricsReport
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.control import Progress, Totals
from rheos.core.protocol.ids import Attempt, JobId
from rheos.core.protocol.readings import Reading
from rheos.runtimes.driver.metrics_keeper import JobTotals, MetricsKeeper, SummedCounts
from rheos.runtimes.driver.subtask_reports import SubtaskReports
from rheos.runtimes.job import JobState, JobStatus
from tests.runtimes.driver.test_master import Target, plan_of

PLAN = plan_of(Target())
OPERATORS = [str(operator.id) for operator in PLAN.operators()]
STATUS = JobStatus(
    JobId("job"), "a program", JobState.RUNNING, 1, 2.5, 0.0, None, 0, 0, None, 0, 0.0, 0.0
)
GROWTH = st.tuples(st.integers(0, 2), st.integers(1, 10**6), st.integers(0, 1000), st.integers(0, 100))
"""Subtask, time that has passed in µs, rows that have come, and the watermark's step in ms."""


def report(subtask: int, at_us: int, rows: int, watermark_ms: int) -> Progress:
    return Progress(
        attempt=Attempt(1),
        subtask=subtask,
        step_us=at_us,
        records_in=dict.fromkeys(OPERATORS, rows),
        records_out=dict.fromkeys(OPERATORS, rows),
        watermark_ms=dict.fromkeys(OPERATORS, watermark_ms),
        busy_us=at_us // 2,
        blocked_us=at_us // 4,
        counters={f"{OPERATORS[0]}/late": rows},
        gauges={f"{OPERATORS[0]}/depth": float(rows)},
    )


def values(metrics: MetricsReport, metric: f.Metric, at: str) -> list[float]:
    return [r.value for r in metrics.of(metric) if at in r.at and isinstance(r.value, int | float)]


@settings(max_examples=30, deadline=None)
@given(st.lists(GROWTH, min_size=1, max_size=12))
def test_the_status_and_the_metrics_of_an_attempt_agree(steps: list[tuple[int, ...]]) -> None:
    reports = SubtaskReports(PLAN)
    totals, keeper = JobTotals(PLAN, reports), MetricsKeeper(PLAN, JobId("job"), reports)
    reports.begin(3)
    totals.begin(Totals())
    keeper.begin(Attempt(1), 0)
    at = {subtask: [0, 0, 0] for subtask in range(3)}
    for subtask, us, rows, ms in steps:
        at[subtask] = [sum(each) for each in zip(at[subtask], (us, rows, ms), strict=True)]
        made = report(subtask, *at[subtask])
        assert reports.take(made, 0, 0)
        totals.progressed(made)
    metrics = keeper.now(STATUS, 0, 0)
    for status in totals.operators():
        assert status.records_in == sum(values(metrics, f.ROWS_IN, status.id))
        assert status.records_out == sum(values(metrics, f.ROWS_OUT, status.id))
        assert status.counters.get("late", 0) == sum(values(metrics, f.COUNTER, status.id))
        assert list(status.gauges.values()) == [
            max(of) for of in [values(metrics, f.GAUGE, status.id)] if of
        ]
        marks = values(metrics, f.WATERMARK, status.id)
        assert status.watermark_ms == (min(marks) if len(marks) == 3 else None)
    source = OPERATORS[0]
    rates = [r.per_s or 0.0 for r in metrics.of(f.ROWS_OUT) if source in r.at]
    assert abs(reports.records_per_s() - sum(rates)) < 1e-6 * max(sum(rates), 1)


COUNTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 50), max_size=3)


@settings(max_examples=50, deadline=None)
@given(COUNTS, st.lists(st.tuples(st.integers(0, 3), COUNTS), max_size=20))
def test_sums_of_counts_are_those_of_the_largest_counts(
    base: dict[str, int], reported: list[tuple[int, dict[str, int]]]
) -> None:
    summed = SummedCounts(base)
    largest: dict[tuple[int, str], int] = {}
    for subtask, counts in reported:
        summed.raise_to(subtask, counts)
        for name, count in counts.items():
            largest[subtask, name] = max(largest.get((subtask, name), 0), count)
    names = {*base, *(name for _, name in largest)}
    assert summed.sums == {
        name: base.get(name, 0) + sum(count for (_, of), count in largest.items() if of == name)
        for name in names
    }


def test_accumulators_of_all_subtasks_are_merged_with_those_before_the_attempt() -> None:
    totals = JobTotals(PLAN, SubtaskReports(PLAN))
    name = f"{OPERATORS[0]}/ms"

    def taken(*values: int) -> Totals:
        return Totals(
            accumulated={name: Accumulated(len(values), sum(values), min(values), max(values))}
        )

    totals.begin(taken(1, 2))
    totals.count(0, taken(5))
    totals.count(0, taken(5, 7))
    totals.count(0, taken(5))
    totals.count(1, taken(3))
    merged = totals.operators()[0].accumulated["ms"]
    assert (merged.n, merged.total, merged.least, merged.most) == (5, 18, 1, 7)


def test_rows_of_a_lost_attempt_are_counted_once() -> None:
    reports = SubtaskReports(PLAN)
    totals = JobTotals(PLAN, reports)
    rows = dict.fromkeys(OPERATORS, 10)
    for base, more in ((Totals(), 30), (Totals(rows, rows), 5)):
        reports.begin(1)
        totals.begin(base)
        made = report(0, 1, more, 0)
        assert reports.take(made, 0, 0)
        totals.progressed(made)
        totals.count(0, Totals({OPERATORS[0]: 1}))
    assert [status.records_in for status in totals.operators()] == [15] * len(OPERATORS)
    assert (len(reports.all()), reports.all()[0].before) == (1, None)


def test_needed_shares_exclude_waits_for_a_core_and_the_fixed_cost() -> None:
    reports = SubtaskReports(PLAN)
    reports.begin(2)
    for second in (1, 2):
        for subtask, fixed_ms in enumerate((300, 0)):
            readings = [
                Reading(f.FIXED_COST.name, (), second * fixed_ms),
                Reading(f.CORE_WAIT.name, (), second * 150),
            ]
            made = report(subtask, second * 1_000_000, 0, 0)
            assert reports.take(msgspec.structs.replace(made, readings=readings), 0, 0)
            assert reports.needed_shares() == [] or second == 2
    assert reports.shares() == [0.75, 0.75]
    assert reports.needed_shares() == pytest.approx([0.3, 0.6])
