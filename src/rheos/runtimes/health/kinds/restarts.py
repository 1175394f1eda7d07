"""The job runs, and has restarted within the last hour."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import Severity
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import Detected, JobMoment, number, span, times

RECENT_US = 120_000_000
"""Time after a restart in which the job is degraded."""
STREAK_RESTARTS = 3
STREAK_GAP_US = 120_000_000
"""Longest time between two restarts of one streak."""
STREAK_US = 30_000_000
"""How long a streak lasts until the job counts as failing: a short outage restarts it several times."""
STREAK_OVER_US = 60_000_000


def _find(seen: JobMoment) -> Iterator[Detected]:
    if not seen.runs or not seen.restarts_us:
        return
    newest_us, count = seen.restarts_us[-1], len(seen.restarts_us)
    if _is_again_and_again(seen):
        severity = Severity.FAILING
    elif seen.now_us - newest_us < RECENT_US:
        severity = Severity.DEGRADED
    else:
        severity = Severity.NOTE
    by_cause = sorted((r.at[0], number(r)) for r in seen.of(f.RESTARTS))
    counted = ", ".join(f"{cause} {total:,.0f} times" for cause, total in by_cause)
    last = (seen.status.failure or seen.earlier_cause or "unknown").splitlines()[0]
    ago = span((seen.now_us - newest_us) / 1000)
    yield Detected(
        severity=severity,
        what=f"the job has restarted {times(count)} in the last hour, the last time {ago} ago, and "
        f"runs again. The last cause: {last}" + (f" (so far: {counted})" if counted else ""),
        what_to_do="the whole error with the line, the record and what to do is in `rheos logs`",
        for_ms=(seen.now_us - seen.restarts_us[0]) / 1000,
    )


def _is_again_and_again(seen: JobMoment) -> bool:
    """Return whether the newest restarts are a streak that goes on."""
    streak = [seen.restarts_us[-1]]
    for each in reversed(seen.restarts_us[:-1]):
        if streak[-1] - each > STREAK_GAP_US:
            break
        streak.append(each)
    lasts_us = streak[0] - streak[-1]
    goes_on = seen.now_us - streak[0] < STREAK_OVER_US
    return goes_on and len(streak) >= STREAK_RESTARTS and lasts_us >= STREAK_US


DECLARED = HealthCheck(
    find=_find,
    means="the job has restarted, or was taken over by another driver, within the last "
    "hour. Failing while it restarts again and again, for 30 s and longer; degraded for two "
    "minutes after a restart; then a note",
    cause="a worker or its machine was lost, an error was tried again, or a server was away for longer "
    "than its sink waits",
    remedy="look at the cause; where it comes again and again, remove it",
)
