"""A note next to the log that names the driver of the job, and the decisions based on it.

    <job>/driver.json     the driver that runs the job; renewed every few seconds, and released
                          at the end, with the job's outcome

The note is not needed for correctness. Its purpose is that a user who starts a job twice gets an error
at once, before anything is claimed. If two drivers both find the job free, the log decides between them
(CP2, CP24).
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
"""Time for which a note is watched: two renewals, with reserve for a slow store."""


class DriverNote(msgspec.Struct, frozen=True, kw_only=True):
    """A note about the driver that runs the job."""

    owner: str
    """Id that is unique to the driver and the job."""
    driver: str
    """Process and host of the driver, for display."""
    process: msgspec.Raw = msgspec.Raw(b"null")
    """Identity of the process on its own host, to check whether it is still running."""
    since_ms: int
    """Start of the driver by its host's wall clock, ms since the epoch."""
    renewals: int = 0
    """Number of renewals so far. Not a time, because the clocks of two hosts differ."""
    renewed_ms: int = 0
    """Wall-clock time of the newest renewal on its host, ms since the epoch. Only for display. 0 in a
    note of 0.1.0."""
    job: str = ""
    """Job of the note. Empty in a note of 0.1.0."""
    crc32: int | None = None
    """Checksum of the note without this field. None in a note of 0.1.0."""
    released: bool = False
    """Whether the driver no longer runs the job."""
    outcome: Outcome | None = None
    """Outcome of the job. None in a released note: the driver failed, and the job has not ended."""


def encode_note(note: DriverNote) -> bytes:
    """Return the note's bytes with its checksum. Drivers of 0.1.0 can read it, too."""
    plain = msgspec.json.encode(msgspec.structs.replace(note, crc32=None))
    return msgspec.json.encode(msgspec.structs.replace(note, crc32=zlib.crc32(plain)))


def decode_note(data: bytes, job: JobId) -> DriverNote:
    """Decode a note. If it is damaged, or belongs to another job, return a note without an owner: a
    driver that is alive renews its note soon."""
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
    """Decide whether a driver may take the job, from the notes found first and after `watched_ms`.

    `driver` is the process of `latest`. If its state is unknown, the driver counts as alive if it
    renews its note, or if another driver has written one in the meantime.
    """
    if latest is None or latest.released or driver is Driver.DEAD:
        return NoteVerdict.FREE
    if driver is Driver.ALIVE:
        return NoteVerdict.IN_USE
    if first is None or (first.owner, first.renewals) != (latest.owner, latest.renewals):
        return NoteVerdict.IN_USE
    return NoteVerdict.FREE if watched_ms >= WATCH_MS else NoteVerdict.WATCH
