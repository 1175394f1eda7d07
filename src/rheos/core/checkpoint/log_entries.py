"""The entries of a job's log, and the files that they are.

    {"format": 3, "crc32": 3735928559, "entry": {"place": {...}, "entry": {...}}}

The checksum covers the place: the job, the log and the number that the entry was written for (CP31),
and which entries before it may be missing (CP42).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec

from rheos.core.protocol.control import CommittableHandle, Cost, Totals
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.sealed import Sealed
from rheos.core.protocol.shapes import StateShape, TypeShape
from rheos.core.protocol.snapshots import StateHandle
from rheos.core.redaction import redacted

FORMAT = 3
"""Format of new entries. Older formats are read: format 1, of 0.1.0, has no place; the place of format
2 has no floor, since nothing deleted entries then."""

COMPACTED = 3
"""First format whose writers check that the log has not gone on without them (CP44). Entries of older
formats are never deleted."""


class Origin(msgspec.Struct, frozen=True):
    """The savepoint that a job was started from."""

    id: str
    directory: str
    """As it was given: the job opens it by that."""

    def __repr__(self) -> str:
        return redacted(f"Origin(id={self.id!r}, directory={self.directory!r})")


class Rescaled(msgspec.Struct, frozen=True):
    """The width that a running job was given by command."""

    parallelism: int
    instead_of: int
    """Parallelism with which the program was started. A start with another one overrides this
    change."""


class JobCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts of the job over all its drivers."""

    drivers: int = 0
    """Number of drivers that have claimed an attempt."""
    restarts: int = 0
    completed: int = 0
    """Number of checkpoints in the log, with those that retention has dropped."""
    failed: int = 0
    """Number of checkpoints that were given up."""


class Entry(msgspec.Struct, frozen=True, tag=True, kw_only=True, omit_defaults=True):
    attempt: Attempt
    owner: str
    """The driver that wrote it. So a driver knows its own entry from another's of the same content."""
    reserved_to: CheckpointId
    """No checkpoint after this id was opened before the next entry was written (CP4)."""
    origin: Origin | None = None
    """The savepoint that the job's state comes from: checkpoints without it no longer count
    (CP17)."""
    rescaled: Rescaled | None = None
    """Carried from entry to entry, so that every later driver knows it (CP40)."""
    counts: JobCounts = JobCounts()
    """Carried from entry to entry: what the job had counted when this one was written."""


class AttemptStarted(Entry, frozen=True):
    """The claim: from here on `attempt` alone may add entries."""

    from_checkpoint: CheckpointId | None
    parallelism: int
    completed: list[int]
    """The numbers of the entries whose checkpoints were kept at that time, oldest first: a reader
    need not walk over the claims of a job that failed many times."""


class CheckpointCompleted(Entry, frozen=True):
    """The checkpoint exists: all its state is written, and what it lists may be committed."""

    checkpoint: CheckpointId
    final: bool
    """All input has ended and is in it: nothing is left to run, only to commit."""
    parallelism: int
    max_parallelism: int
    operators: dict[OperatorId, str]
    """The name of every operator of the plan."""
    handles: list[StateHandle]
    committables: list[CommittableHandle]
    totals: Totals = Totals()
    """The job's, at the barrier, from its beginning."""
    states: dict[OperatorId, dict[str, StateShape]] = {}
    """Shape of each state, as the program declared it."""
    targets: dict[OperatorId, TypeShape] = {}
    """The columns that sinks write into, where these are not their own, as they were."""
    cost: Cost = Cost()
    duration_ms: int = 0
    """From the trigger to the last acknowledgement."""
    completed_ms: int = 0
    """Wall-clock time, ms since the epoch."""
    savepoint: str = ""
    """The directory of the savepoint that was asked for with it. It is there once its manifest is."""
    kept: list[int] | None = None
    """Numbers of the entries whose checkpoints are kept in addition to this one, oldest first. None in
    formats before 3: a reader finds them entry by entry."""
    widths: dict[OperatorId, int] = {}
    """The operators that were narrower than the job, and in how many subtasks they had rows."""
    dropped: bool = False
    """Retention has dropped the checkpoint; the entry holds its number alone."""

    def width(self, operator: OperatorId) -> int:
        """In how many subtasks the operator had rows."""
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
    """The final checkpoint is committed everywhere. Nothing follows."""

    checkpoint: CheckpointId
    kept: list[int] | None = None
    """Numbers of the entries whose checkpoints are kept, oldest first. None in formats before 3."""


LogEntry: TypeAlias = AttemptStarted | CheckpointCompleted | JobFinished


@dataclass(frozen=True, slots=True)
class Numbered:
    """A checkpoint with the number of its entry."""

    number: int
    entry: CheckpointCompleted


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """The log and the number of an entry (CP31)."""

    job: JobId
    log: str
    """The log's identity: who made its first entry. Directories that were copied have the same."""
    number: int
    floor: int = 1
    """Compaction may have deleted entries below this number (CP42)."""
    since: int = 1
    """Number of the log's first entry of format 3 or later. Compaction deletes neither that entry nor
    any before it."""


class Stored(NamedTuple):
    """An entry as its file holds it."""

    entry: LogEntry
    format: int
    place: Place | None
    """The place that is stored in the entry; None in format 1, which stores none."""


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an entry that the checksum covers, from format 2 on. In format 1 it covers the entry
    alone."""

    place: Place
    entry: LogEntry


_entry_decoder: msgspec.json.Decoder[LogEntry] = msgspec.json.Decoder(LogEntry)
_body_decoder: msgspec.json.Decoder[_Body] = msgspec.json.Decoder(_Body)


def _sealed(path: str) -> Sealed:
    return Sealed(
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
    """Return the bytes of an entry's file. `place` None writes format 1.

    Raises CheckpointError if the entry is too large to be read back.
    """
    if place is None:
        return _sealed("").seal(msgspec.json.encode(entry), 1)
    body = msgspec.json.encode(_Body(place=place, entry=entry))
    return _sealed(str(place.number)).seal(body, format)


def decode_entry(data: bytes, path: str) -> Stored:
    """Raise UnrestorableError, naming `path`, where the bytes are no whole entry of a known format.

    Only the log can check whether it is the entry that belongs there.
    """
    sealed = _sealed(path)
    format, content = sealed.open(data)
    if format == 1:
        return Stored(sealed.decoded(content, _entry_decoder), 1, None)
    body = sealed.decoded(content, _body_decoder)
    return Stored(body.entry, format, body.place)
