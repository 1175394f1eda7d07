"""The job's log: the single truth about its attempts and checkpoints (docs/protocols/checkpoints.md).

One numbered file per entry, `<job>/log/<10 digits>.json`, written put-if-absent at the number after
the newest known. A number once made stays made: entries of dropped checkpoints are rewritten as
short tombstones, never deleted, so that a driver who fell asleep finds its number taken (CP1).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

import msgspec

from rheos.errors import CheckpointError
from rheos.protocol.control import CommittableHandle, Cost, Totals
from rheos.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.protocol.ports import Store
from rheos.protocol.shapes import StateShape, TypeShape
from rheos.protocol.snapshots import StateHandle

FORMAT = 1


class Origin(msgspec.Struct, frozen=True):
    """The savepoint that a job was started from."""

    id: str
    directory: str


class Entry(msgspec.Struct, frozen=True, tag=True, kw_only=True, omit_defaults=True):
    attempt: Attempt
    owner: str
    """The driver that wrote it. Tells a driver its own entry from another's of the same content."""
    reserved_to: CheckpointId
    """No checkpoint after this id was opened before the next entry was written (CP4)."""
    origin: Origin | None = None
    """The savepoint that the job's state comes from: checkpoints that do not say so count no more
    (CP17)."""


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
    """What each state holds, as the program declared it."""
    targets: dict[OperatorId, TypeShape] = {}
    """The columns that sinks write into, where these are not their own, as they were."""
    cost: Cost = Cost()
    duration_ms: int = 0
    """From the trigger to the last acknowledgement."""
    completed_ms: int = 0
    """Wall-clock time, ms since the epoch."""
    savepoint: str = ""
    """The directory of the savepoint that was asked for with it. It is there once its manifest is."""
    dropped: bool = False
    """Retention has dropped the checkpoint; the entry holds its number alone."""

    def tombstone(self) -> CheckpointCompleted:
        return msgspec.structs.replace(
            self,
            handles=[],
            committables=[],
            operators={},
            totals=Totals(),
            states={},
            targets={},
            dropped=True,
        )


class JobFinished(Entry, frozen=True):
    """The final checkpoint is committed everywhere. Nothing follows."""

    checkpoint: CheckpointId


LogEntry: TypeAlias = AttemptStarted | CheckpointCompleted | JobFinished


@dataclass(frozen=True, slots=True)
class Numbered:
    """A checkpoint with the number of its entry."""

    number: int
    entry: CheckpointCompleted


@dataclass(frozen=True, slots=True)
class LogView:
    """What a driver must know of the log to continue it."""

    next_number: int = 1
    newest: LogEntry | None = None
    completed: tuple[Numbered, ...] = ()
    """The checkpoints that retention has not dropped, oldest first."""

    @property
    def attempt(self) -> Attempt:
        """The newest attempt; 0 before the first."""
        return self.newest.attempt if self.newest else Attempt(0)

    @property
    def reserved_to(self) -> CheckpointId:
        return self.newest.reserved_to if self.newest else CheckpointId(0)

    @property
    def origin(self) -> Origin | None:
        """The savepoint that the newest attempt's state comes from."""
        return self.newest.origin if self.newest else None


class _Envelope(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    crc32: int
    entry: msgspec.Raw


_entry_decoder: msgspec.json.Decoder[LogEntry] = msgspec.json.Decoder(LogEntry)
_envelope_decoder: msgspec.json.Decoder[_Envelope] = msgspec.json.Decoder(_Envelope)


def encode_entry(entry: LogEntry) -> bytes:
    body = msgspec.json.encode(entry)
    return msgspec.json.encode(
        _Envelope(format=FORMAT, crc32=zlib.crc32(body), entry=msgspec.Raw(body))
    )


def decode_entry(data: bytes, path: str) -> LogEntry:
    """Raises CheckpointError, naming `path`, where the bytes are no whole entry of a known format."""
    damaged = f"the log entry {path} is damaged"
    hint = "restore the file from a copy; without it the job cannot be continued safely"
    try:
        envelope = _envelope_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise CheckpointError(f"{damaged}: {error}", hint=hint) from error
    if envelope.format > FORMAT:
        raise CheckpointError(
            f"the log entry {path} has format {envelope.format}; this version reads up to {FORMAT}",
            hint="continue the job with the version of rheos that wrote it, or a later one",
        )
    if envelope.format < 1:
        raise CheckpointError(f"{damaged}: there never was a format {envelope.format}", hint=hint)
    if zlib.crc32(envelope.entry) != envelope.crc32:
        raise CheckpointError(f"{damaged}: its checksum does not match", hint=hint)
    try:
        return _entry_decoder.decode(envelope.entry)
    except msgspec.MsgspecError as error:
        raise CheckpointError(f"{damaged}: {error}", hint=hint) from error


def safe_name(text: str) -> str:
    """`text` as one path component: readable and injective; very long ones get a checksum."""
    name = quote(text, safe="").replace("%20", " ") or "%"
    if name.startswith("."):
        name = "%2E" + name[1:]
    return name if len(name) <= 100 else f"{name[:90]}~{zlib.crc32(text.encode()):08x}"


_ENTRY_NAME = re.compile(r"(\d{10})\.json")


class JobLog:
    """The log of one job in a store. Errors of the store come out as CheckpointError."""

    def __init__(self, store: Store, job: JobId) -> None:
        self._store = store
        self.folder = f"{safe_name(job)}/log"

    def path(self, number: int) -> str:
        return f"{self.folder}/{number:010d}.json"

    def read(self) -> LogView:
        """Costs one listing, and reads only the newest entry and the checkpoints that are kept."""
        last = self._last_number()
        newest: LogEntry | None = None
        completed: list[Numbered] = []
        number = last
        while number >= 1:
            entry = self._get(number)
            newest = newest or entry
            match entry:
                case AttemptStarted():
                    completed.extend(self._kept(entry.completed))
                    break
                case CheckpointCompleted():
                    if entry.dropped:
                        break
                    completed.append(Numbered(number, entry))
                case JobFinished():
                    pass
            number -= 1
        return LogView(last + 1, newest, tuple(reversed(completed)))

    def identity(self) -> str:
        """Who began the log. No other log has it, also not one that comes into this one's place. Only
        within a log do the numbers of checkpoints rise.

        Raises CheckpointError where its first entry cannot be read.
        """
        return self._get(1).owner

    def append(self, number: int, entry: LogEntry) -> bool:
        """False where another driver has made the number (CP2).

        Raises CheckpointError where the store failed: then the entry may or may not be there, and
        only reading the log again tells.
        """
        path, data = self.path(number), encode_entry(entry)
        try:
            if self._store.put_if_absent(path, data):
                return True
            present = self._store.get(path)
        except OSError as error:
            raise CheckpointError(f"the log entry {path} could not be written: {error}") from error
        if present == data:
            return True  # A write that was reported as failed had gone through.
        if decode_entry(present, path).owner == entry.owner:
            raise CheckpointError(f"the log entry {path} was written late by an earlier try")
        return False

    def drop(self, number: int) -> None:
        """Rewrites a checkpoint's entry as its tombstone."""
        entry = self._get(number)
        if isinstance(entry, CheckpointCompleted) and not entry.dropped:
            try:
                self._store.put(self.path(number), encode_entry(entry.tombstone()))
            except OSError as error:
                raise CheckpointError(f"{self.path(number)} could not be written: {error}") from error

    def _kept(self, numbers: Sequence[int]) -> list[Numbered]:
        """Newest first."""
        kept = []
        for number in reversed(numbers):
            entry = self._get(number)
            if isinstance(entry, CheckpointCompleted) and not entry.dropped:
                kept.append(Numbered(number, entry))
        return kept

    def _last_number(self) -> int:
        try:
            paths = self._store.list(self.folder)
        except OSError as error:
            raise CheckpointError(f"the log {self.folder} could not be read: {error}") from error
        matches = (_ENTRY_NAME.fullmatch(path.rpartition("/")[2]) for path in paths)
        numbers = sorted(int(match[1]) for match in matches if match)
        for expected, number in enumerate(numbers, start=1):
            if number != expected:
                raise CheckpointError(
                    f"the log {self.folder} has a gap: entry {expected} is missing, {number} is there",
                    hint="restore the file from a copy; entries of the log are never to be deleted",
                )
        return len(numbers)

    def _get(self, number: int) -> LogEntry:
        path = self.path(number)
        try:
            data = self._store.get(path)
        except OSError as error:
            raise CheckpointError(f"the log entry {path} could not be read: {error}") from error
        return decode_entry(data, path)
