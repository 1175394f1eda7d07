"""Reports that a job restarts, with the cause, and writes its other changes of state to its log."""

from __future__ import annotations

import logging

from rheos.runtimes.driver.worker_logs import JOBS
from rheos.runtimes.job import JobState, JobStatus

LOGGER = logging.getLogger("rheos")
"""Python prints its warnings to stderr, in a script as in a notebook, unless the program has set up
logging otherwise."""


class RestartReport:
    """Reports the restarts of one job. A cause is printed in full once; if it recurs, only its first
    line is printed."""

    def __init__(self) -> None:
        self._restarts = 0
        self._cause: str | None = None
        self._state: JobState | None = None
        self._checkpoints_failed = 0

    def heard(self, status: JobStatus) -> None:
        """Called with each status."""
        restarts = status.restarts - status.earlier.restarts
        checkpoints_failed = status.checkpoints_failed - status.earlier.failed
        of_job = {"job": status.job, "attempt": status.attempt}
        if checkpoints_failed > self._checkpoints_failed:
            self._checkpoints_failed = checkpoints_failed
            JOBS.warning(
                "a checkpoint has failed (%d so far): %s",
                status.checkpoints_failed,
                status.checkpoint_failure or "its attempt has ended",
                extra=of_job,
            )
        if status.state is not self._state:
            self._state = status.state
            if status.state is JobState.FAILED:
                JOBS.error("the job %r has failed: %s", status.name, status.failure, extra=of_job)
            else:
                JOBS.info("the job %r is %s", status.name, status.state.value, extra=of_job)
        if restarts <= self._restarts or status.state is JobState.FAILED:
            return  # The error that ends a job is reported elsewhere.
        self._restarts = restarts
        cause = status.failure or "no cause is known"
        again = "again, " if cause == self._cause else ""
        said = cause.splitlines()[0] if again else cause
        self._cause = cause
        LOGGER.warning(
            "the job %r restarts (%sfor the %s time): %s",
            status.name,
            again,
            _nth(status.restarts),
            said,
            extra=of_job,
        )


def _nth(number: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ends.get(number % 10, 'th')}"
