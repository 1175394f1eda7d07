"""Base classes of the user's window assigners, triggers and evictors, and their contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol

from rheos.core.graph.functions import Timers, TimeWindow
from rheos.core.graph.state import Time
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

GLOBAL = TimeWindow(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS)
"""The single window of each key if time does not divide the rows."""


class TriggerResult(Enum):
    """The action of a trigger for a window."""

    CONTINUE = (False, False)
    """The window does nothing for now."""
    FIRE = (True, False)
    """The window emits its result, and keeps its records."""
    PURGE = (False, True)
    """The window drops its records, without a result."""
    FIRE_AND_PURGE = (True, True)

    @property
    def fires(self) -> bool:
        """Return whether the window emits its result."""
        return self.value[0]

    @property
    def purges(self) -> bool:
        """Return whether the window's content is dropped, after the result if there is one."""
        return self.value[1]


class TriggerContext(Protocol):
    """The context of a trigger, for one key and window."""

    key: Any
    window: TimeWindow
    timestamp: int
    """Event timestamp of the record or timer, in ms since the epoch; None for a record of a stream
    without event time."""
    timers: Timers
    """Timers of the key and window: `register(ms)` for a call of `on_event_time`,
    `register_processing(ms)` for a call of `on_processing_time`; also `delete` and `delete_processing`.
    """

    @property
    def watermark(self) -> int:
        """Return the watermark, in ms since the epoch."""
        ...

    @property
    def processing_time(self) -> int:
        """Return the wall-clock time, in ms since the epoch."""
        ...

    def merged(self) -> Iterator[TimeWindow]:
        """Iterate in `on_merge` over the windows that were merged. At each of them, the trigger's state
        is that window's; after the last, it is the state of the new window."""
        ...


class Trigger:
    """Decides when a window emits its result, and when it drops its records.

    State is declared as class attributes, as in a KeyedProcessFunction, and is stored per key and
    window. When the window ends, its state and its timers are dropped.

    ```python
    class AtAnAlarm(rh.Trigger):
        alarms = rh.ValueState(int, default=0)

        def on_element(self, record: Reading, ctx: rh.TriggerContext) -> rh.TriggerResult:
            self.alarms.value += record.alarm
            return rh.TriggerResult.FIRE if self.alarms.value == 3 else rh.TriggerResult.CONTINUE
    ```
    """

    def on_element(self, record: Any, ctx: TriggerContext) -> TriggerResult:
        """Decide after a record was added to a window. Called for each record and window."""
        raise NotImplementedError

    def on_event_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        """Decide when an event-time timer is due."""
        return TriggerResult.CONTINUE

    def on_processing_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        """Decide when a processing-time timer is due."""
        return TriggerResult.CONTINUE

    def on_merge(self, ctx: TriggerContext) -> None:
        """Handle windows that were merged into one, `ctx.window`: merge their state (`ctx.merged()`),
        and set the timers of the new window. A trigger without this method does not support merging
        windows."""
        raise NotImplementedError

    def clear(self, ctx: TriggerContext) -> None:
        """Delete the timers of a window that has ended, or was merged into another. Declared state is
        dropped afterwards."""

    def parts(self) -> dict[str, Trigger]:
        """Return the triggers that this one consists of, by attribute."""
        return {name: part for name, part in vars(self).items() if isinstance(part, Trigger)}

    def unmerging(self) -> Trigger | None:
        """Return the first trigger that does not support merging windows, of this one and its parts;
        None if all do."""
        if type(self).on_merge is Trigger.on_merge:
            return self
        found = (part.unmerging() for part in self.parts().values())
        return next((part for part in found if part is not None), None)


class Element(NamedTuple):
    """A record in a window, with its event timestamp in ms; None if the stream has no event time."""

    record: Any
    timestamp: int | None


class EvictorContext(Protocol):
    """The context of an evictor, for one key and a window that fires."""

    key: Any
    """Value of the key, or a tuple of values if there are several key columns."""
    window: TimeWindow

    @property
    def watermark(self) -> int:
        """Return the watermark, in ms since the epoch."""
        ...

    @property
    def processing_time(self) -> int:
        """Return the wall-clock time, in ms since the epoch."""
        ...


class Evictor:
    """Drops records from a window when it fires. A window with an evictor keeps all its records.

    Elements are passed in the order of their arrival in the window. Those that a method returns are
    kept.
    """

    def evict_before(self, elements: list[Element], ctx: EvictorContext) -> Iterable[Element]:
        """Return the elements from which to compute the result. Called before the result is
        computed."""
        return elements

    def evict_after(self, elements: list[Element], ctx: EvictorContext) -> Iterable[Element]:
        """Return the elements to keep. Called after the result was computed, with the elements that
        `evict_before` returned."""
        return elements


class AssignerContext(Protocol):
    """The context of an assigner."""

    @property
    def processing_time(self) -> int:
        """Return the wall-clock time, in ms since the epoch."""
        ...


class WindowAssigner:
    """Assigns records to windows: `key_by(...).window(MyAssigner())`.

    ```python
    class Shifts(rh.WindowAssigner):
        def assign(self, record, timestamp: int, ctx) -> list[rh.TimeWindow]:
            start = timestamp - timestamp % EIGHT_HOURS
            return [rh.TimeWindow(start, start + EIGHT_HOURS)]
    ```
    """

    time: ClassVar[Time] = "event_time"
    """Clock that decides when windows end."""
    merges: ClassVar[bool] = False
    """Whether windows of a key that overlap or touch are merged."""

    def assign(self, record: Any, timestamp: int, ctx: AssignerContext) -> Sequence[TimeWindow]:
        """Return the windows of a record; without any, the record is dropped. `timestamp` is the event
        timestamp, or the wall-clock time if windows end by processing time."""
        raise NotImplementedError

    def default_trigger(self) -> Trigger | None:
        """Return the trigger of its windows if the program specifies none. With None, they fire at
        their ends."""
        return None
