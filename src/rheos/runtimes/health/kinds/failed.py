"""The job has failed: nothing restarts it."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics.health import Severity
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import Detected, JobMoment
from rheos.runtimes.job import JobState

WHAT_TO_DO = (
    "the whole error, with the line, the record and what to do, is in `rheos logs`. Remove the cause "
    "and start the job again: it resumes from its newest checkpoint"
)


def _find(seen: JobMoment) -> Iterator[Detected]:
    if seen.status.state is JobState.FAILED:
        yield Detected(
            severity=Severity.FAILING,
            what=f"the job has failed: {(seen.status.failure or 'unknown').splitlines()[0]}",
            what_to_do=WHAT_TO_DO,
            for_ms=(seen.now_us - seen.state_us) / 1000,
        )


DECLARED = HealthCheck(
    find=_find,
    means="the job has ended with an error, and its restart strategy does not start it again",
    cause="an error of a function or of the data, or more failures than the restart strategy allows",
    remedy="remove the cause that the error names, and start the job again",
)
