"""The job's log: the single truth about its attempts and checkpoints (docs/protocols/checkpoints.md).

One numbered file per entry, `<job>/log/<10 digits>.json`, written put-if-absent at the number after
the newest known. A number once made stays made: entries of dropped checkpoints are rewritten as
short tombstones, never deleted, so that a driver that was suspended finds its number taken (CP1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rheos.checkpoint.log_entries import (
    IF_DAMAGED,
    AttemptStarted,
    CheckpointCompleted,
    LogEntry,
    Numbered,
    Origin,
    Place,
    Stored,
    decode_entry,
    encode_entry,
)
from rheos.checkpoint.log_order import not_listed, out_of_order
from rheos.checkpoint.names import handle_problem, safe_name, state_folder
from rheos.errors import CheckpointError, UnrestorableError
from rheos.protocol.ids import Attempt, CheckpointId, JobId
from rheos.protocol.ports import Store


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


_NEWEST_DROPPED = "its checkpoint is the newest, and yet it was dropped (CP10)"
_ENTRY_NAME = re.compile(r"(\d{10})\.json")


class JobLog:
    """The log of one job in a store. Errors of the store come out as CheckpointError; an entry that is
    damaged, or is not the one that belongs where it lies, as UnrestorableError (CP31)."""

    def __init__(self, store: Store, job: JobId) -> None:
        self._store = store
        self._job = job
        self._identity: str | None = None
        self.folder = f"{safe_name(job)}/log"
        self._states = state_folder(job)

    def path(self, number: int) -> str:
        return f"{self.folder}/{number:010d}.json"

    def read(self) -> LogView:
        """Costs one listing, and reads only the newest entry, the checkpoints that are kept, the first
        entry, and one before those."""
        last = self._last_number()
        if last == 0:
            return LogView()
        newest = stored = self._get(last)
        completed: list[Numbered] = []
        """The newest first."""
        number = last
        while True:
            before = self._get(number - 1) if number > 1 else None
            self._check_order(number, before, stored)
            entry = stored.entry
            if isinstance(entry, AttemptStarted):
                completed.extend(reversed(self._listed(number, stored, bool(completed))))
                break
            if isinstance(entry, CheckpointCompleted):
                if entry.dropped:
                    if not completed:
                        raise self._wrong(number, _NEWEST_DROPPED)
                    break
                completed.append(Numbered(number, entry))
            assert before is not None, "CP31: a log begins with a claim"
            number, stored = number - 1, before
        return LogView(last + 1, newest.entry, tuple(reversed(completed)))

    def savepoints(self) -> Iterator[str]:
        """Yield the folder of every savepoint that the log names, the newest first; also of those whose
        checkpoints retention has dropped. Reads an entry at a time."""
        origins: set[str] = set()
        for number in range(self._last_number(), 0, -1):
            entry = self._get(number).entry
            if isinstance(entry, CheckpointCompleted) and entry.savepoint:
                yield entry.savepoint
            if entry.origin is not None and entry.origin.directory not in origins:
                origins.add(entry.origin.directory)
                yield entry.origin.directory

    def identity(self) -> str:
        """Who began the log. No other log has it, also not one that comes into this one's place. Only
        within a log do the numbers of checkpoints rise.

        Raises CheckpointError where its first entry cannot be read.
        """
        if self._identity is None:
            first = self._decoded(1)
            if first.place is not None and first.place.log != first.entry.owner:
                raise self._wrong(1, f"it says that the log was begun by {first.place.log}")
            self._identity = first.entry.owner
        return self._identity

    def append(self, number: int, entry: LogEntry) -> bool:
        """False where another driver has made the number (CP2).

        Raises CheckpointError where the store failed: the entry may or may not be there then,
        and the log has to be read again to find out.
        """
        identity = entry.owner if number == 1 else self.identity()
        path, data = self.path(number), encode_entry(entry, Place(self._job, identity, number))
        try:
            if self._store.put_if_absent(path, data):
                return True
            present = self._store.get(path)
        except OSError as error:
            raise CheckpointError(f"the log entry {path} could not be written: {error}") from error
        if present == data:
            return True  # A write that was reported as failed had gone through.
        if decode_entry(present, path).entry.owner == entry.owner:
            raise CheckpointError(f"the log entry {path} was written late by an earlier try")
        return False

    def drop(self, number: int) -> None:
        """Rewrites a checkpoint's entry as its tombstone."""
        stored = self._get(number)
        entry = stored.entry
        if isinstance(entry, CheckpointCompleted) and not entry.dropped:
            try:
                # In the format that it had: formats only rise with the numbers.
                self._store.put(self.path(number), encode_entry(entry.tombstone(), stored.place))
            except OSError as error:
                raise CheckpointError(f"{self.path(number)} could not be written: {error}") from error

    # --- reading ----------------------------------------------------------------------------------

    def _listed(self, number: int, claim: Stored, newer: bool) -> list[Numbered]:
        """The checkpoints that the claim lists and that are not dropped, the oldest first. `newer`:
        whether there are newer ones, so that all of these may be dropped."""
        entry = claim.entry
        assert isinstance(entry, AttemptStarted)
        listed = []
        for at in entry.completed:
            if not 1 <= at < number:
                raise self._wrong(number, f"it lists entry {at}, which is not before it")
            stored = self._get(at)
            if not isinstance(stored.entry, CheckpointCompleted):
                raise self._wrong(at, f"entry {number} lists it as a checkpoint, and it is none")
            self._check_formats(number, claim, stored)
            listed.append(Numbered(at, stored.entry))
        if (wrong := not_listed(entry, listed)) is not None:
            raise self._wrong(number, wrong)
        if listed and listed[-1].entry.dropped and not newer:
            raise self._wrong(listed[-1].number, _NEWEST_DROPPED)
        return [numbered for numbered in listed if not numbered.entry.dropped]

    def _check_order(self, number: int, before: Stored | None, stored: Stored) -> None:
        if before is None:
            if not isinstance(stored.entry, AttemptStarted):
                raise self._wrong(number, "a log begins with the claim of an attempt")
            return
        self._check_formats(number, stored, before)
        if (wrong := out_of_order(before.entry, stored.entry)) is not None:
            raise self._wrong(number, wrong)

    def _check_formats(self, number: int, stored: Stored, earlier: Stored) -> None:
        if stored.format < earlier.format:
            raise self._wrong(
                number, f"it has format {stored.format} behind entries of format {earlier.format}"
            )

    def _get(self, number: int) -> Stored:
        """The entry, checked for all that it says of itself."""
        stored = self._decoded(number)
        if stored.place is not None and stored.place.log != self.identity():
            raise self._wrong(number, "it is of another log of this job")
        return stored

    def _decoded(self, number: int) -> Stored:
        path = self.path(number)
        try:
            data = self._store.get(path)
        except OSError as error:
            raise CheckpointError(f"the log entry {path} could not be read: {error}") from error
        stored = decode_entry(data, path)
        if stored.place is not None and stored.place.job != self._job:
            raise self._wrong(number, f"it is of the job {stored.place.job!r}")
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

    def _last_number(self) -> int:
        try:
            paths = self._store.list(self.folder)
        except OSError as error:
            raise CheckpointError(f"the log {self.folder} could not be read: {error}") from error
        matches = (_ENTRY_NAME.fullmatch(path.rpartition("/")[2]) for path in paths)
        numbers = sorted(int(match[1]) for match in matches if match)
        for expected, number in enumerate(numbers, start=1):
            if number != expected:
                raise UnrestorableError(
                    f"the log {self.folder} has a gap: entry {expected} is missing, {number} is there",
                    hint="restore the file from a copy; entries of the log are never to be deleted",
                )
        return len(numbers)
