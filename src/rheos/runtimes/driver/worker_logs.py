"""Passes the log records of a job's workers to the driver's own logging, under one logger."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from rheos.core.protocol.control import Logged
from rheos.core.protocol.ids import JobId, OperatorId
from rheos.core.protocol.log_lines import MAX_ERROR_CHARS, MAX_MESSAGE_CHARS, LogLine
from rheos.core.redaction import redacted

JOBS = logging.getLogger("rheos.job")
"""Logger of jobs and their workers. Its records go only to the logs of jobs (`control.job_logs`), not
to the handlers that the program has configured in this process."""
JOBS.propagate = False
JOBS.addHandler(logging.NullHandler())
JOBS.setLevel(logging.DEBUG)


def pass_on(message: Logged, job: JobId, names: Mapping[OperatorId, str]) -> None:
    """`names` are those of the job's operators, by id."""
    for line in message.lines:
        JOBS.handle(_record(line, message, job, names))
    if message.dropped:
        said = f"{message.dropped} lines were logged faster than they are kept, and are left out"
        of_job = {"job": job, "attempt": message.attempt, "subtask": message.subtask}
        JOBS.warning("%s", said, extra=of_job)


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
