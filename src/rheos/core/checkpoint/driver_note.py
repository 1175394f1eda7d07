"""A note next to the log that names the driver of the job, and the decisions that follow from it.

    <job>/driver.json     the driver that runs the job; renewed every few seconds, and released
                          at the end, with the job's outcome

The note is only a courtesy: a user who starts a job twice gets an error at once, before anything is
claimed. If two drivers both find the job free, the log decides between them (CP2, CP24).
"""

from __future__ import annotations

import zlib
from enum import Enum

import msgspec

from rheos.core.checkpoint.events import Outcome
from rheos.core.checkpoint.names import safe_name
from rheos.core.protocol.ids import JobId

RENEW_MS = 3_000
WATCH_MS = 7_000
"""Two renewals, and a slow store."""


class DriverNote(msgspec.Struct, frozen=True, kw_only=True):
    """The driver that runs the job."""

    owner: str
    """Unique to the driver and the job."""
    driver: str
    """For display: its process and host."""
    process: msgspec.Raw = msgspec.Raw(b"null")
    """Identifies the process on its own host, to check whether it still lives."""
    since_ms: int
    """Wall-clock time of its host, ms since the epoch."""
    renewals: int = 0
    """Grows while the driver lives. A count and no time: clocks of two hosts do not agree."""
    renewed_ms: int = 0
    """Wall-clock time of the newest renewal on its host, ms since the epoch: for people alone. 0 in a
    note of 0.1.0."""
    job: str = ""
    """Whose note it is. Empty in one that 0.1.0 wrote."""
    crc32: int | None = None
    """Checksum of the note without this field. None in a note of 0.1.0."""
    released: bool = False
    """The driver no longer runs the job."""
    outcome: Outcome | None = None
    """Outcome of the job. If it is None and the note is released, the driver failed, and the job has
    not ended."""


def encode_note(note: DriverNote) -> bytes:
    """With its checksum; drivers of 0.1.0 read it, too."""
    plain = msgspec.json.encode(msgspec.structs.replace(note, crc32=None))
    return msgspec.json.encode(msgspec.structs.replace(note, crc32=zlib.crc32(plain)))


def decode_note(data: bytes, job: JobId) -> DriverNote:
    """A note without an owner, where it is not as it was written, or is another job's: a driver that
    lives renews it soon."""
    unreadable = DriverNote(owner="", driver="a driver whose note is damaged", since_ms=0)
    try:
        note = msgspec.json.decode(data, type=DriverNote)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return unreadable
    if note.crc32 is None and not note.job:
        return note
    plain = msgspec.json.encode(msgspec.structs.replace(note, crc32=None))
    return note if note.crc32 == zlib.crc32(plain) and note.job == job else unreadable


class Driver(Enum):
    """State of the driver's process, as far as it is known."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


class NoteVerdict(Enum):
    FREE = "free"
    IN_USE = "in use"
    WATCH = "undecided: check again"


def note_path(job: JobId) -> str:
    return f"{safe_name(job)}/driver.json"


def decide(
    first: DriverNote | None, latest: DriverNote | None, driver: Driver, watched_ms: int
) -> NoteVerdict:
    """May the job be taken, by what was found first and after watching for `watched_ms`?

    `driver` is the process of `latest`. A driver that cannot be looked at lives as long as it renews
    its note, or another has written one meanwhile.
    """
    if latest is None or latest.released or driver is Driver.DEAD:
        return NoteVerdict.FREE
    if driver is Driver.ALIVE:
        return NoteVerdict.IN_USE
    if first is None or (first.owner, first.renewals) != (latest.owner, latest.renewals):
        return NoteVerdict.IN_USE
    return NoteVerdict.FREE if watched_ms >= WATCH_MS else NoteVerdict.WATCH
