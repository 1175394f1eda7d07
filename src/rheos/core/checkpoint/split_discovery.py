"""Which splits of an attempt's sources are found while it runs, and who is notified of them.

Pure. A source is listed anew at an interval, one listing at a time. What of it was not there before is
announced to all subtasks, in messages of bounded size: the next goes when all have taken the one
before. CP34 to CP38 of docs/protocols/checkpoints.md.

    LISTING --(listed)--> ANNOUNCING --(all have taken all)--> WAITING --(interval)--> LISTING
       |                                                          ^
       +------------------(failed: not too often in a row)--------+
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from rheos.core.checkpoint.events import (
    Action,
    ListSplits,
    SendToAll,
    SplitsListed,
    SplitsNotListed,
    WatchedSource,
)
from rheos.core.errors import InputError, RheosError
from rheos.core.protocol.control import SplitsFound, SplitsTaken
from rheos.core.protocol.ids import Attempt, OperatorId
from rheos.core.protocol.splits import LISTING_TRIES, Split

T = TypeVar("T")

SLOW_MS = 60_000
"""A listing that takes longer is shown in the status, and waited for."""
MAX_SPLITS = 500
"""Of one message."""
MAX_BYTES = 1 << 20
"""Of one message, but for a single split that is larger."""


@dataclass(slots=True)
class _Discovery:
    """Of one source."""

    source: WatchedSource
    listing: bool = False
    """One is under way, of this attempt or of one before it."""
    asked_ms: int = 0
    """When it was begun."""
    due_ms: int | None = None
    """When something is to be done again; None at once."""
    failures: int = 0
    """In a row."""
    error: RheosError | None = None
    """Of the last listing, where it failed or has found nothing at all, or of the one under way, where
    it is slow."""

    # All that follows is of the attempt.
    announced: set[str] = field(default_factory=set)
    """By id; the splits that subtasks knew when it began count, too."""
    sent: int = 0
    """How many splits were announced, without those that were known."""
    found: deque[Split] = field(default_factory=deque)
    """What is still to be announced."""
    gone: deque[str] = field(default_factory=deque)
    """What is to be announced as gone, of a source that forgets, by id."""
    missing: set[str] = field(default_factory=set)
    """Of those that were announced: what the last listing did not have, and is gone if the next has it
    not, either."""
    listings: int = 0
    whole_is_known: bool = False
    """Subtasks have heard that all was announced that there is."""
    message: SplitsFound | None = None
    """What some have not taken yet."""
    taken: dict[int, int] = field(default_factory=dict)
    """By subtask: how many splits of those that were announced it has taken."""


class SplitDiscovery:
    """Of one driver. Its methods return what is to be done."""

    def __init__(self, watched: Mapping[OperatorId, WatchedSource]) -> None:
        self._attempt = Attempt(0)
        self._parallelism = 0
        self._discoveries = {id: _Discovery(source) for id, source in watched.items()}

    @property
    def error(self) -> RheosError | None:
        """Why nothing is found of a source just now."""
        failed = (each.error for each in self._discoveries.values() if each.error is not None)
        return next(failed, None)

    def begin(self, attempt: Attempt, parallelism: int) -> None:
        """An attempt is started. Nothing of what was found is kept: what is in its state its subtasks
        know, and all else is found again (CP34)."""
        self._attempt = attempt
        self._parallelism = parallelism
        for each in self._discoveries.values():
            each.due_ms, each.failures = None, 0
            each.announced = set(each.source.listed)
            each.sent = 0
            each.found.clear()
            each.gone.clear()
            each.missing.clear()
            each.listings, each.whole_is_known = 0, False
            each.message = None
            each.taken.clear()

    # --- while all subtasks are connected ---------------------------------------------------------

    def deadline_ms(self) -> int | None:
        """When time alone changes anything."""
        dues = [
            each.due_ms or 0
            for each in self._discoveries.values()
            if not each.listing or each.message is not None
        ]
        return min(dues, default=None)

    def tick(self, now_ms: int) -> list[Action]:
        """List what is due. What some subtask has not taken within the interval is sent once more."""
        actions: list[Action] = []
        for id, each in self._discoveries.items():
            if each.listing and now_ms - each.asked_ms >= SLOW_MS:
                each.error = _slow(each.source)
            if each.due_ms is not None and now_ms < each.due_ms:
                continue
            if each.message is not None:
                each.due_ms = now_ms + each.source.every_ms
                actions.append(SendToAll(each.message))
            elif not each.listing:
                each.listing, each.asked_ms = True, now_ms
                actions.append(ListSplits(id))
        return actions

    def listed(self, event: SplitsListed, now_ms: int, running: bool) -> list[Action]:
        """What a listing has found; where no attempt runs, it is made again when one does."""
        each = self._discoveries[event.operator]
        each.listing = False
        none = not event.splits and not each.announced
        each.failures, each.error = 0, each.source.nothing_found if none else None
        if not running:
            return []
        assert each.message is None, (
            "CP36: a source is listed only after all of its last listing was taken"
        )
        for split in event.splits:
            if split.id not in each.announced:
                each.announced.add(split.id)
                each.found.append(split)
        each.listings += 1
        if each.source.forgets:
            missing = each.announced - {split.id for split in event.splits}
            gone = missing & each.missing
            each.gone.extend(sorted(gone))
            each.announced -= gone
            each.missing = missing - gone
        return self._announce(event.operator, each, now_ms)

    def not_listed(self, event: SplitsNotListed, now_ms: int, running: bool) -> RheosError | None:
        """It is tried again after the interval. Returns the error where it has failed too often."""
        each = self._discoveries[event.operator]
        each.listing = False
        each.failures += 1
        each.error = event.error
        each.due_ms = now_ms + each.source.every_ms
        return event.error if running and each.failures >= LISTING_TRIES else None

    def taken(self, event: SplitsTaken, now_ms: int) -> list[Action]:
        """A subtask of the attempt knows so many of the splits that were announced."""
        each = self._discoveries.get(event.operator)
        if each is None or each.message is None:
            return []
        each.taken[event.subtask] = max(each.taken.get(event.subtask, 0), event.taken)
        if len(each.taken) < self._parallelism or min(each.taken.values()) < each.sent:
            return []
        each.message = None
        return self._announce(event.operator, each, now_ms)

    def _announce(self, id: OperatorId, each: _Discovery, now_ms: int) -> list[Action]:
        """The next of what was found, or is gone; where there is none, the source is listed after the
        interval."""
        each.due_ms = now_ms + each.source.every_ms
        # What the subtasks know of before is missing for certain after two looks.
        whole_is_due = each.source.forgets and each.listings > 1 and not each.whole_is_known
        if not (each.found or each.gone or whole_is_due):
            return []
        splits = _next_of(each.found, lambda split: len(split.id) + len(split.payload))
        gone = _next_of(each.gone, len)
        whole = whole_is_due and not (each.found or each.gone)
        each.whole_is_known |= whole
        each.message = SplitsFound(
            attempt=self._attempt, operator=id, before=each.sent, splits=splits, gone=gone, whole=whole
        )
        each.sent += len(splits)
        each.taken.clear()
        return [SendToAll(each.message)]


def _slow(source: WatchedSource) -> RheosError:
    return InputError(
        f"listing its splits has taken more than {SLOW_MS // 1000} s: no new split is found in "
        "the meantime",
        operator=source.name,
        hint="the job continues; check that the driver can reach the input",
    )


def _next_of(rest: deque[T], size_bytes: Callable[[T], int]) -> list[T]:
    """Take as many of them as one message may have."""
    taken: list[T] = []
    size = 0
    while rest and len(taken) < MAX_SPLITS:
        size += size_bytes(rest[0])
        if taken and size > MAX_BYTES:
            break
        taken.append(rest.popleft())
    return taken
