"""The health of a job: one state, and the findings for it. `rheos.runtimes.health` computes it.

Each finding describes a problem, its start and a remedy. The most severe finding determines the state.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from rheos.core.metrics.event_log import iso_time


class HealthState(Enum):
    """The state of a job's health, from good to bad."""

    HEALTHY = "healthy"
    """Nothing needs to be done. Findings that are notes may remain."""
    DEGRADED = "degraded"
    """The job publishes output, but slower, later or with less safety than it should."""
    STUCK = "stuck"
    """Some output does not advance: a server is down, or a watermark or checkpoint is held up."""
    FAILING = "failing"
    """The job does not run: it has failed, or it restarts again and again."""

    @property
    def rank(self) -> int:
        """Return the position from good to bad, which is the value of the metric `health`."""
        return list(HealthState).index(self)


class FindingKind(Enum):
    """A possible problem of a job. A function in `runtimes.health.kinds` detects it."""

    FAILED = "failed"
    NOT_RUNNING = "not_running"
    RESTARTS = "restarts"
    DRIVER = "driver"
    SERVER = "server"
    WAITING = "waiting"
    PUBLISHING = "publishing"
    LOST_DATA = "lost_data"
    SILENT = "silent"
    CHECKPOINTS = "checkpoints"
    SLOW_CHECKPOINTS = "slow_checkpoints"
    WATERMARK = "watermark"
    NO_INPUT = "no_input"
    BACKPRESSURE = "backpressure"
    SKEW = "skew"
    LATE = "late"
    MEMORY = "memory"


class Severity(Enum):
    """Severity of a finding, from light to severe. The most severe one determines the job's state."""

    NOTE = "note"
    """Worth knowing; the job remains healthy."""
    DEGRADED = "degraded"
    STUCK = "stuck"
    FAILING = "failing"

    @property
    def state(self) -> HealthState:
        """Return the state of a job whose most severe finding has this severity."""
        return list(HealthState)[list(Severity).index(self)]


class JobFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of a job."""

    kind: FindingKind
    severity: Severity
    what: str
    """Description in one sentence, with the numbers on which it is based."""
    what_to_do: str
    since_ms: int
    """Time when it began, in ms since the epoch."""
    since: str
    """The same as ISO 8601 in UTC."""
    for_ms: int
    """Duration of the problem when the health was computed."""
    operator: str | None = None
    """Id of the operator that it is about."""
    subtask: int | None = None
    server: str | None = None
    """The server that does not answer, or the call that waits for it."""


class JobHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a job at one moment."""

    state: HealthState
    since_ms: int
    """Time when this state began, in ms since the epoch."""
    since: str
    """The same as ISO 8601 in UTC."""
    for_ms: int
    at_ms: int
    """Time when the health was computed."""
    findings: list[JobFinding] = []
    """Findings, the most severe first; of equal ones, the longest first."""

    @property
    def headline(self) -> str:
        """Return the state, and the most severe finding that changes it, on one line."""
        if not self.findings or self.findings[0].severity is Severity.NOTE:
            return self.state.value
        more = sum(each.severity is not Severity.NOTE for each in self.findings) - 1
        others = f" (and {more} more)" if more else ""
        return f"{self.state.value} since {self.since}: {self.findings[0].what}{others}"


def simple_health(
    severity: Severity | None,
    at_ms: int,
    *,
    kind: FindingKind = FindingKind.FAILED,
    what: str = "",
    what_to_do: str = "",
    since_ms: int | None = None,
) -> JobHealth:
    """Return a health with one finding, or with none if `severity` is None.

    Used for a job that cannot answer: it has failed, or its driver does not respond.
    """
    since_ms = at_ms if since_ms is None else since_ms
    since, for_ms = iso_time(since_ms), max(at_ms - since_ms, 0)
    findings = []
    if severity is not None:
        findings = [
            JobFinding(
                kind=kind,
                severity=severity,
                what=what,
                what_to_do=what_to_do,
                since_ms=since_ms,
                since=since,
                for_ms=for_ms,
            )
        ]
    state = HealthState.HEALTHY if severity is None else severity.state
    return JobHealth(
        state=state, since_ms=since_ms, since=since, for_ms=for_ms, at_ms=at_ms, findings=findings
    )
