"""When an alert of a job is due: a state that has held for a while, and its end. Pure.

An alert is due once the job has been at least as ill as wanted for ten seconds, again when its state
changes, and when it is well again. A state that lasts shorter, such as a restart, is no alert.
"""

from __future__ import annotations

from dataclasses import dataclass

from rheos.core.metrics.health import HealthState, JobHealth

HOLDS_US = 10_000_000


@dataclass(frozen=True)
class HealthAlert:
    """What somebody is to be told."""

    resolved: bool
    """Whether the job is well again."""
    before: HealthState
    """The state of the alert before this one."""
    health: JobHealth


class Alerting:
    """Decides when an alert is due. Called every few seconds with the health of the job."""

    def __init__(self, least: HealthState) -> None:
        """`least` is the lightest state that is worth an alert."""
        self._least = least
        self._said = HealthState.HEALTHY
        self._now = HealthState.HEALTHY
        self._since_us = 0

    def look(self, health: JobHealth, now_us: int, *, at_once: bool = False) -> HealthAlert | None:
        """Return the alert that is due, or None.

        Args:
            health: the health of the job now.
            now_us: the time by the monotonic clock.
            at_once: whether the state need not hold for a while, as no further call follows.
        """
        state = health.state if health.state.rank >= self._least.rank else HealthState.HEALTHY
        if state is not self._now:
            self._now, self._since_us = state, now_us
        if state is self._said or not (at_once or now_us - self._since_us >= HOLDS_US):
            return None
        before, self._said = self._said, state
        return HealthAlert(state is HealthState.HEALTHY, before, health)
