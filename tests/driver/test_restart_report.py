"""A job that restarts says so in the log of Python, with its cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheos.driver.restart_report import RestartReport
from rheos.job import JobState, JobStatus
from rheos.protocol.ids import JobId


def test_each_restart_is_reported_and_its_cause_in_full_once(caplog: pytest.LogCaptureFixture) -> None:
    report = RestartReport()
    status = JobStatus(JobId("j"), "shop", JobState.RUNNING, 1, 1.0, 0.0, None, 0, 0, None, 0, 0.0, 0.0)
    lost = "a worker is lost\n  what to do: look"
    for restarts, failure in [(0, None), (1, lost), (1, lost), (2, lost), (3, "another"), (3, None)]:
        report.heard(replace(status, restarts=restarts, failure=failure))
    report.heard(replace(status, state=JobState.FAILED, restarts=4, failure="it was the last"))
    assert [record.getMessage() for record in caplog.records] == [
        f"the job 'shop' restarts (for the 1st time): {lost}",
        "the job 'shop' restarts (again, for the 2nd time): a worker is lost",
        "the job 'shop' restarts (for the 3rd time): another",
    ]
    assert {(record.name, record.levelname) for record in caplog.records} == {("rheos", "WARNING")}
