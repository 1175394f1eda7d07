"""The times at which the driver checks its job's health, and what it remembers."""

from __future__ import annotations

from dataclasses import replace

from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.metrics.health import FindingKind, JobHealth, Severity
from rheos.runtimes.driver.health import EVERY_US, RESTARTS_FOR_US, HealthKeeper, SeenJob
from tests.cli.stand_ins import METRICS, STATUS, outline
from tests.runtimes.health.jobs import NOW_MS, SECOND_US

CALM = replace(STATUS, failure=None, checkpoints_failed=0, operators=())


class Driver:
    """Driver whose clocks the test sets."""

    def __init__(self) -> None:
        self.keeper = HealthKeeper(outline(), CheckpointConfig())
        self.now_us = 0
        self.restarts = 0
        self.looks = 0
        self.earlier: list[tuple[int, str]] = []

    def look(self, after_us: int = EVERY_US) -> JobHealth:
        self.now_us += after_us
        now_ms = NOW_MS + self.now_us // 1000

        def job() -> SeenJob:
            self.looks += 1
            return SeenJob(CALM, METRICS, self.earlier)

        found = self.keeper.look(self.now_us, now_ms, self.now_us, self.restarts, job)
        assert found is not None
        return found


def test_health_is_computed_every_two_seconds() -> None:
    driver = Driver()
    first = driver.look()
    assert driver.look(EVERY_US - 1) is first
    assert driver.look(1) is not first
    assert driver.looks == 2


def test_only_restarts_of_the_last_hour_are_reported() -> None:
    driver = Driver()
    assert driver.look().findings == []
    driver.restarts = 1
    (one,) = driver.look().findings
    assert (one.kind, one.severity) == (FindingKind.RESTARTS, Severity.DEGRADED)
    assert [reading.metric for reading in driver.keeper.readings()] == ["health", "findings"]
    (one,) = driver.look(300 * SECOND_US).findings
    assert one.severity is Severity.NOTE
    assert [reading.value for reading in driver.keeper.readings()] == [0], "a note is none"
    assert driver.look(RESTARTS_FOR_US).findings == []


def test_restarts_under_an_earlier_driver_are_reported() -> None:
    driver = Driver()
    driver.earlier = [
        (NOW_MS - 7_200_000, "long ago"),
        (NOW_MS - 30_000, "the driver was lost (process 7 on host a)"),
    ]
    (one,) = driver.look().findings
    assert one.kind is FindingKind.RESTARTS
    assert "restarted once in the last hour, the last time 32 s ago" in one.what
    assert "The last cause: the driver was lost (process 7 on host a)" in one.what
