"""Finds entries of a job's log that are no longer needed (CP42, CP43). Pure except for reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rheos.core.checkpoint.log_entries import CheckpointCompleted, StoredEntry
from rheos.core.checkpoint.log_marks import is_mark
from rheos.core.errors import UnrestorableError


@dataclass(frozen=True, slots=True)
class NewestEntry:
    """The newest entry that a driver has written."""

    number: int
    floor: int
    since: int
    """Number of the first entry of format 3 or later."""
    kept: frozenset[int]
    """Numbers of the entries that it lists as retained checkpoints."""


def deletable(
    numbers: Sequence[int],
    read: Callable[[int], StoredEntry],
    newest: NewestEntry,
    block: int,
    staying: dict[int, str | None],
) -> Iterator[int]:
    """Yield the numbers of entries that may be deleted, ascending.

    Args:
        numbers: All numbers that the store lists, ascending.
        read: Function that reads an entry. An entry for which it raises UnrestorableError is not
            deleted.
        newest: Entry whose floor counts.
        block: Entries per block of the log.
        staying: Entries below the floor that must stay because of what they name, with the folder of
            their origin. Later calls do not read them again.
    """
    origins: set[str | None] = {None}
    for number in numbers:
        if number >= newest.floor:
            return  # CP42
        if number <= newest.since or number in newest.kept or is_mark(number, newest.number, block):
            continue  # CP43
        if number not in staying:
            try:
                entry = read(number).entry
            except UnrestorableError:
                continue  # Unreadable entries are not deleted.
            origin = entry.origin.directory if entry.origin else None
            names_savepoint = isinstance(entry, CheckpointCompleted) and bool(entry.savepoint)
            if not names_savepoint and origin in origins:
                yield number
                continue
            staying[number] = origin
        origins.add(staying[number])
