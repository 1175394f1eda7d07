"""The moments at which an alert is due."""

from __future__ import annotations

import pytest

from rheos.core.metrics.health import HealthState, JobHealth, Severity, simple_health
from rheos.runtimes.health.judge import HOLDS_US, Alerting

SECOND_US = 1_000_000


def job(state: HealthState) -> JobHealth:
    severities = {each.state: each for each in Severity if each is not Severity.NOTE}
    return simple_health(severities.get(state), 1_000, what="it is so")


def due(alerting: Alerting, *states: tuple[int, HealthState]) -> list[tuple[int, HealthState, bool]]:
    """Return the alerts of a job that is in these states for these numbers of seconds: time, state,
    and whether the alert is resolved."""
    found, at_s = [], 0
    for for_s, state in states:
        for _ in range(for_s):
            alert = alerting.look(job(state), at_s * SECOND_US)
            if alert is not None:
                found.append((at_s, alert.health.state, alert.resolved))
            at_s += 1
    return found


def test_a_lasting_state_and_its_end_are_alerts() -> None:
    holds_s = HOLDS_US // SECOND_US
    healthy, stuck = HealthState.HEALTHY, HealthState.STUCK
    assert due(Alerting(stuck), (20, healthy), (60, stuck), (60, healthy)) == [
        (20 + holds_s, stuck, False),
        (80 + holds_s, healthy, True),
    ]


def test_short_or_lighter_states_are_no_alerts() -> None:
    healthy, stuck = HealthState.HEALTHY, HealthState.STUCK
    assert due(Alerting(stuck), (5, healthy), (9, stuck), (30, healthy)) == []
    assert due(Alerting(stuck), (60, HealthState.DEGRADED)) == []


def test_each_change_of_state_is_an_alert() -> None:
    stuck, failing, degraded = HealthState.STUCK, HealthState.FAILING, HealthState.DEGRADED
    found = due(Alerting(stuck), (20, stuck), (20, failing), (20, degraded))
    assert [(state, resolved) for _, state, resolved in found] == [
        (stuck, False),
        (failing, False),
        (degraded, True),
    ]


@pytest.mark.parametrize("least", [HealthState.DEGRADED, HealthState.FAILING])
def test_the_least_state_for_alerts_is_configurable(least: HealthState) -> None:
    wanted = [state for state in HealthState if state.rank >= least.rank]
    for state in HealthState:
        assert bool(due(Alerting(least), (30, state))) is (state in wanted)


def test_the_last_alert_is_sent_at_once() -> None:
    alert = Alerting(HealthState.STUCK).look(job(HealthState.FAILING), 0, at_once=True)
    assert alert is not None
    assert alert.before is HealthState.HEALTHY
