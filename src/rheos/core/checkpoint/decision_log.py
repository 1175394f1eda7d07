"""Decision log of a job's coordinator: events, the resulting actions, and the state of the job.

The log is bounded: it has the last thousand events that had an effect. It stores each event as a short
string, and keeps no reference to events and actions. Equal reports of consecutive subtasks become one
line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence, Sized
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

from rheos.core.errors import RheosError
from rheos.core.protocol.control import Cost, Totals
from rheos.core.redaction import redacted

KEPT = 1000
MAX_TEXT = 300
"""Maximum length of an event's string, and of the string of all its actions."""
_MAX_VALUE = 60


class CoordinatorDecision(NamedTuple):
    """An event, and the actions that followed from it."""

    wall_ms: int
    """Wall-clock time, ms since the epoch."""
    state: str
    """State of the job after the event."""
    event: str
    actions: str
    """Actions that followed; empty if there were none."""
    kind: str
    """Key of the event: consecutive events with the same key become one line."""
    times: int = 1

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        times = f" ({self.times} times)" if self.times > 1 else ""
        actions = f" -> {self.actions}" if self.actions else ""
        return f"{at}Z {self.state:<10} {self.event}{times}{actions}"


class DecisionLog:
    """The decisions of one coordinator."""

    def __init__(self) -> None:
        self._decisions: deque[CoordinatorDecision] = deque(maxlen=KEPT)

    def decisions(self) -> tuple[CoordinatorDecision, ...]:
        """Return the decisions, the oldest first."""
        return tuple(self._decisions)

    def note(self, wall_ms: int, event: object, actions: Sequence[object], state: Enum) -> None:
        happened = text_of(event)
        done = _cut("; ".join(map(text_of, actions)))
        kind = f"{type(event).__name__} {getattr(event, 'checkpoint', '')}"
        decision = CoordinatorDecision(wall_ms, state.name, happened, done, kind)
        last = self._decisions[-1] if self._decisions else None
        quiet = last is not None and not done and not last.actions
        if last is not None and quiet and (last.kind, last.state) == (kind, decision.state):
            self._decisions[-1] = decision._replace(times=last.times + 1)
        else:
            self._decisions.append(decision)


def text_of(part: object) -> str:
    """Return a short string for an event or an action: its kind, and the fields that have a value.

    >>> from rheos.core.checkpoint.events import LogAppended
    >>> text_of(LogAppended(7))
    'LogAppended(number=7)'
    """
    fields: Iterable[str] = getattr(part, "__struct_fields__", ())
    fields = fields or getattr(part, "__dataclass_fields__", ())
    values = ((name, _value(getattr(part, name))) for name in fields)
    return _cut(f"{type(part).__name__}({', '.join(f'{name}={v}' for name, v in values if v)})")


def _value(value: object) -> str:
    """Return a short string for a value; empty for one without information."""
    match value:
        case None | False | "" | Totals() | Cost():
            return ""
        case bool() | int() | float():
            return str(value)
        case Enum():
            return value.name
        case str():
            return _cut(redacted(value), _MAX_VALUE)
        case RheosError():
            return f"{type(value).__name__}: {_cut(value.what, MAX_TEXT // 2)}"
        case Sized():
            return f"[{len(value)}]" if len(value) else ""
    checkpoint = getattr(
        value, "checkpoint", getattr(getattr(value, "entry", None), "checkpoint", None)
    )
    return type(value).__name__ + (f" {checkpoint}" if isinstance(checkpoint, int) else "")


def _cut(text: str, most: int = MAX_TEXT) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 3]}..."
