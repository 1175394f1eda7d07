"""The job's log: the only record of its attempts and checkpoints (docs/protocols/checkpoints.md).

Each entry is a numbered file, `<job>/log/<10 digits>.json`, written put-if-absent at the number after
the newest known (CP1). Entries of dropped checkpoints are rewritten as short tombstones. Compaction
deletes old entries, except the marks by which a suspended driver detects that the log has continued
without it (CP42 to CP45, `log_marks`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from rheos.core.checkpoint.log_compaction import NewestEntry, deletable
from rheos.core.checkpoint.log_entries import (
    COMPACTED,
    IF_DAMAGED,
    AttemptStarted,
    CheckpointCompleted,
    LogEntry,
    NumberedCheckpoint,
    Origin,
    Place,
    StoredEntry,
    decode_entry,
    encode_entry,
)
from rheos.core.checkpoint.log_marks import LOG_BLOCK, floor_of, marks_after
from rheos.core.checkpoint.log_order import not_kept, not_listed, out_of_order
from rheos.core.checkpoint.names import handle_problem, safe_name, state_folder
from rheos.core.errors import CheckpointError, UnrestorableError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.ports import Store


@dataclass(frozen=True, slots=True)
class LogView:
    """The part of the log that a driver needs to continue it."""

    next_number: int = 1
    newest: LogEntry | None = None
    completed: tuple[NumberedCheckpoint, ...] = ()
    """Checkpoints that retention has not dropped, oldest first."""

    @property
    def attempt(self) -> Attempt:
        """Return the newest attempt; 0 before the first."""
        return self.newest.attempt if self.newest else Attempt(0)

    @property
    def reserved_to(self) -> CheckpointId:
        return self.newest.reserved_to if self.newest else CheckpointId(0)

    @property
    def origin(self) -> Origin | None:
        """Return the savepoint from which the newest attempt's state originates."""
        return self.newest.origin if self.newest else None


_NEWEST_DROPPED = "its checkpoint is the newest, but it was dropped (CP10)"
_ENTRY_NAME = re.compile(r"(\d{10})\.json")

_READ_TRIES = 3
"""Maximum number of tries of a read during which compaction deletes listed entries."""


class JobLog:
    """The log of one job in a store. It converts errors of the store to CheckpointError. An entry that
    is damaged, or is not in its own place, raises UnrestorableError (CP31)."""

    def __init__(self, store: Store, job: JobId, block: int = LOG_BLOCK) -> None:
        self._store = store
        self._job = job
        self._block = block
        self._identity: str | None = None
        self.folder = f"{safe_name(job)}/log"
        self._states = state_folder(job)
        self._since: int | None = None
        """Number of the first entry of format 3 or later; None while unknown."""
        self._appended: NewestEntry | None = None
        self._compacted_at: int | None = None
        """Number of the newest entry at the time when compaction last ran."""
        self.entries = 0
        """Number of files of the log at the last read, plus later writes and minus deletions."""
        self._staying: dict[int, str | None] = {}
        """Entries below the floor that must stay because of what they name, with their origin's
        folder."""

    def path(self, number: int) -> str:
        return f"{self.folder}/{number:010d}.json"

    def read(self) -> LogView:
        """Return what a driver must know about the log.

        It costs one listing, and reads only the newest entry, the retained checkpoints, the first
        entry, and one before those.
        """
        for tries_left in reversed(range(_READ_TRIES)):
            try:
                return self._read()
            except CheckpointError as error:
                # CP45: a listed entry may be dropped, and compacted away, before it is read.
                if not tries_left or not isinstance(error.__cause__, FileNotFoundError):
                    raise
        raise AssertionError("unreachable")

    def _read(self) -> LogView:
        numbers = self._numbers()
        last = numbers[-1] if numbers else 0
        while self._exists(last + 1):  # A listing may lack the newest entries.
            last += 1
            numbers.append(last)
        if not numbers:
            self._since = 1
            return LogView()
        newest = self._get(last)
        since = self._since_of(newest, last)
        self._check_whole(numbers, newest)
        completed = self._completed(last, newest)
        self._since = since
        self.entries = len(numbers)
        return LogView(last + 1, newest.entry, completed)

    def _completed(self, last: int, newest: StoredEntry) -> tuple[NumberedCheckpoint, ...]:
        """Return the retained checkpoints, oldest first."""
        stored = newest
        completed: list[NumberedCheckpoint] = []
        """Checkpoints found so far, newest first."""
        number = last
        while True:
            before = self._get(number - 1) if number > 1 else None
            self._check_order(number, before, stored)
            entry = stored.entry
            if isinstance(entry, CheckpointCompleted):
                if entry.dropped:
                    if not completed:
                        raise self._wrong(number, _NEWEST_DROPPED)
                    break
                completed.append(NumberedCheckpoint(number, entry))
            listed = entry.completed if isinstance(entry, AttemptStarted) else entry.kept
            if listed is not None:
                completed.extend(reversed(self._listed(number, stored, listed, bool(completed))))
                break
            assert before is not None, "CP31: a log begins with a claim"
            number, stored = number - 1, before
        return tuple(reversed(completed))

    def savepoints(self) -> Iterator[str]:
        """Yield the folder of every savepoint that the log names, newest first, including those whose
        checkpoints retention has dropped. Entries are read one at a time."""
        origins: set[str] = set()
        for number in reversed(self._numbers()):
            try:
                entry = self._get(number).entry
            except CheckpointError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    continue  # Compaction deleted it, so it named no savepoint (CP43).
                raise
            if isinstance(entry, CheckpointCompleted) and entry.savepoint:
                yield entry.savepoint
            if entry.origin is not None and entry.origin.directory not in origins:
                origins.add(entry.origin.directory)
                yield entry.origin.directory

    def identity(self) -> str:
        """Return the log's identity, from its first entry. No other log has the same, not even one that
        replaces this one. Checkpoint numbers rise only within a log.

        Raise CheckpointError if the first entry cannot be read.
        """
        if self._identity is None:
            first = self._decoded(1)
            if first.place is not None and first.place.log != first.entry.owner:
                raise self._wrong(1, f"it names {first.place.log} as the creator of the log")
            self._identity = first.entry.owner
        return self._identity

    def append(self, number: int, entry: LogEntry) -> bool:
        """Write an entry. Return False if another driver has written the number (CP2).

        Raise CheckpointError if the store failed. Then the entry may or may not exist, and the log must
        be read again to find out.
        """
        identity = entry.owner if number == 1 else self.identity()
        floor, since = floor_of(number, self._block), self._since_at(number)
        place = Place(self._job, identity, number, floor, since)
        path, data = self.path(number), encode_entry(entry, place)
        try:
            if not self._store.put_if_absent(path, data):
                if decode_entry(self._store.get(path), path).entry.owner == entry.owner:
                    raise CheckpointError(f"an earlier write of the log entry {path} completed late")
                return False
            if self._went_on(number):
                return False
        except OSError as error:
            raise CheckpointError(f"the log entry {path} could not be written: {error}") from error
        self._since = since
        self.entries += 1
        kept = entry.completed if isinstance(entry, AttemptStarted) else entry.kept
        if kept is not None:
            self._appended = NewestEntry(number, floor, since, frozenset(kept))
        return True

    def _went_on(self, number: int) -> bool:
        """Return whether the log has entries beyond this number, although the number was free. Then
        other drivers wrote it earlier, and compaction deleted it (CP44). Raise OSError."""
        return any(self._exists(mark) for mark in marks_after(number, self._block))

    def _since_at(self, number: int) -> int:
        if self._since is None:
            self._since = 1 if number == 1 else self._since_of(self._get(number - 1), number - 1)
        return self._since

    @staticmethod
    def _since_of(stored: StoredEntry, number: int) -> int:
        """Return the number of the log's first entry of format 3 or later, which an entry stores. For
        an entry of an older format, return the number after it."""
        if stored.format < COMPACTED or stored.place is None:
            return number + 1
        return stored.place.since

    def drop(self, number: int) -> None:
        """Rewrite a checkpoint's entry as its tombstone. Does nothing if compaction has deleted it."""
        try:
            stored = self._get(number)
        except CheckpointError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return
            raise
        entry = stored.entry
        if isinstance(entry, CheckpointCompleted) and not entry.dropped:
            try:
                # Keep its format: formats only rise with the numbers.
                tombstone = encode_entry(entry.tombstone(), stored.place, stored.format)
                self._store.put(self.path(number), tombstone)
            except OSError as error:
                raise CheckpointError(f"{self.path(number)} could not be written: {error}") from error

    # --- compaction -------------------------------------------------------------------------------

    def compaction(self) -> Callable[[], int] | None:
        """Return the work that deletes entries that are no longer needed; None if it is not due.

        It is due once in each block of entries, and after the driver's first entry. The work may run in
        any thread, one at a time. It returns the number of deleted entries, for `compacted`. It raises
        CheckpointError if the store fails, and is then repeated in the next block.
        """
        newest = self._appended
        if newest is None or (
            self._compacted_at is not None
            and self._compacted_at // self._block == newest.number // self._block
        ):
            return None
        self._compacted_at = newest.number
        return lambda: self._compact(newest)

    def compacted(self, deleted: int) -> None:
        """Subtract the entries that a compaction has deleted."""
        self.entries -= deleted

    def _compact(self, newest: NewestEntry) -> int:
        deleted = 0
        for number in deletable(self._numbers(), self._get, newest, self._block, self._staying):
            self._delete(number)
            deleted += 1
        return deleted

    def _delete(self, number: int) -> None:
        path = self.path(number)
        try:
            self._store.delete(path)
        except OSError as error:
            raise CheckpointError(f"the log entry {path} could not be deleted: {error}") from error

    # --- reading ----------------------------------------------------------------------------------

    def _listed(
        self, number: int, stored_entry: StoredEntry, numbers: Sequence[int], newer: bool
    ) -> list[NumberedCheckpoint]:
        """Return the checkpoints that an entry lists and that are not dropped, oldest first. `newer`:
        whether newer checkpoints exist, so that all of these may have been dropped."""
        entry = stored_entry.entry
        listed = []
        for at in numbers:
            if not 1 <= at < number:
                raise self._wrong(number, f"it lists entry {at}, which does not precede it")
            stored = self._get(at)
            if not isinstance(stored.entry, CheckpointCompleted):
                raise self._wrong(at, f"entry {number} lists it as a checkpoint, but it is not one")
            self._check_formats(number, stored_entry, stored)
            listed.append(NumberedCheckpoint(at, stored.entry))
        wrong = (
            not_listed(entry, listed) if isinstance(entry, AttemptStarted) else not_kept(entry, listed)
        )
        if wrong is not None:
            raise self._wrong(number, wrong)
        if listed and listed[-1].entry.dropped and not newer:
            raise self._wrong(listed[-1].number, _NEWEST_DROPPED)
        return [numbered for numbered in listed if not numbered.entry.dropped]

    def _check_order(self, number: int, before: StoredEntry | None, stored: StoredEntry) -> None:
        if before is None:
            if not isinstance(stored.entry, AttemptStarted):
                raise self._wrong(number, "a log must begin with the claim of an attempt")
            return
        self._check_formats(number, stored, before)
        if (wrong := out_of_order(before.entry, stored.entry)) is not None:
            raise self._wrong(number, wrong)

    def _check_formats(self, number: int, stored: StoredEntry, earlier: StoredEntry) -> None:
        if stored.format < earlier.format:
            raise self._wrong(
                number, f"it has format {stored.format} after entries of format {earlier.format}"
            )

    def _get(self, number: int) -> StoredEntry:
        """Read an entry, and check that it belongs to this log and number."""
        stored = self._decoded(number)
        if stored.place is not None and stored.place.log != self.identity():
            raise self._wrong(number, "it belongs to another log of this job")
        return stored

    def _decoded(self, number: int) -> StoredEntry:
        path = self.path(number)
        try:
            data = self._store.get(path)
        except OSError as error:
            raise CheckpointError(f"the log entry {path} could not be read: {error}") from error
        stored = decode_entry(data, path)
        if stored.place is not None and stored.place.job != self._job:
            raise self._wrong(number, f"it belongs to the job {stored.place.job!r}")
        if stored.place is not None and stored.place.number != number:
            raise self._wrong(number, f"it is entry {stored.place.number}")
        entry = stored.entry
        if isinstance(entry, CheckpointCompleted) and not entry.dropped:
            for handle in entry.handles:
                if (wrong := handle_problem(handle, entry.parallelism, self._states)) is not None:
                    raise self._wrong(number, wrong)
        return stored

    def _wrong(self, number: int, why: str) -> UnrestorableError:
        return UnrestorableError(
            f"the log entry {self.path(number)} does not belong there: {why}", hint=IF_DAMAGED
        )

    def _numbers(self) -> list[int]:
        """Return the numbers of all entries that the store lists, ascending."""
        try:
            paths = self._store.list(self.folder)
        except OSError as error:
            raise CheckpointError(f"the log {self.folder} could not be read: {error}") from error
        matches = (_ENTRY_NAME.fullmatch(path.rpartition("/")[2]) for path in paths)
        return sorted(int(match[1]) for match in matches if match)

    def _exists(self, number: int) -> bool:
        """Return whether the entry's file exists now; a listing may be slightly outdated."""
        path = self.path(number)
        try:
            self._store.get(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise CheckpointError(f"the log entry {path} could not be read: {error}") from error
        return True

    def _check_whole(self, numbers: Sequence[int], newest: StoredEntry) -> None:
        """Check that no entry is missing from the floor on, or up to the first of format 3 (CP42)."""
        floor = since = 1
        if newest.place is not None and newest.format >= COMPACTED:
            floor, since = newest.place.floor, newest.place.since
        for before, number in pairwise([0, *numbers]):
            wanted = chain(
                range(before + 1, min(number, since + 1)),
                range(max(before, since, floor - 1) + 1, number),
            )
            missing = next((each for each in wanted if not self._exists(each)), None)
            if missing is not None:
                raise UnrestorableError(
                    f"the log {self.folder} has a gap: entry {missing} is missing, but {number} exists",
                    hint="restore the file from a copy; never delete entries of the log by hand",
                )
