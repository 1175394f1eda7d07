"""The event log of a job as files next to its log, for later drivers and for commands.

    <job>/events/0001700000000000-1f2e3d4c.json      up to 100 events of one driver, from that time on

Each file is sealed and written whole, and is rewritten when its events change. Each driver writes its
own files. Nothing else in the job depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from rheos.core.errors import UnrestorableError
from rheos.core.metrics.event_log import MAX_EVENTS, JobEvent
from rheos.core.metrics.job_files import decode_file, sealed_file
from rheos.core.protocol.ports import Store
from rheos.core.protocol.sealed_files import SealedFileKind

FORMAT = 1
FILE_EVENTS = 100
MAX_FILES = 64
"""Number of files that a job keeps; the oldest are deleted."""
MAX_BYTES = 4 * 1024 * 1024
_NAME = re.compile(r"[0-9]{16}-[0-9a-zA-Z-]{1,64}\.json")


class EventFile(msgspec.Struct, frozen=True):
    job: str
    events: list[JobEvent]
    """Events of the file, oldest first."""


_decoder = msgspec.json.Decoder(EventFile)


def events_folder(job_folder: str) -> str:
    return f"{job_folder}/events"


def event_file_path(folder: str, driver: str, first_ms: int) -> str:
    """Return the path of a file. `driver` is unique to the driver that writes it."""
    return f"{folder}/{max(first_ms, 0):016d}-{driver}.json"


def encode_events(path: str, job: str, events: Sequence[JobEvent]) -> bytes:
    return _sealed(path).seal(msgspec.json.encode(EventFile(job, list(events))), FORMAT)


def decode_events(path: str, data: bytes, job: str) -> list[JobEvent]:
    """Return the events of a file.

    Raises:
        UnrestorableError: the file is damaged, or belongs to another job.
    """
    return decode_file(_sealed(path), data, _decoder, job, MAX_BYTES).events


def read_events(store: Store, folder: str, job: str) -> list[JobEvent]:
    """Return the newest events of all drivers, at most `MAX_EVENTS`, oldest first. Skip damaged files.

    Raises:
        OSError: the folder cannot be listed.
    """
    files: list[list[JobEvent]] = []
    for path in reversed(_select_event_files(store.list(folder))):
        if sum(map(len, files)) >= MAX_EVENTS:
            break
        try:
            files.append(decode_events(path, store.get(path), job))
        except (OSError, UnrestorableError):
            continue
    return [event for events in reversed(files) for event in events][-MAX_EVENTS:]


def stale_files(paths: Iterable[str]) -> list[str]:
    """Return the files beyond the maximum number, oldest first."""
    own = _select_event_files(paths)
    return own[: max(len(own) - MAX_FILES, 0)]


def _select_event_files(paths: Iterable[str]) -> list[str]:
    return sorted(path for path in paths if _NAME.fullmatch(path.rpartition("/")[2]))


def _sealed(path: str) -> SealedFileKind:
    return sealed_file(f"the event log {path}", "events", FORMAT)
