"""Metrics that the driver adds to the reports of subtasks."""

from __future__ import annotations

import pytest

from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.control import Progress
from rheos.core.protocol.ids import Attempt, JobId
from rheos.runtimes.driver.metrics_keeper import MetricsKeeper
from rheos.runtimes.driver.subtask_reports import SubtaskReports
from rheos.runtimes.job import JobState, JobStatus


@pytest.mark.parametrize("jump_ms", [-7_200_000, 0, 7_200_000])
def test_the_age_of_a_report_ignores_the_wall_clock(jump_ms: int) -> None:
    plan = PhysicalPlan("a program", (), (), 1, 8)
    reports = SubtaskReports(plan)
    keeper = MetricsKeeper(plan, JobId("job"), reports)
    reports.begin(1)
    keeper.begin(Attempt(1), 0)
    report = Progress(
        attempt=Attempt(1),
        subtask=0,
        step_us=0,
        records_in={},
        records_out={},
        watermark_ms={},
        busy_us=0,
        blocked_us=0,
        counters={},
    )
    assert reports.take(report, now_ms=1_000_000, now_us=5_000_000)
    status = JobStatus(
        JobId("job"), "a program", JobState.RUNNING, 1, 2.5, 0.0, None, 0, 0, None, 0, 0.0, 0.0
    )
    shown = keeper.now(status, 1_000_000 + jump_ms, 7_500_000)
    assert [reading.value for reading in shown.readings if reading.metric == "report_age_ms"] == [2500]
    assert shown.at_ms == 1_000_000 + jump_ms
