"""The event log of a job, for people: what happened, when, for how long, and what followed. Pure.

An event is one sentence with a time: "worker 1 lost (killed by signal 9), restarted in 4 s". An event
is *ongoing* until its outcome is known; then it gets an end. Repeated events, such as the restarts of a
job that fails again and again, become one event with a count. The log keeps the newest events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum

import msgspec

from rheos.core.protocol.durations import duration_text

MAX_EVENTS = 1000
"""Number of events that a job's log keeps over all its drivers. The metric `events_dropped` counts the
older ones, which are dropped."""
REPEATED_WITHIN_MS = 600_000
"""Time within which an event that repeats the newest one is counted with it."""
MAX_TEXT = 300
"""Maximum length of the sentence of an event."""
MAX_DETAIL = 4000
"""Maximum length of the explanation of an event, such as a whole error."""


class EventKind(Enum):
    """The subject of an event."""

    STARTED = "started"
    """A driver started or resumed the job."""
    TAKEOVER = "takeover"
    """A standby driver resumed the job of a lost driver."""
    UPGRADE = "upgrade"
    """The job continued with a changed program, or from a savepoint."""
    RESTART = "restart"
    """An attempt failed, and another one follows."""
    CHECKPOINT = "checkpoint"
    """A checkpoint failed."""
    SAVEPOINT = "savepoint"
    RESCALE = "rescale"
    SERVER = "server"
    """A server did not answer."""
    HEALTH = "health"
    """A finding about the job's health began or ended."""
    ENDED = "ended"
    """The job finished, failed, was cancelled or was stopped."""


class EventLevel(Enum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class JobEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event in the form in which it is stored."""

    id: str
    """Id that is unique within the job, and does not change when the event gets its end."""
    at_ms: int
    """Wall-clock time, ms since the epoch."""
    kind: EventKind
    what: str
    """Description of the event, without its outcome."""
    level: EventLevel = EventLevel.INFO
    ongoing: bool = False
    until_ms: int | None = None
    """Time of the outcome, or of the last repetition."""
    outcome: str = ""
    """Outcome. `{span}` is replaced by the time from beginning to end."""
    detail: str = ""
    """Explanation of the event: the whole error, with its hint."""
    times: int = 1
    """Number of consecutive occurrences."""
    attempt: int | None = None
    driver: str = ""
    """Process and host of the driver that wrote the event."""
    operator: str | None = None
    """Name of the operator that the event is about."""
    subtask: int | None = None

    def text(self, now_ms: int) -> str:
        """Return the event as one sentence."""
        span = duration_text(self.duration_ms(now_ms) or 0)
        if self.times > 1:
            # The time is that of all repetitions; no single outcome took that long.
            outcome = self.outcome.replace(" in {span}", "").replace(" after {span}", "")
            parts = [self.what, f"{self.times:,} times within {span}", outcome]
        elif self.ongoing:
            parts = [self.what, f"for {span} so far"]
        else:
            parts = [self.what, self.outcome.replace("{span}", span)]
        return ", ".join(part for part in parts if part)

    def duration_ms(self, now_ms: int) -> int | None:
        """Return the time from the beginning to the end, or until now for an ongoing event; None for an
        event without a duration."""
        if self.ongoing:
            return max(now_ms - self.at_ms, 0)
        return None if self.until_ms is None else max(self.until_ms - self.at_ms, 0)


class ShownEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event in the form in which REST, the command and the page show it."""

    id: str
    """Id that is unique within the job, and does not change while the event does."""
    at: str
    """Time of the event, ISO 8601 in UTC."""
    until: str | None
    """Time of the outcome, or of the last repetition; null if ongoing or without a duration."""
    duration_ms: int | None
    """Time from beginning to end, or until now for an ongoing event."""
    ongoing: bool
    kind: EventKind
    level: EventLevel
    text: str
    """The event as one sentence, with its outcome and duration."""
    detail: str
    """Explanation of the event: the whole error, with its hint; may be empty."""
    times: int
    attempt: int | None
    driver: str
    operator: str | None
    subtask: int | None

    @classmethod
    def of(cls, event: JobEvent, now_ms: int) -> ShownEvent:
        """Return an event in the form to show at the wall-clock time `now_ms`."""
        return cls(
            id=event.id,
            at=iso_time(event.at_ms),
            until=None if event.until_ms is None or event.ongoing else iso_time(event.until_ms),
            duration_ms=event.duration_ms(now_ms),
            ongoing=event.ongoing,
            kind=event.kind,
            level=event.level,
            text=event.text(now_ms),
            detail=event.detail,
            times=event.times,
            attempt=event.attempt,
            driver=event.driver,
            operator=event.operator,
            subtask=event.subtask,
        )


def iso_time(ms: int) -> str:
    """Return a time in ms since the epoch as ISO 8601 in UTC: 2026-11-24T04:00:00.000Z."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class OngoingCondition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that holds for a while, such as a server that does not answer."""

    what: str
    kind: EventKind = EventKind.HEALTH
    level: EventLevel = EventLevel.WARNING
    since_ms: int | None = None
    """Time at which the condition began, if that is before it was noticed."""
    over: str = "over after {span}"
    """Outcome of its event once it no longer holds."""
    detail: str = ""
    operator: str | None = None
    subtask: int | None = None


class EventLog:
    """The events of one job, of this driver and of earlier ones. Bounded by `MAX_EVENTS`."""

    def __init__(self, driver: str, prefix: str) -> None:
        """Create the log. `prefix` is unique to this driver, and begins its events' ids."""
        self._driver = driver
        self._prefix = prefix
        self._events: list[JobEvent] = []
        """Events of this driver, oldest first."""
        self._earlier: list[JobEvent] = []
        self._sames: dict[str, str] = {}
        """Value of `same` that repetitions share, by event id."""
        self._conditions: dict[str, tuple[str, OngoingCondition]] = {}
        """Conditions that hold, with the ids of their events, by subject."""
        self._made = 0
        self.dropped = 0
        """Number of events that were dropped beyond `MAX_EVENTS`."""
        self.version = 0
        """Number that grows with each change."""

    def newest_first(self) -> list[JobEvent]:
        """Return all events in the log. Safe to call from any thread."""
        # A condition may be noticed some time after it began.
        own = sorted(self._events, key=lambda event: event.at_ms)
        return [*self._earlier, *own][-MAX_EVENTS:][::-1]

    @property
    def own(self) -> list[JobEvent]:
        """Return the events of this driver, oldest first."""
        return list(self._events)

    def precede(self, earlier: Iterable[JobEvent]) -> None:
        """Put the events of earlier drivers before those of this one. Ongoing events among them get an
        end without an outcome."""
        closed = [msgspec.structs.replace(event, ongoing=False) for event in earlier]
        self._earlier = closed[-MAX_EVENTS:]
        self.version += 1

    # --- events -----------------------------------------------------------------------------------

    def add(
        self,
        at_ms: int,
        kind: EventKind,
        what: str,
        *,
        level: EventLevel = EventLevel.INFO,
        same: str | None = None,
        ongoing: bool = False,
        detail: str = "",
        attempt: int | None = None,
        operator: str | None = None,
        subtask: int | None = None,
    ) -> str:
        """Add an event, and return its id.

        Args:
            at_ms: wall-clock time.
            kind: subject of the event.
            what: description of the event in one sentence.
            level: severity of the event.
            same: value that repetitions share. If the newest event has the same value, it is counted up
                instead, and shows the sentence of the newest repetition.
            ongoing: whether a call of `end` follows.
            detail: explanation.
            attempt: the attempt in which it happened.
            operator: name of the operator that it is about.
            subtask: the subtask that it is about.
        """
        made = JobEvent(
            id=f"{self._prefix}-{self._made + 1}",
            at_ms=at_ms,
            kind=kind,
            what=_cut(what, MAX_TEXT),
            level=level,
            ongoing=ongoing,
            detail=_cut(detail, MAX_DETAIL),
            attempt=attempt,
            driver=self._driver,
            operator=operator,
            subtask=subtask,
        )
        self.version += 1
        newest = self._events[-1] if self._events else None
        if newest is not None and same is not None and self._repeats(newest, same, at_ms):
            self._events[-1] = msgspec.structs.replace(
                made, id=newest.id, at_ms=newest.at_ms, until_ms=at_ms, times=newest.times + 1
            )
            return newest.id
        self._made += 1
        self._events.append(made)
        if same is not None:
            self._sames[made.id] = same
        if len(self._events) > MAX_EVENTS:
            gone = self._events.pop(0)
            self._sames.pop(gone.id, None)
            self.dropped += 1
        return made.id

    def end(self, id: str, at_ms: int, outcome: str, *, level: EventLevel | None = None) -> None:
        """End an ongoing event. An event that was dropped, or has already ended, does not change.

        Args:
            id: result of `add`.
            at_ms: wall-clock time.
            outcome: outcome of the event, such as "restarted in {span}".
            level: final severity of the event, if it differs from the initial one.
        """
        place = self._place(id)
        if place is None or not self._events[place].ongoing:
            return
        event = self._events[place]
        self._events[place] = msgspec.structs.replace(
            event,
            ongoing=False,
            until_ms=at_ms,
            outcome=_cut(outcome, MAX_TEXT),
            level=event.level if level is None else level,
        )
        self.version += 1

    def amend(self, id: str, what: str, detail: str, operator: str | None) -> None:
        """Replace an event's description when its real cause is known. Ignore a dropped event."""
        place = self._place(id)
        if place is None:
            return
        event = msgspec.structs.replace(
            self._events[place],
            what=_cut(what, MAX_TEXT),
            detail=_cut(detail, MAX_DETAIL),
            operator=operator,
        )
        if event != self._events[place]:
            self._events[place] = event
            self.version += 1

    def _place(self, id: str) -> int | None:
        places = range(len(self._events) - 1, -1, -1)
        return next((place for place in places if self._events[place].id == id), None)

    def conditions(self, at_ms: int, holding: Mapping[str, OngoingCondition]) -> None:
        """Compare the conditions that hold now with those that held before. A new condition begins an
        event; a condition that no longer holds ends its event.

        Args:
            at_ms: wall-clock time.
            holding: conditions by subject. A subject must not change as long as its condition holds,
                even if the sentence does.
        """
        for subject in [each for each in self._conditions if each not in holding]:
            id, condition = self._conditions.pop(subject)
            self.end(id, at_ms, condition.over)
        for subject, condition in holding.items():
            if subject in self._conditions:
                continue
            since_ms = at_ms if condition.since_ms is None else min(condition.since_ms, at_ms)
            id = self.add(
                since_ms,
                condition.kind,
                condition.what,
                level=condition.level,
                same=f"condition {subject}",
                ongoing=True,
                detail=condition.detail,
                operator=condition.operator,
                subtask=condition.subtask,
            )
            self._conditions[subject] = id, condition

    def _repeats(self, newest: JobEvent, same: str, at_ms: int) -> bool:
        last_ms = newest.at_ms if newest.until_ms is None else newest.until_ms
        return self._sames.get(newest.id) == same and at_ms - last_ms <= REPEATED_WITHIN_MS


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
