"""Splits of an attempt's sources that are discovered while it runs, and how subtasks are notified.

Pure. A source is listed repeatedly at an interval, one listing at a time. New splits are announced to
all subtasks, in messages of bounded size. The next message is sent when all subtasks have taken the
previous one. CP34 to CP38 of docs/protocols/checkpoints.md.

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
"""Time after which the status shows that a listing is slow. It is still awaited."""
MAX_SPLITS = 500
"""Maximum number of splits in one message."""
MAX_BYTES = 1 << 20
"""Maximum size of one message, except for a single larger split."""


@dataclass(slots=True)
class _Discovery:
    """The discovery of one source."""

    source: WatchedSource
    listing: bool = False
    """Whether a listing is running, of this attempt or an earlier one."""
    asked_ms: int = 0
    """Time when that listing began."""
    due_ms: int | None = None
    """Time of the next action; None: at once."""
    failures: int = 0
    """Number of consecutive failures."""
    error: RheosError | None = None
    """Error of the last listing, if it failed or found nothing, or of the running one, if slow."""

    # The fields below belong to the attempt.
    announced: set[str] = field(default_factory=set)
    """Ids of the announced splits, including those that subtasks knew at the start."""
    sent: int = 0
    """Number of announced splits, without those known at the start."""
    found: deque[Split] = field(default_factory=deque)
    """Splits still to be announced."""
    gone: deque[str] = field(default_factory=deque)
    """Ids of splits still to be announced as gone, for a source that forgets."""
    missing: set[str] = field(default_factory=set)
    """Ids of announced splits that the last listing lacked. They are gone if the next does, too."""
    listings: int = 0
    whole_is_known: bool = False
    """Whether subtasks know that all existing splits have been announced."""
    message: SplitsFound | None = None
    """Message that some subtasks have not taken yet."""
    taken: dict[int, int] = field(default_factory=dict)
    """Number of announced splits that each subtask has taken."""


class SplitDiscovery:
    """The discovery of all sources in one driver. Its methods return actions."""

    def __init__(self, watched: Mapping[OperatorId, WatchedSource]) -> None:
        self._attempt = Attempt(0)
        self._parallelism = 0
        self._discoveries = {id: _Discovery(source) for id, source in watched.items()}

    @property
    def error(self) -> RheosError | None:
        """Return why no splits of a source can be found at the moment; None if they can."""
        failed = (each.error for each in self._discoveries.values() if each.error is not None)
        return next(failed, None)

    def begin(self, attempt: Attempt, parallelism: int) -> None:
        """Start over for a new attempt. Its subtasks know the splits in their state; all others are
        discovered again (CP34)."""
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
        """Return the time when `tick` has something to do; None if there is no such time."""
        dues = [
            each.due_ms or 0
            for each in self._discoveries.values()
            if not each.listing or each.message is not None
        ]
        return min(dues, default=None)

    def tick(self, now_ms: int) -> list[Action]:
        """Start listings that are due. Repeat messages that were not taken within the interval."""
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
        """Handle the result of a listing. Without a running attempt, the next one repeats it."""
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
        """Schedule a retry after the interval. Return the error if there were too many failures."""
        each = self._discoveries[event.operator]
        each.listing = False
        each.failures += 1
        each.error = event.error
        each.due_ms = now_ms + each.source.every_ms
        return event.error if running and each.failures >= LISTING_TRIES else None

    def taken(self, event: SplitsTaken, now_ms: int) -> list[Action]:
        """Record the number of announced splits that a subtask of the attempt knows."""
        each = self._discoveries.get(event.operator)
        if each is None or each.message is None:
            return []
        each.taken[event.subtask] = max(each.taken.get(event.subtask, 0), event.taken)
        if len(each.taken) < self._parallelism or min(each.taken.values()) < each.sent:
            return []
        each.message = None
        return self._announce(event.operator, each, now_ms)

    def _announce(self, id: OperatorId, each: _Discovery, now_ms: int) -> list[Action]:
        """Announce the next new or gone splits. Otherwise schedule the next listing."""
        each.due_ms = now_ms + each.source.every_ms
        # Splits that subtasks know from earlier attempts are certainly missing after two listings.
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
    """Take as many items as fit into one message."""
    taken: list[T] = []
    size = 0
    while rest and len(taken) < MAX_SPLITS:
        size += size_bytes(rest[0])
        if taken and size > MAX_BYTES:
            break
        taken.append(rest.popleft())
    return taken
