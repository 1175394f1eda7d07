"""The job runs, and has restarted within the last hour."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.health.check import HealthCheck
from rheos.health.moment import Detected, JobMoment, number, span, times
from rheos.observe import figures as f
from rheos.observe.health import Severity

RECENT_US = 120_000_000
AGAIN_AND_AGAIN = 3
AGAIN_WITHIN_US = 600_000_000


def _find(seen: JobMoment) -> Iterator[Detected]:
    if not seen.runs or not seen.restarts_us:
        return
    newest_us, count = seen.restarts_us[-1], len(seen.restarts_us)
    close = sum(seen.now_us - each < AGAIN_WITHIN_US for each in seen.restarts_us)
    if close >= AGAIN_AND_AGAIN:
        severity = Severity.FAILING
    elif seen.now_us - newest_us < RECENT_US:
        severity = Severity.DEGRADED
    else:
        severity = Severity.NOTE
    by_cause = sorted((r.at[0], number(r)) for r in seen.of(f.RESTARTS))
    counted = ", ".join(f"{cause} {total:,.0f} times" for cause, total in by_cause)
    last = (seen.status.failure or "unknown").splitlines()[0]
    ago = span((seen.now_us - newest_us) / 1000)
    yield Detected(
        severity=severity,
        what=f"the job has restarted {times(count)} in the last hour, the last time {ago} ago, and "
        f"runs again. The last cause: {last}" + (f" (so far: {counted})" if counted else ""),
        what_to_do="the whole error with the line, the record and what to do is in `rheos logs`",
        for_ms=(seen.now_us - seen.restarts_us[0]) / 1000,
    )


DECLARED = HealthCheck(
    find=_find,
    means="the job has restarted within the last hour. Failing from three restarts in ten minutes on, "
    "degraded for two minutes after one, a note for the rest of the hour",
    cause="a worker or its machine was lost, an error was tried again, or a server was away for longer "
    "than its sink waits",
    remedy="look at the cause; where it comes again and again, remove it",
)
