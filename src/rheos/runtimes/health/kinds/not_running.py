"""The job does not run just now: it starts, or is to be tried again."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics.health import Severity
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import FOR, Detected, JobMoment
from rheos.runtimes.job import JobState

FAILING_AFTER_MS = 60_000


def _find(seen: JobMoment) -> Iterator[Detected]:
    status, for_ms = seen.status, (seen.now_us - seen.state_us) / 1000
    waits = status.state is JobState.RESTARTING
    if not waits and (status.state is not JobState.STARTING or for_ms < FAILING_AFTER_MS):
        return
    cause = f": {status.failure.splitlines()[0]}" if status.failure else ""
    state = "does not run, and is started again" if waits else "has not started"
    yield Detected(
        severity=Severity.FAILING if for_ms >= FAILING_AFTER_MS else Severity.DEGRADED,
        what=f"the job {state}, for {FOR}{cause}",
        what_to_do="are there free slots, and do the servers answer that the job needs at its start? "
        "`rheos logs` has each try",
        for_ms=for_ms,
    )


DECLARED = HealthCheck(
    find=_find,
    means="the job is between two attempts, or has not started within 60 s; failing after 60 s",
    cause="a restart or a rescale is under way; slots are missing; a server that the job needs at its "
    "start does not answer",
    remedy="add the missing slots to the cluster, or start the server",
)
