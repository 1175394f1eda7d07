"""The jobs of this user on this machine: running ones, and ended ones with their outcome."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from rheos.core.checkpoint.names import safe_name
from rheos.core.errors import ConfigurationError
from rheos.core.metrics.event_log import JobEvent
from rheos.core.protocol.ids import JobId, JobKey
from rheos.core.redaction import redacted
from rheos.ops.control.private_files import write_privately
from rheos.ops.control.processes import Liveness, ProcessId, liveness
from rheos.ops.control.started_program import StartedProgram
from rheos.runtimes.host.io import SystemClock

_SUFFIX = ".json"


class _DrivenJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of one driver on this machine."""

    key: JobKey
    """Identity of the job, which all of its drivers share."""
    job: JobId
    name: str
    process: ProcessId
    """Process of the driver."""
    runtime: str
    checkpoint_dir: str | None
    """Directory without credentials. None: the checkpoints are removed when the job ends."""
    started_ms: int
    """Wall-clock time in ms since the epoch."""
    program: StartedProgram | None = None
    """The program; None if it is not a file, or the driver's version does not record it."""


# --- jobs that have ended -----------------------------------------------------------------------------


MAX_ENDED = 50
MAX_ENDED_EVENTS = 100
"""Maximum number of events that are kept of each job."""
LOST = "lost"
"""State of a job whose driver has died, and has not been started again."""
_MAX_BYTES = 1 << 20


class EndedJob(_DrivenJob, frozen=True, kw_only=True):
    ended_ms: int
    """Wall-clock time in ms since the epoch. For a lost job, the time when that was noticed."""
    log: str | None
    state: str
    """Value of a `JobState`, or `LOST`."""
    failure: str | None
    """Error that ended the job, as `rheos run` prints it."""
    events: list[JobEvent] = []
    """The newest events of its event log, the newest first. They are shown if the job's checkpoint
    directory is gone, or cannot be read from here."""


class EndedJobs:
    """A folder with a file for each job: its end under the newest driver."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, ended: EndedJob) -> None:
        """Store the end of a job under a driver. An earlier driver, found dead later, changes nothing.

        Raises:
            OSError: the folder cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        known = self.newest_first()
        if any(each.key == ended.key and each.started_ms > ended.started_ms for each in known):
            return
        write_privately(self._path(ended), msgspec.json.encode(ended))
        for older in self.newest_first()[MAX_ENDED:]:
            self._path(older).unlink(missing_ok=True)

    def newest_first(self) -> list[EndedJob]:
        """Return the ended jobs. Unreadable files are skipped: they may be of another version."""
        found = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            try:
                if path.stat().st_size <= _MAX_BYTES:
                    found.append(msgspec.json.decode(path.read_bytes(), type=EndedJob))
            except (OSError, msgspec.MsgspecError):
                continue
        return sorted(found, key=lambda ended: (ended.ended_ms, ended.key), reverse=True)

    def _path(self, ended: EndedJob) -> Path:
        return self._folder / f"{safe_name(ended.key)}{_SUFFIX}"


# --- running jobs -------------------------------------------------------------------------------------


class JobRecord(_DrivenJob, frozen=True, kw_only=True):
    """Address of a running job's driver, and the token that it accepts."""

    endpoint: str
    token: str
    log: str | None = None
    """Path of the file with its log lines; None if it keeps none."""
    stands_by: bool = False
    """Whether the driver is a standby. It accepts no commands."""
    driver: str = ""
    """Unique id of the driver's work on this job. Empty in records of 0.1.0, whose key was unique."""
    directory: str | None = None
    """Checkpoint directory through which commands reach a driver on another host; None for a driver of
    this machine. Such a record is never stored."""

    @property
    def file_name(self) -> str:
        return f"{self.driver or self.key}{_SUFFIX}"

    def __str__(self) -> str:
        """Return a short description to distinguish jobs on a screen."""
        place = self.checkpoint_dir or "no checkpoint directory"
        return f"{self.key} ({self.name!r}, {self.process}, {place})"


Known = TypeVar("Known", JobRecord, EndedJob)


def home_folder() -> Path:
    """Return this user's folder for data that outlives a command."""
    home = os.environ.get("RHEOS_HOME")
    if home:
        return Path(home).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state and os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "rheos"


def registry_folder() -> Path:
    return home_folder() / "jobs"


class Registry:
    """The folder of records. Safe for many processes: only its driver writes and removes a record,
    atomically."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = registry_folder() if folder is None else folder
        self.ended_jobs = EndedJobs(self._folder / "ended")

    def add(self, record: JobRecord) -> None:
        """Write a record. Raise OSError if the folder is not writable, or not safe for a token."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._keep_to_ourselves()
        write_privately(self._folder / record.file_name, msgspec.json.encode(record))

    def remove(self, record: JobRecord) -> None:
        with contextlib.suppress(OSError):
            (self._folder / record.file_name).unlink(missing_ok=True)

    def ended(
        self,
        record: JobRecord,
        state: str,
        failure: str | None,
        events: Sequence[JobEvent] = (),
    ) -> None:
        """Remove the record, and store the end of the job if possible. `events` is its event log, the
        newest first."""
        with contextlib.suppress(OSError):
            self.ended_jobs.add(
                EndedJob(
                    key=record.key,
                    job=record.job,
                    name=record.name,
                    process=record.process,
                    runtime=record.runtime,
                    checkpoint_dir=record.checkpoint_dir,
                    started_ms=record.started_ms,
                    ended_ms=SystemClock().now_ms(),
                    log=record.log,
                    state=state,
                    failure=failure,
                    program=record.program,
                    events=list(events[:MAX_ENDED_EVENTS]),
                )
            )
        self.remove(record)

    def records(self) -> list[JobRecord]:
        """Return the records of running jobs, and of jobs on other hosts whose state is unknown; oldest
        first. Records of drivers that have died are removed: their jobs have ended. Unreadable files
        are skipped: they may be of another version."""
        found = []
        try:
            paths = sorted(self._folder.glob(f"*{_SUFFIX}"))
        except OSError:
            paths = []
        for path in paths:
            try:
                record = msgspec.json.decode(path.read_bytes(), type=JobRecord)
            except (OSError, msgspec.MsgspecError):
                continue
            if liveness(record.process) is Liveness.DEAD:
                if record.stands_by:
                    self.remove(record)
                else:
                    self.ended(record, LOST, None)
            else:
                found.append(record)
        return sorted(found, key=lambda record: (record.started_ms, record.file_name))

    def _keep_to_ourselves(self) -> None:
        if os.name != "posix":
            return
        facts = self._folder.stat()
        if facts.st_uid != os.getuid():
            raise PermissionError(f"{self._folder} belongs to another user")
        if facts.st_mode & 0o077:
            self._folder.chmod(0o700)


def find_job(wanted: str, records: Sequence[JobRecord]) -> JobRecord:
    """Return the running job that `wanted` names.

    `wanted` is a key, an id, a name, a driver's process id, `JOB@DIRECTORY`, or the beginning of an id
    or a name. The first of these that fits any job counts. If several drivers of one job run, the
    newest is returned. Standbys are ignored.

    Raises:
        ConfigurationError: no job fits, or several do.
    """
    fitting = newest_drivers(_fitting(wanted, [record for record in records if not record.stands_by]))
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise ConfigurationError(
            f"{wanted!r} matches {len(fitting)} running jobs",
            hint="pass its key, its process id, or JOB@DIRECTORY",
            detail="\n".join(map(str, fitting)),
        )
    for waits in _fitting(wanted, [record for record in records if record.stands_by]):
        raise ConfigurationError(
            f"the job {waits.job!r} does not run here: {waits.process} is only a standby for it",
            hint="run the command where the job runs; to stop a standby driver, press Ctrl-C or "
            "send SIGTERM",
        )
    if not records:
        raise ConfigurationError(
            f"no job {wanted!r} is running: this user runs no job on this machine",
            hint="check that RHEOS_HOME and the host are those on which the job was started",
        )
    raise ConfigurationError(
        f"no job {wanted!r} is running",
        hint="pass the name of a running job",
        detail="\n".join(map(str, records)),
    )


def find_waiting(wanted: str, records: Sequence[JobRecord]) -> JobRecord | None:
    """Return the newest driver that waits for the job that `wanted` names, and that accepts commands.
    It takes part in a handover, or is kept ready. None if there is no such driver, or if a driver runs
    the job."""
    fitting = newest_drivers(_fitting(wanted, records))
    waiting = [record for record in fitting if record.stands_by and record.endpoint]
    return waiting[0] if len(waiting) == len(fitting) == 1 else None


def newest_drivers(records: Sequence[JobRecord]) -> list[JobRecord]:
    """Return one record for each job: that of the newest driver which runs it, else of a standby. A
    driver that was frozen or cut off may still run when another has taken its job over."""
    newest: dict[JobKey, JobRecord] = {}
    for record in sorted(records, key=lambda each: (not each.stands_by, each.started_ms)):
        newest[record.key] = record
    return [record for record in records if newest[record.key] is record]


def find_ended(wanted: str, registry: Registry) -> EndedJob | None:
    """Return the job that has ended here and that `wanted` names as in `find_job`; None if no job fits.

    Raises:
        ConfigurationError: several jobs fit.
    """
    fitting = _fitting(wanted, registry.ended_jobs.newest_first())
    if len({ended.key for ended in fitting}) > 1:
        raise ConfigurationError(
            f"{wanted!r} matches {len(fitting)} jobs that have ended here",
            hint="pass the key of one",
            detail="\n".join(f"{ended.key} ({ended.checkpoint_dir})" for ended in fitting),
        )
    return fitting[0] if fitting else None


def _fitting(wanted: str, records: Sequence[Known]) -> list[Known]:
    ways = [
        [r for r in records if r.key == wanted],
        [r for r in records if r.job == wanted],
        [r for r in records if r.name == wanted],
        [r for r in records if str(r.process.pid) == wanted],
        [r for r in records if _is_at(r, wanted)],
        [r for r in records if wanted and (r.job.startswith(wanted) or r.name.startswith(wanted))],
    ]
    return next((way for way in ways if way), [])


def _is_at(record: JobRecord | EndedJob, wanted: str) -> bool:
    """Return whether it is the job of this JOB@DIRECTORY. Both parts may contain an `@`."""
    place = record.checkpoint_dir
    prefix = next((f"{n}@" for n in (record.job, record.name) if wanted.startswith(f"{n}@")), None)
    if place is None or prefix is None:
        return False
    directory = wanted.removeprefix(prefix)
    return place.rstrip("/") == (
        redacted(directory) if "://" in directory else os.path.abspath(os.path.expanduser(directory))
    ).rstrip("/")
