"""Log messages of the driver: causes of restarts, changes of state, and the workers' log records."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from rheos.core.protocol.control import Logged
from rheos.core.protocol.ids import JobId, OperatorId
from rheos.core.protocol.log_lines import MAX_ERROR_CHARS, MAX_MESSAGE_CHARS, LogLine
from rheos.core.redaction import redacted
from rheos.runtimes.job import JobState, JobStatus

LOGGER = logging.getLogger("rheos")
"""Logger of warnings. Python prints these to stderr unless the program has configured logging."""


class RestartReport:
    """A logger of one job's restarts. It logs a cause in full once; if the cause recurs, only its first
    line."""

    def __init__(self) -> None:
        self._restarts = 0
        self._cause: str | None = None
        self._state: JobState | None = None
        self._checkpoints_failed = 0

    def heard(self, status: JobStatus) -> None:
        """Log what has changed since the last call. Called with each status."""
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
        cause = status.failure or "unknown cause"
        again = "again, " if cause == self._cause else ""
        summary = cause.splitlines()[0] if again else cause
        self._cause = cause
        LOGGER.warning(
            "the job %r restarts (%sfor the %s time): %s",
            status.name,
            again,
            _nth(status.restarts),
            summary,
            extra=of_job,
        )


def _nth(number: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ends.get(number % 10, 'th')}"


# --- records of the workers ---------------------------------------------------------------------------


JOBS = logging.getLogger("rheos.job")
"""Logger of jobs and their workers. Its records go only to the logs of jobs (`control.job_logs`), not
to the handlers that the program has configured in this process."""
JOBS.propagate = False
JOBS.addHandler(logging.NullHandler())
JOBS.setLevel(logging.DEBUG)


def pass_on(message: Logged, job: JobId, names: Mapping[OperatorId, str]) -> None:
    """Log a worker's message in the driver. `names` maps ids of the job's operators to names."""
    for line in message.lines:
        JOBS.handle(_record(line, message, job, names))
    if message.dropped:
        summary = f"{message.dropped} lines were dropped, because they were logged too fast"
        of_job = {"job": job, "attempt": message.attempt, "subtask": message.subtask}
        JOBS.warning("%s", summary, extra=of_job)


def _record(
    line: LogLine, message: Logged, job: JobId, names: Mapping[OperatorId, str]
) -> logging.LogRecord:
    text = redacted(line.message[:MAX_MESSAGE_CHARS])
    record = logging.LogRecord(line.logger, line.level, "", 0, text, None, None)
    record.created = line.at_ms / 1000
    record.exc_text = redacted(line.error[-MAX_ERROR_CHARS:]) or None
    record.__dict__.update(
        job=job,
        attempt=message.attempt,
        subtask=message.subtask,
        operator=names.get(OperatorId(line.operator)) if line.operator is not None else None,
    )
    return record
