"""Base classes of users' window assigners, triggers and evictors, and their contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol

from rheos.core.graph.functions import Timers, TimeWindow
from rheos.core.graph.state import Time
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

GLOBAL = TimeWindow(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS)
"""The only window of a key if rows are not divided by time."""


class TriggerResult(Enum):
    """The action that a trigger requests for a window."""

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
        """Yield the windows that were merged, for use in `on_merge`.

        During the iteration, the trigger's state is that of the current window. After it, the state is
        that of the new window.
        """
        ...


class Trigger:
    """A policy for when a window emits its result, and when it drops its records.

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
        """Decide what to do after a record. The window already contains it.

        Args:
            record: The record: an instance of the annotated dataclass, or a row with its columns.
            ctx: The context: key, window, time and timers.

        Returns:
            Whether the window fires, and whether it drops its records.
        """
        raise NotImplementedError

    def on_event_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        """Decide what to do when a timer of event time is due.

        Args:
            timestamp: The time of the timer, in ms since the epoch.
            ctx: The context: key, window, time and timers.

        Returns:
            Whether the window fires, and whether it drops its records.
        """
        return TriggerResult.CONTINUE

    def on_processing_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        """Decide what to do when a timer of processing time is due.

        Args:
            timestamp: The time of the timer, in ms since the epoch.
            ctx: The context: key, window, time and timers.

        Returns:
            Whether the window fires, and whether it drops its records.
        """
        return TriggerResult.CONTINUE

    def on_merge(self, ctx: TriggerContext) -> None:
        """Combine the state of merged windows (`ctx.merged()`), and register the new window's timers.

        A trigger without it does not support windows that merge.

        Args:
            ctx: The context of the new window.
        """
        raise NotImplementedError

    def clear(self, ctx: TriggerContext) -> None:
        """Delete the timers of a window that has ended or was merged. Declared state is dropped after
        it.

        Args:
            ctx: The context of the window.
        """

    def parts(self) -> dict[str, Trigger]:
        """Return the triggers that this one consists of, by attribute."""
        return {name: part for name, part in vars(self).items() if isinstance(part, Trigger)}

    def unmerging(self) -> Trigger | None:
        """Return the first of this trigger and its parts that does not support windows that merge."""
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
    """A policy that drops records from a firing window. A window with an evictor keeps all records.

    The methods receive records in the order of their arrival in the window, and return those to keep.

    ```python
    class Dear(rh.Evictor):
        def evict_before(self, elements: list[rh.Element], ctx: rh.EvictorContext) -> list[rh.Element]:
            return [each for each in elements if each.record.price > 10]

    windows.evictor(Dear())
    ```
    """

    def evict_before(self, elements: list[Element], ctx: EvictorContext) -> Iterable[Element]:
        """Select the records from which the result is computed. The window calls it as it fires.

        Args:
            elements: The records of the window, in the order in which they arrived.
            ctx: The context: key and window.

        Returns:
            The records to keep.
        """
        return elements

    def evict_after(self, elements: list[Element], ctx: EvictorContext) -> Iterable[Element]:
        """Select the records that the window keeps. The window calls it after it has computed the
        result.

        Args:
            elements: The records that `evict_before` has returned.
            ctx: The context: key and window.

        Returns:
            The records to keep.
        """
        return elements


class AssignerContext(Protocol):
    """The context of an assigner."""

    @property
    def processing_time(self) -> int:
        """Return the wall-clock time, in ms since the epoch."""
        ...


class WindowAssigner:
    """An assigner of records to windows: `key_by(...).window(MyAssigner())`.

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
        """Return the windows of a record.

        Args:
            record: The record: an instance of the annotated dataclass, or a row with its columns.
            timestamp: Its event time; for windows of processing time, the current time. In ms since the
                epoch.
            ctx: The context: key and processing time.

        Returns:
            The windows; an empty list drops the record.
        """
        raise NotImplementedError

    def default_trigger(self) -> Trigger | None:
        """Return the windows' trigger if the program specifies none. Return None if the windows fire at
        their ends."""
        return None
