"""The story of a job's coordinator: which events led to which actions, in which state of the job.

Bounded: the last thousand events that did anything, each as one short text made when it happened; no
event and no action is kept alive by it. Subtasks that report the same one after the other are one line.
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
"""Characters of one event, or of all actions that followed from one."""
_MAX_VALUE = 60


class Chapter(NamedTuple):
    """One event, and what followed from it."""

    wall_ms: int
    """Wall-clock time, ms since the epoch."""
    state: str
    """Of the job, behind the event."""
    event: str
    actions: str
    """Empty where nothing was to be done."""
    kind: str
    """What events of the same kind have in common, of which several may be one line."""
    times: int = 1

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        times = f" ({self.times} times)" if self.times > 1 else ""
        actions = f" -> {self.actions}" if self.actions else ""
        return f"{at}Z {self.state:<10} {self.event}{times}{actions}"


class Story:
    """Of one coordinator."""

    def __init__(self) -> None:
        self._chapters: deque[Chapter] = deque(maxlen=KEPT)

    def chapters(self) -> tuple[Chapter, ...]:
        """The oldest first."""
        return tuple(self._chapters)

    def note(self, wall_ms: int, event: object, actions: Sequence[object], state: Enum) -> None:
        happened = text_of(event)
        done = _cut("; ".join(map(text_of, actions)))
        kind = f"{type(event).__name__} {getattr(event, 'checkpoint', '')}"
        chapter = Chapter(wall_ms, state.name, happened, done, kind)
        last = self._chapters[-1] if self._chapters else None
        quiet = last is not None and not done and not last.actions
        if last is not None and quiet and (last.kind, last.state) == (kind, chapter.state):
            self._chapters[-1] = chapter._replace(times=last.times + 1)
        else:
            self._chapters.append(chapter)


def text_of(part: object) -> str:
    """An event or an action in short: its kind, and those of its fields that say something.

    >>> from rheos.core.checkpoint.events import LogAppended
    >>> text_of(LogAppended(7))
    'LogAppended(number=7)'
    """
    fields: Iterable[str] = getattr(part, "__struct_fields__", ())
    fields = fields or getattr(part, "__dataclass_fields__", ())
    values = ((name, _value(getattr(part, name))) for name in fields)
    return _cut(f"{type(part).__name__}({', '.join(f'{name}={v}' for name, v in values if v)})")


def _value(value: object) -> str:
    """Empty where it says nothing."""
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
