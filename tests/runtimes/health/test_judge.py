"""The start of a finding and of a state, over moments of a clock that the tests set."""

from __future__ import annotations

from rheos.core.metrics.health import HealthState, JobHealth
from rheos.core.protocol.readings import Reading
from rheos.runtimes.health.judge import REMEMBERED_US, Memory, health
from tests.runtimes.health.jobs import HELD, NOW_MS, SECOND_US, received, seen, shares

AWAY = "unpublished_ms"


class Judge:
    """Health of a job, computed at intervals."""

    def __init__(self) -> None:
        self._memory = Memory()
        self.now_s = 1000

    def look(self, after_s: int, *readings: Reading) -> JobHealth:
        self.now_s += after_s
        job = seen(*readings, now_us=self.now_s * SECOND_US)
        judged, self._memory = health(job, self._memory, NOW_MS + self.now_s * 1000)
        assert judged.at_ms == NOW_MS + self.now_s * 1000
        return judged


def waits(seconds: int) -> Reading:
    return Reading(AWAY, ("map-1", "0"), seconds * 1000)


def test_the_start_of_a_finding_comes_from_the_metric() -> None:
    judge = Judge()
    judge.look(0)
    judged = judge.look(2, waits(7))
    (one,) = judged.findings
    assert (one.for_ms, one.since_ms) == (7_000, judged.at_ms - 7_000)
    assert one.since == "2023-11-14T22:29:55.000Z"
    assert (judged.state, judged.for_ms) == (HealthState.STUCK, 7_000)
    assert judged.headline.startswith(f"stuck since {one.since}: the sink 'map' has published nothing")


def test_the_start_survives_an_attempt_with_new_metrics() -> None:
    judge = Judge()
    judge.look(0, waits(100))
    assert judge.look(10, waits(1)).findings == []
    (one,) = judge.look(6, waits(7)).findings
    assert one.for_ms == 116_000
    assert "for 116 s" in one.what or "for 2 min" in one.what


def test_a_finding_after_a_long_break_starts_anew() -> None:
    judge = Judge()
    judge.look(0, waits(100))
    (one,) = judge.look(REMEMBERED_US // SECOND_US, waits(7)).findings
    assert one.for_ms == 7_000


def test_durations_do_not_depend_on_the_wall_clock() -> None:
    job = seen(waits(7))
    _, memory = health(job, Memory(), NOW_MS)
    judged, _ = health(seen(waits(1), now_us=job.now_us + SECOND_US), memory, NOW_MS + 3_600_000)
    assert judged.findings == []
    judged, _ = health(seen(waits(6), now_us=job.now_us + SECOND_US), memory, NOW_MS + 3_600_000)
    assert judged.findings[0].for_ms == 8_000


def test_a_fluctuating_finding_is_shown_after_some_time() -> None:
    judge = Judge()
    slow = [*shares("1", "busy_ms", 0.97, 0.99), *HELD, *received(50, 50)]
    assert judge.look(0, *slow).state is HealthState.HEALTHY
    assert judge.look(2, *slow).findings == []
    judged = judge.look(2, *slow)
    assert (judged.state, judged.findings[0].for_ms) == (HealthState.DEGRADED, 4_000)
    assert judge.look(12).state is HealthState.HEALTHY
    assert judge.look(2, *slow).findings == [], "it must hold again"


def test_the_gravest_finding_is_first_and_determines_the_state() -> None:
    judge = Judge()
    slow = [*shares("1", "busy_ms", 0.97, 0.99), *HELD, *received(50, 50)]
    judge.look(0, *slow)
    judged = judge.look(5, *slow, waits(6))
    assert [each.severity.state for each in judged.findings] == [
        HealthState.STUCK,
        HealthState.DEGRADED,
    ]
    assert "(and 1 more)" in judged.headline
    calm = judge.look(100)
    assert (calm.state, calm.for_ms) == (HealthState.HEALTHY, 0)
    assert judge.look(30).for_ms == 30_000
