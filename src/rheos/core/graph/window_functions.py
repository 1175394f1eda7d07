"""Base classes of the user's window assigners, triggers and evictors, and their contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol

from rheos.core.graph.functions import Timers, TimeWindow
from rheos.core.graph.state import Time
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

GLOBAL = TimeWindow(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS)
"""The one window of each key where time does not cut."""


class TriggerResult(Enum):
    """The action for a window."""

    CONTINUE = (False, False)
    """Nothing, for now."""
    FIRE = (True, False)
    """The window emits its result, and keeps its records."""
    PURGE = (False, True)
    """The window drops its records, without a result."""
    FIRE_AND_PURGE = (True, True)

    @property
    def fires(self) -> bool:
        """Whether the window emits its result."""
        return self.value[0]

    @property
    def purges(self) -> bool:
        """Whether what the window holds is dropped, after the result if there is one."""
        return self.value[1]


class TriggerContext(Protocol):
    """The context of a trigger, for one key and window."""

    key: Any
    window: TimeWindow
    timestamp: int
    """The event timestamp of the record or of the timer, in ms since the epoch. None for a record of a
    stream without event time."""
    timers: Timers
    """The timers of the key and window: `register(ms)` has `on_event_time` called,
    `register_processing(ms)` has `on_processing_time` called; `delete` and `delete_processing`."""

    @property
    def watermark(self) -> int:
        """How far event time has come, in ms since the epoch."""
        ...

    @property
    def processing_time(self) -> int:
        """The wall clock, in ms since the epoch."""
        ...

    def merged(self) -> Iterator[TimeWindow]:
        """Iterate in `on_merge` over the windows that were merged. At each of them, the trigger's state
        is that window's; after the last, it is the state of the new window."""
        ...


class Trigger:
    """Decides when a window emits its result, and when it drops its records.

    State is declared as class attributes, as in a KeyedProcessFunction, and kept by key and window.
    When the window ends, its state and its timers are dropped.

    ```python
    class AtAnAlarm(rh.Trigger):
        alarms = rh.ValueState(int, default=0)

        def on_element(self, record: Reading, ctx: rh.TriggerContext) -> rh.TriggerResult:
            self.alarms.value += record.alarm
            return rh.TriggerResult.FIRE if self.alarms.value == 3 else rh.TriggerResult.CONTINUE
    ```
    """

    def on_element(self, record: Any, ctx: TriggerContext) -> TriggerResult:
        """Called for each record that has come into a window, which holds it by now."""
        raise NotImplementedError

    def on_event_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        """Called when a timer of event time is due."""
        return TriggerResult.CONTINUE

    def on_processing_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        """Called when a timer of the wall clock is due."""
        return TriggerResult.CONTINUE

    def on_merge(self, ctx: TriggerContext) -> None:
        """Called when windows have become one, `ctx.window`: joins their state (`ctx.merged()`), and
        sets the timers of the new one. A trigger without it takes no windows that merge."""
        raise NotImplementedError

    def clear(self, ctx: TriggerContext) -> None:
        """Called when the window is over, or has become a part of another: deletes its timers. State
        that is declared is dropped after it."""

    def parts(self) -> dict[str, Trigger]:
        """The triggers that this one is made of, by attribute."""
        return {name: part for name, part in vars(self).items() if isinstance(part, Trigger)}

    def unmerging(self) -> Trigger | None:
        """The first that takes no windows that merge, of itself and its parts."""
        if type(self).on_merge is Trigger.on_merge:
            return self
        found = (part.unmerging() for part in self.parts().values())
        return next((part for part in found if part is not None), None)


class Element(NamedTuple):
    """A record in a window, with its event timestamp in ms; None where the stream has no event time."""

    record: Any
    timestamp: int | None


class EvictorContext(Protocol):
    """The context of an evictor, for one key and a window that fires."""

    key: Any
    """The key's value, or a tuple of the values where there are several key columns."""
    window: TimeWindow

    @property
    def watermark(self) -> int:
        """How far event time has come, in ms since the epoch."""
        ...

    @property
    def processing_time(self) -> int:
        """The wall clock, in ms since the epoch."""
        ...


class Evictor:
    """Drops records from a window as it fires. A window with an evictor keeps all its records.

    Elements come in the order in which they came into the window. What is given back is what stays.
    """

    def evict_before(self, elements: list[Element], ctx: EvictorContext) -> Iterable[Element]:
        """Return the elements to compute the result from. Called before the result is computed."""
        return elements

    def evict_after(self, elements: list[Element], ctx: EvictorContext) -> Iterable[Element]:
        """Called after the result was computed, with what `evict_before` gave back."""
        return elements


class AssignerContext(Protocol):
    """The context of an assigner."""

    @property
    def processing_time(self) -> int:
        """The wall clock, in ms since the epoch."""
        ...


class WindowAssigner:
    """Says which windows a record is in: `key_by(...).window(MyAssigner())`.

    ```python
    class Shifts(rh.WindowAssigner):
        def assign(self, record, timestamp: int, ctx) -> list[rh.TimeWindow]:
            start = timestamp - timestamp % EIGHT_HOURS
            return [rh.TimeWindow(start, start + EIGHT_HOURS)]
    ```
    """

    time: ClassVar[Time] = "event_time"
    """The clock that windows end by."""
    merges: ClassVar[bool] = False
    """Whether windows of a key that meet or touch become one."""

    def assign(self, record: Any, timestamp: int, ctx: AssignerContext) -> Sequence[TimeWindow]:
        """The windows of a record; none leaves it out. `timestamp` is the event timestamp, or the wall
        clock where windows end by that."""
        raise NotImplementedError

    def default_trigger(self) -> Trigger | None:
        """Return the trigger of its windows if the program specifies none. With None, they fire at
        their ends."""
        return None
