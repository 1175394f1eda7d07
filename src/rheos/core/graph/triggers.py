"""The built-in triggers. Users know this module as `rh.triggers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rheos.core.errors import ProgramError
from rheos.core.graph.state import ValueState
from rheos.core.graph.window_functions import Trigger, TriggerContext, TriggerResult
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.site import call_site

__all__ = [
    "continuous_event_time",
    "continuous_processing_time",
    "count",
    "delta",
    "event_time",
    "never",
    "processing_time",
    "purging",
]


CONTINUE = TriggerResult.CONTINUE


def event_time(early: Trigger | None = None, late: Trigger | None = None) -> Trigger:
    """Return a trigger that fires when the watermark passes the end of the window, and again for each
    later record.

    ```python
    rh.triggers.event_time(
        early=rh.triggers.continuous_processing_time("10s"), late=rh.triggers.count(100)
    )
    ```

    Args:
        early: Trigger that also fires before the end.
        late: Trigger that fires after the end, instead of each late record.

    Returns:
        The trigger.
    """
    return EventTimeTrigger(_trigger(early, "early"), _trigger(late, "late"))


def processing_time() -> Trigger:
    """Return a trigger that fires when processing time passes the end of the window.

    ```python
    windows.trigger(rh.triggers.processing_time())
    ```

    Returns:
        The trigger.
    """
    return ProcessingTimeTrigger()


def count(n: int) -> Trigger:
    """Return a trigger that fires at every n-th record of the window.

    ```python
    windows.trigger(rh.triggers.count(100))
    ```

    Args:
        n: Number of records, at least 1.

    Returns:
        The trigger.

    Raises:
        ProgramError: `n` is not a whole number of at least 1.
    """
    if not isinstance(n, int) or n < 1:
        raise ProgramError(f"count({n!r}) must take an integer of at least 1", site=call_site())
    return CountTrigger(n)


def continuous_event_time(every: Duration) -> Trigger:
    """Return a trigger that fires when the watermark passes a multiple of `every` since the epoch, and
    at the end of the window.

    ```python
    windows.trigger(rh.triggers.continuous_event_time("10m"))
    ```

    Args:
        every: The interval, in event time.

    Returns:
        The trigger.
    """
    return ContinuousEventTimeTrigger(_interval(every))


def continuous_processing_time(every: Duration) -> Trigger:
    """Return a trigger that fires when processing time passes a multiple of `every` since the epoch.

    ```python
    windows.trigger(rh.triggers.continuous_processing_time("10s"))
    ```

    Args:
        every: The interval, in processing time.

    Returns:
        The trigger.
    """
    return ContinuousProcessingTimeTrigger(_interval(every))


def delta(of: Callable[[Any], float], threshold: float) -> Trigger:
    """Return a trigger that fires when `of(record)` differs by more than `threshold` from its value
    when the trigger last fired. Before the first firing, the trigger compares with the value of the
    first record.

    ```python
    rh.triggers.delta(lambda trade: trade.price, threshold=10.0)
    ```

    Args:
        of: Function that returns the number of a record.
        threshold: Difference above which the trigger fires.

    Returns:
        The trigger.

    Raises:
        ProgramError: `of` cannot be called.
    """
    if not callable(of):
        raise ProgramError(
            f"delta() takes a function of a record, not {of!r}",
            site=call_site(),
            hint="write rh.triggers.delta(lambda trade: trade.price, 10.0)",
        )
    return DeltaTrigger(of, float(threshold))


def purging(trigger: Trigger) -> Trigger:
    """Return a trigger that fires when another does, and drops the window's records each time.

    ```python
    windows.trigger(rh.triggers.purging(rh.triggers.count(100)))
    ```

    Args:
        trigger: The other trigger.

    Returns:
        The trigger.

    Raises:
        ProgramError: `trigger` is not a trigger.
    """
    inner = _trigger(trigger, "trigger")
    if inner is None:
        raise ProgramError("purging() takes a trigger", site=call_site())
    return PurgingTrigger(inner)


def never() -> Trigger:
    """Return a trigger that never fires.

    ```python
    rh.triggers.event_time(late=rh.triggers.never())
    ```

    Returns:
        The trigger.
    """
    return NeverTrigger()


def _trigger(given: Any, name: str) -> Trigger | None:
    if given is not None and not isinstance(given, Trigger):
        raise ProgramError(
            f"{name}={given!r} is not a trigger",
            site=call_site(),
            hint="write rh.triggers.count(100), or an instance of a class that derives from rh.Trigger",
        )
    return given


def _interval(every: Duration) -> int:
    ms = duration_ms(every)
    if ms <= 0:
        raise ProgramError(
            f"the interval of a trigger must be positive, not {every!r}",
            site=call_site(),
            hint='write "10s"',
        )
    return ms


class EventTimeTrigger(Trigger):
    def __init__(self, early: Trigger | None = None, late: Trigger | None = None) -> None:
        self.early, self.late = early, late

    def on_element(self, record: Any, ctx: TriggerContext) -> TriggerResult:
        if ctx.window.end_ms - 1 > ctx.watermark:
            ctx.timers.register(ctx.window.end_ms - 1)
            return CONTINUE if self.early is None else self.early.on_element(record, ctx)
        return TriggerResult.FIRE if self.late is None else self.late.on_element(record, ctx)

    def on_event_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        if timestamp == ctx.window.end_ms - 1:
            return TriggerResult.FIRE
        now = self.early if timestamp < ctx.window.end_ms else self.late
        return CONTINUE if now is None else now.on_event_time(timestamp, ctx)

    def on_processing_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        now = self.early if ctx.window.end_ms - 1 > ctx.watermark else self.late
        return CONTINUE if now is None else now.on_processing_time(timestamp, ctx)

    def on_merge(self, ctx: TriggerContext) -> None:
        if ctx.window.end_ms - 1 > ctx.watermark:
            ctx.timers.register(ctx.window.end_ms - 1)
        for part in self.parts().values():
            part.on_merge(ctx)

    def clear(self, ctx: TriggerContext) -> None:
        ctx.timers.delete(ctx.window.end_ms - 1)
        for part in self.parts().values():
            part.clear(ctx)

    def __str__(self) -> str:
        parts = ", ".join(f"{name}={part}" for name, part in self.parts().items())
        return f"event_time({parts})"


class ProcessingTimeTrigger(Trigger):
    def on_element(self, record: Any, ctx: TriggerContext) -> TriggerResult:
        ctx.timers.register_processing(ctx.window.end_ms - 1)
        return CONTINUE

    def on_processing_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_merge(self, ctx: TriggerContext) -> None:
        ctx.timers.register_processing(ctx.window.end_ms - 1)

    def clear(self, ctx: TriggerContext) -> None:
        ctx.timers.delete_processing(ctx.window.end_ms - 1)

    def __str__(self) -> str:
        return "processing_time()"


class CountTrigger(Trigger):
    seen = ValueState(int, default=0)

    def __init__(self, n: int) -> None:
        self.n = n

    def on_element(self, record: Any, ctx: TriggerContext) -> TriggerResult:
        seen = self.seen.value + 1
        if seen < self.n:
            self.seen.value = seen
            return CONTINUE
        self.seen.clear()
        return TriggerResult.FIRE

    def on_merge(self, ctx: TriggerContext) -> None:
        seen = sum(self.seen.value for _ in ctx.merged())
        self.seen.value += seen

    def __str__(self) -> str:
        return f"count({self.n})"


class ContinuousEventTimeTrigger(Trigger):
    due: ValueState[int | None] = ValueState(int)

    def __init__(self, every_ms: int) -> None:
        self.every_ms = every_ms

    def on_element(self, record: Any, ctx: TriggerContext) -> TriggerResult:
        last = ctx.window.end_ms - 1
        if last <= ctx.watermark:
            return TriggerResult.FIRE
        ctx.timers.register(last)
        if self.due.value is None:
            start = ctx.timestamp - ctx.timestamp % self.every_ms
            self._set(start + self.every_ms, ctx)
        return CONTINUE

    def on_event_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        last = ctx.window.end_ms - 1
        if timestamp == self.due.value:
            self.due.clear()
            if timestamp < last:
                self._set(timestamp + self.every_ms, ctx)
            return TriggerResult.FIRE
        return TriggerResult.FIRE if timestamp == last else TriggerResult.CONTINUE

    def _set(self, due: int, ctx: TriggerContext) -> None:
        due = min(due, ctx.window.end_ms - 1)
        self.due.value = due
        ctx.timers.register(due)

    def on_merge(self, ctx: TriggerContext) -> None:
        of_merged = [self.due.value for _ in ctx.merged()]
        due = [at for at in (*of_merged, self.due.value) if at is not None]
        if due:
            self._set(min(due), ctx)
        if ctx.window.end_ms - 1 > ctx.watermark:
            ctx.timers.register(ctx.window.end_ms - 1)

    def clear(self, ctx: TriggerContext) -> None:
        ctx.timers.delete(ctx.window.end_ms - 1)
        if self.due.value is not None:
            ctx.timers.delete(self.due.value)

    def __str__(self) -> str:
        return f"continuous_event_time({self.every_ms} ms)"


class ContinuousProcessingTimeTrigger(Trigger):
    due: ValueState[int | None] = ValueState(int)

    def __init__(self, every_ms: int) -> None:
        self.every_ms = every_ms

    def on_element(self, record: Any, ctx: TriggerContext) -> TriggerResult:
        if self.due.value is None:
            now = ctx.processing_time
            self._set(now - now % self.every_ms + self.every_ms, ctx)
        return CONTINUE

    def on_processing_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        if timestamp != self.due.value:
            return CONTINUE
        self._set(timestamp + self.every_ms, ctx)
        return TriggerResult.FIRE

    def _set(self, due: int, ctx: TriggerContext) -> None:
        self.due.value = due
        ctx.timers.register_processing(due)

    def on_merge(self, ctx: TriggerContext) -> None:
        of_merged = [self.due.value for _ in ctx.merged()]
        due = [at for at in (*of_merged, self.due.value) if at is not None]
        if due:
            self._set(min(due), ctx)

    def clear(self, ctx: TriggerContext) -> None:
        if self.due.value is not None:
            ctx.timers.delete_processing(self.due.value)

    def __str__(self) -> str:
        return f"continuous_processing_time({self.every_ms} ms)"


class DeltaTrigger(Trigger):
    last: ValueState[float | None] = ValueState(float)

    def __init__(self, of: Callable[[Any], float], threshold: float) -> None:
        self.of, self.threshold = of, threshold

    def on_element(self, record: Any, ctx: TriggerContext) -> TriggerResult:
        now, last = float(self.of(record)), self.last.value
        if last is None:
            self.last.value = now
        elif abs(now - last) > self.threshold:
            self.last.value = now
            return TriggerResult.FIRE
        return CONTINUE

    def __str__(self) -> str:
        return f"delta({self.threshold})"


class PurgingTrigger(Trigger):
    def __init__(self, trigger: Trigger) -> None:
        self.trigger = trigger

    def on_element(self, record: Any, ctx: TriggerContext) -> TriggerResult:
        return _purged(self.trigger.on_element(record, ctx))

    def on_event_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        return _purged(self.trigger.on_event_time(timestamp, ctx))

    def on_processing_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        return _purged(self.trigger.on_processing_time(timestamp, ctx))

    def on_merge(self, ctx: TriggerContext) -> None:
        self.trigger.on_merge(ctx)

    def clear(self, ctx: TriggerContext) -> None:
        self.trigger.clear(ctx)

    def __str__(self) -> str:
        return f"purging({self.trigger})"


class NeverTrigger(Trigger):
    def on_element(self, record: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_merge(self, ctx: TriggerContext) -> None:
        pass

    def __str__(self) -> str:
        return "never()"


def _purged(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.fires else result
