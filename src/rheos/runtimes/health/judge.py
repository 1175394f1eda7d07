"""Combines what the kinds of findings have found into the health of a job, with the start of each
finding. Pure: the caller passes the clocks.

Two findings at different moments are the same if their kind, operator, subtask and server are equal. A
finding's `since` is the earlier of two times: the start that a metric reports, and the moment when it
was first found. So it survives a new attempt of the job, whose metrics start again. A finding that was
gone for less than a minute continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rheos.core.metrics.event_log import iso_time
from rheos.core.metrics.health import FindingKind, HealthState, JobFinding, JobHealth, Severity
from rheos.runtimes.health.kinds import KINDS
from rheos.runtimes.health.moment import FOR, DetectedFinding, JobMoment, span

# --- when an alert is due -----------------------------------------------------------------------------


HOLDS_US = 10_000_000


@dataclass(frozen=True)
class HealthAlert:
    """An alert to send: the health of a job, which became bad or well again."""

    resolved: bool
    """Whether the job is well again."""
    before: HealthState
    """The state of the previous alert."""
    health: JobHealth


class Alerting:
    """The decision when an alert is due. Called every few seconds with the health of the job."""

    def __init__(self, least: HealthState) -> None:
        """Begin with a healthy job. `least` is the lightest state that causes an alert."""
        self._least = least
        self._said = HealthState.HEALTHY
        self._now = HealthState.HEALTHY
        self._since_us = 0

    def look(self, health: JobHealth, now_us: int, *, at_once: bool = False) -> HealthAlert | None:
        """Return the alert that is due, or None.

        Args:
            health: the current health of the job.
            now_us: the monotonic time.
            at_once: whether the state need not last for a while, because no further call follows.
        """
        state = health.state if health.state.rank >= self._least.rank else HealthState.HEALTHY
        if state is not self._now:
            self._now, self._since_us = state, now_us
        if state is self._said or not (at_once or now_us - self._since_us >= HOLDS_US):
            return None
        before, self._said = self._said, state
        return HealthAlert(state is HealthState.HEALTHY, before, health)


# --- the health ---------------------------------------------------------------------------------------


CONTINUES_US = 10_000_000
"""Longest gap in a finding. After a longer one it must last for its `shown_after_ms` again."""
REMEMBERED_US = 60_000_000
"""Time for which the start of a finding that is gone is remembered."""
MOST_FINDINGS = 20
"""Maximum number of findings in a health. The gravest are kept."""


@dataclass(frozen=True)
class HeldFinding:
    """A finding that holds, or that held until a moment ago."""

    since_us: int
    seen_us: int
    """Time when it was last found."""
    first_us: int
    """Time since which it has been found without a gap; `since_us` may be earlier."""


@dataclass(frozen=True)
class Memory:
    """The knowledge of earlier moments that the next one needs."""

    standing: Mapping[tuple[object, ...], HeldFinding] = field(default_factory=dict)
    state: HealthState = HealthState.HEALTHY
    state_us: int | None = None
    """Time when the job entered that state; None before the first moment."""


def health(seen: JobMoment, before: Memory, now_ms: int) -> tuple[JobHealth, Memory]:
    """Return the health of a job, and the memory for the next call.

    Args:
        seen: the job at this moment.
        before: the memory that the last call returned; `Memory()` at first.
        now_ms: this moment's wall-clock time, in ms since the epoch.
    """
    now_us = seen.now_us
    standing = {
        identity: each
        for identity, each in before.standing.items()
        if now_us - each.seen_us < REMEMBERED_US
    }
    findings = []
    for kind, declared in KINDS.items():
        for found in declared.find(seen):
            identity = found.identity(kind)
            began = _standing(found, standing.get(identity), now_us)
            standing[identity] = began
            if now_us - began.first_us >= declared.shown_after_ms * 1000:
                findings.append(_finding(kind, found, began, now_us, now_ms))
    ranks = list(Severity)
    findings.sort(key=lambda each: (-ranks.index(each.severity), each.since_ms))
    state = findings[0].severity.state if findings else HealthState.HEALTHY
    state_us = before.state_us
    if state_us is None or state is not before.state:
        # A job is stuck since the cause began, not since the moment when it was found.
        caused = [now_us - each.for_ms * 1000 for each in findings if each.severity.state is state]
        state_us = min(caused, default=now_us) if state is not HealthState.HEALTHY else now_us
    for_ms = max(now_us - state_us, 0) // 1000
    judged = JobHealth(
        state=state,
        since_ms=now_ms - for_ms,
        since=iso_time(now_ms - for_ms),
        for_ms=for_ms,
        at_ms=now_ms,
        findings=findings[:MOST_FINDINGS],
    )
    return judged, Memory(standing, state, state_us)


def _standing(found: DetectedFinding, before: HeldFinding | None, now_us: int) -> HeldFinding:
    measured_us = now_us if found.for_ms is None else now_us - int(found.for_ms * 1000)
    if before is None:
        return HeldFinding(measured_us, now_us, now_us)
    first_us = before.first_us if now_us - before.seen_us < CONTINUES_US else now_us
    return HeldFinding(min(before.since_us, measured_us), now_us, first_us)


def _finding(
    kind: FindingKind, found: DetectedFinding, began: HeldFinding, now_us: int, now_ms: int
) -> JobFinding:
    for_ms = max(now_us - began.since_us, 0) // 1000
    return JobFinding(
        kind=kind,
        severity=found.severity,
        what=found.what.replace(FOR, span(for_ms)),
        what_to_do=found.what_to_do,
        since_ms=now_ms - for_ms,
        since=iso_time(now_ms - for_ms),
        for_ms=for_ms,
        operator=found.operator,
        subtask=found.subtask,
        server=found.server,
    )
