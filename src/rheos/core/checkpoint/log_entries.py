"""Entries of a job's log, and their file format.

    {"format": 3, "crc32": 3735928559, "entry": {"place": {...}, "entry": {...}}}

The checksum covers the place: the job, the log and the number for which the entry was written (CP31),
and which earlier entries may be missing (CP42).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec

from rheos.core.protocol.control import CommittableHandle, Cost, Totals
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.sealed_files import SealedFileKind
from rheos.core.protocol.shapes import StateShape, TypeShape
from rheos.core.protocol.snapshots import StateHandle
from rheos.core.redaction import redacted

FORMAT = 3
"""Format of new entries. Older formats can be read: format 1, of 0.1.0, has no place; the place of
format 2 has no floor, because entries were never deleted then."""

COMPACTED = 3
"""First format whose writers check that the log has not continued without them (CP44). Entries of older
formats are never deleted."""


class Origin(msgspec.Struct, frozen=True):
    """The savepoint from which a job was started."""

    id: str
    directory: str
    """Directory as the user gave it; the job uses it to open the savepoint."""

    def __repr__(self) -> str:
        return redacted(f"Origin(id={self.id!r}, directory={self.directory!r})")


class Rescaled(msgspec.Struct, frozen=True):
    """The parallelism that a command gave a running job."""

    parallelism: int
    instead_of: int
    """Parallelism with which the program was started. If a later start has another one, this change no
    longer applies."""


class JobCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts of the job over all its drivers."""

    drivers: int = 0
    """Number of drivers that have claimed an attempt."""
    restarts: int = 0
    completed: int = 0
    """Number of checkpoints in the log, including those that retention has dropped."""
    failed: int = 0
    """Number of aborted checkpoints."""


class Entry(msgspec.Struct, frozen=True, tag=True, kw_only=True, omit_defaults=True):
    attempt: Attempt
    owner: str
    """Driver that wrote the entry. A driver uses it to tell its own entry from another driver's with
    the same content."""
    reserved_to: CheckpointId
    """Upper bound of the checkpoint ids that were used before the next entry was written (CP4)."""
    origin: Origin | None = None
    """Savepoint that the job's state originates from. Earlier checkpoints no longer count (CP17)."""
    rescaled: Rescaled | None = None
    """Change of the parallelism, copied from entry to entry for every later driver (CP40)."""
    counts: JobCounts = JobCounts()
    """Counts of the job when this entry was written; copied from entry to entry."""


class AttemptStarted(Entry, frozen=True):
    """The claim of an attempt: from now on, only `attempt` may add entries."""

    from_checkpoint: CheckpointId | None
    parallelism: int
    completed: list[int]
    """Numbers of the entries whose checkpoints were retained at that time, oldest first. So a reader
    need not read the claims of a job that failed many times."""


class CheckpointCompleted(Entry, frozen=True):
    """A checkpoint that exists: all its state is written, and its committables may be committed."""

    checkpoint: CheckpointId
    final: bool
    """Whether all input has ended and is included: nothing is left to run, only to commit."""
    parallelism: int
    max_parallelism: int
    operators: dict[OperatorId, str]
    """Names of all operators of the plan."""
    handles: list[StateHandle]
    committables: list[CommittableHandle]
    totals: Totals = Totals()
    """Totals of the job at the barrier, since its beginning."""
    states: dict[OperatorId, dict[str, StateShape]] = {}
    """Shape of each state, as the program declared it."""
    targets: dict[OperatorId, TypeShape] = {}
    """Columns of the sinks' targets at that time, if the sinks do not own these."""
    cost: Cost = Cost()
    duration_ms: int = 0
    """Time from the trigger to the last acknowledgement."""
    completed_ms: int = 0
    """Wall-clock time, ms since the epoch."""
    savepoint: str = ""
    """Directory of the savepoint requested with it. The savepoint exists once its manifest does."""
    kept: list[int] | None = None
    """Numbers of the entries whose checkpoints are retained in addition to this one, oldest first. None
    in formats before 3: readers find them entry by entry."""
    widths: dict[OperatorId, int] = {}
    """Number of subtasks with rows, for the operators that were narrower than the job."""
    successor: str | None = None
    """Owner of the driver to which the job is handed over with this checkpoint (UP1); None if its own
    driver continues."""
    dropped: bool = False
    """Whether retention has dropped the checkpoint. Then the entry contains only its number."""

    def width(self, operator: OperatorId) -> int:
        """Return the number of subtasks in which the operator had rows."""
        return min(self.widths.get(operator, self.parallelism), self.parallelism)

    def tombstone(self) -> CheckpointCompleted:
        return msgspec.structs.replace(
            self,
            handles=[],
            committables=[],
            operators={},
            widths={},
            totals=Totals(),
            states={},
            targets={},
            dropped=True,
        )


class JobFinished(Entry, frozen=True):
    """The end of a job: the final checkpoint is committed everywhere. No entry follows."""

    checkpoint: CheckpointId
    kept: list[int] | None = None
    """Numbers of the entries whose checkpoints are retained, oldest first. None in formats before 3."""


LogEntry: TypeAlias = AttemptStarted | CheckpointCompleted | JobFinished


@dataclass(frozen=True, slots=True)
class NumberedCheckpoint:
    """A checkpoint with the number of its entry."""

    number: int
    entry: CheckpointCompleted


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """The log and the number of an entry (CP31)."""

    job: JobId
    log: str
    """Identity of the log: the writer of its first entry. Copied directories have the same identity."""
    number: int
    floor: int = 1
    """Compaction may have deleted entries below this number (CP42)."""
    since: int = 1
    """Number of the log's first entry of format 3 or later. Compaction deletes neither that entry nor
    any before it."""


class StoredEntry(NamedTuple):
    """An entry as stored in its file."""

    entry: LogEntry
    format: int
    place: Place | None
    """Place that is stored in the entry; None in format 1, which stores none."""


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    """The checksummed part of an entry, from format 2 on. Format 1 only checks the entry."""

    place: Place
    entry: LogEntry


_entry_decoder: msgspec.json.Decoder[LogEntry] = msgspec.json.Decoder(LogEntry)
_body_decoder: msgspec.json.Decoder[_Body] = msgspec.json.Decoder(_Body)


def _sealed(path: str) -> SealedFileKind:
    return SealedFileKind(
        what=f"the log entry {path}",
        key="entry",
        newest=FORMAT,
        if_damaged=IF_DAMAGED,
        if_later="continue the job with the version of rheos that wrote it, or a later one",
    )


IF_DAMAGED = (
    "restore the file from a copy: without it the job cannot be resumed safely. Or start over "
    "in another checkpoint directory, from a savepoint if one exists"
)


def encode_entry(entry: LogEntry, place: Place | None, format: int = FORMAT) -> bytes:
    """Return the bytes of an entry's file. If `place` is None, write format 1.

    Raise CheckpointError if the entry is too large to be read back.
    """
    if place is None:
        return _sealed("").seal(msgspec.json.encode(entry), 1)
    body = msgspec.json.encode(_Body(place=place, entry=entry))
    return _sealed(str(place.number)).seal(body, format)


def decode_entry(data: bytes, path: str) -> StoredEntry:
    """Decode an entry's file. Raise UnrestorableError, with `path`, if the bytes are not a complete
    entry of a known format.

    Only the log can check whether the entry belongs there.
    """
    sealed = _sealed(path)
    format, content = sealed.open(data)
    if format == 1:
        return StoredEntry(sealed.decoded(content, _entry_decoder), 1, None)
    body = sealed.decoded(content, _body_decoder)
    return StoredEntry(body.entry, format, body.place)
