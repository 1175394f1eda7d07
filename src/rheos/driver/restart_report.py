"""Says that a job restarts, and why, however it was started."""

from __future__ import annotations

import logging

from rheos.job import JobState, JobStatus

LOGGER = logging.getLogger("rheos")
"""Python prints its warnings to stderr, in a script as in a notebook, unless the program has set up
logging otherwise."""


class RestartReport:
    """Of one job. A cause is given in full once; where it comes again, its first line says so."""

    def __init__(self) -> None:
        self._restarts = 0
        self._cause: str | None = None

    def heard(self, status: JobStatus) -> None:
        """Called with each status."""
        if status.restarts <= self._restarts or status.state is JobState.FAILED:
            return  # What a job ends by is its error.
        self._restarts = status.restarts
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
        )


def _nth(number: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ends.get(number % 10, 'th')}"
