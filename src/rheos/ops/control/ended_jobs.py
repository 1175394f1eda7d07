"""The jobs of this user that have ended here, and how: so one that has failed is found, with its error,
when its process is gone. The newest are kept."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rheos.core.checkpoint.names import safe_name
from rheos.core.metrics.event_log import JobEvent
from rheos.core.protocol.ids import JobId, JobKey
from rheos.ops.control.private_files import write_privately
from rheos.ops.control.processes import ProcessId

MAX_ENDED = 50
MAX_ENDED_EVENTS = 100
"""Number of events that are kept of each."""
LOST = "lost"
"""The state of a job whose driver has died, and has not been started again."""
_MAX_BYTES = 1 << 20
_SUFFIX = ".json"


class EndedJob(msgspec.Struct, frozen=True, kw_only=True):
    key: JobKey
    job: JobId
    name: str
    process: ProcessId
    """The driver's."""
    runtime: str
    checkpoint_dir: str | None
    """Without credentials."""
    started_ms: int
    ended_ms: int
    """Of one that was lost: when that was seen. Both are wall-clock times, ms since the epoch."""
    log: str | None
    state: str
    """That of a `JobState`, or `LOST`."""
    failure: str | None
    """What it has failed by, as `rheos run` says it."""
    events: list[JobEvent] = []
    """The newest events of its event log, the newest first; for a job whose checkpoint directory is
    gone, or cannot be read from here."""


class EndedJobs:
    """A folder with a file for each job: how its newest driver has ended it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, ended: EndedJob) -> None:
        """Keep how a driver has ended. An earlier driver of the job, found dead later, changes nothing.

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
        """Files that cannot be read are passed over: they may be of another version."""
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
