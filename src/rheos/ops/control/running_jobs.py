"""Running jobs by the names that users pass to commands, on this machine or by checkpoint directory."""

from __future__ import annotations

from rheos.connectors.urls import absolute
from rheos.core.checkpoint.driver_note import Driver, DriverNote
from rheos.core.errors import ConfigurationError, TransportError
from rheos.core.protocol.ids import JobId, job_slug
from rheos.core.redaction import redacted
from rheos.ops.control.driver_note import driver_of, process_of
from rheos.ops.control.job_list import stored_jobs
from rheos.ops.control.mailbox import driver_in, runs
from rheos.ops.control.registry import JobRecord, Registry, find_job
from rheos.runtimes.host.stores import folder_exists, open_store
from rheos.runtimes.job import job_key


def find_running(wanted: str) -> JobRecord:
    """Return the running job that `wanted` names as in `find_job`. `JOB@DIRECTORY` also names a job
    whose driver runs on another host, by its checkpoint directory.

    Raises:
        ConfigurationError: no job fits, or several do.
        TransportError: the directory cannot be read.
    """
    try:
        return find_job(wanted, Registry().records())
    except ConfigurationError:
        for at, letter in enumerate(wanted):
            directory = wanted[at + 1 :]
            if letter == "@" and at and directory and folder_exists(absolute(directory)):
                return _in_directory(wanted[:at], absolute(directory))
        raise


def find_to_look_at(wanted: str) -> JobRecord:
    """Return a running job, for commands that could also read a stored one. Raise ConfigurationError,
    which names the option for stored jobs."""
    try:
        return find_running(wanted)
    except ConfigurationError as error:
        error.hint = f"for a job that is not running, pass --checkpoint-dir; {error.hint}"
        raise


def running_in(directory: str) -> list[JobRecord]:
    """Return the running jobs of a checkpoint directory, wherever their drivers run. Raise the same
    errors as `stored_jobs`."""
    found = ((job, _note(job, directory)) for job in stored_jobs(directory))
    return [_record(job, note, directory) for job, note in found if note is not None and _lives(note)]


def is_gone(record: JobRecord) -> bool:
    """Return whether a job is no longer registered, so that it may be started again."""
    if record.directory is None:
        return record.file_name not in {running.file_name for running in Registry().records()}
    note = driver_in(open_store(record.directory, make=False), record.job)
    return not runs(note, record.driver)


def _in_directory(wanted: str, directory: str) -> JobRecord:
    for job in (JobId(wanted), job_slug(wanted)):
        note = _note(job, directory)
        if note is not None and _lives(note):
            return _record(job, note, directory)
        if note is not None:
            outcome = "" if note.outcome is None else f" ({note.outcome.value})"
            raise ConfigurationError(
                f"no driver runs the job {job!r} in {redacted(directory)}: "
                f"{note.driver} has ended{outcome}",
                hint="start it again, or pass --checkpoint-dir to a command that reads stored data",
            )
    jobs = ", ".join(stored_jobs(directory))
    raise ConfigurationError(
        f"no job {wanted!r} in {redacted(directory)}",
        hint=f"its jobs are: {jobs}" if jobs else "pass the checkpoint directory of a job",
    )


def _note(job: JobId, directory: str) -> DriverNote | None:
    try:
        return driver_in(open_store(directory, make=False), job)
    except OSError as error:
        raise TransportError(f"{redacted(directory)} could not be read: {error}") from error


def _lives(note: DriverNote) -> bool:
    return not note.released and driver_of(note) is not Driver.DEAD


def _record(job: JobId, note: DriverNote, directory: str) -> JobRecord:
    process = process_of(note)
    if process is None:
        raise TransportError(
            f"the note of the driver of the job {job!r} in {redacted(directory)} is damaged",
            hint="try again in a few seconds: a driver that runs writes it again",
        )
    return JobRecord(
        key=job_key(job, directory),
        driver=note.owner,
        job=job,
        name=job,
        process=process,
        runtime="continuous",
        checkpoint_dir=redacted(directory),
        started_ms=note.since_ms,
        endpoint="",
        token="",
        directory=directory,
    )
