"""The effects of a record or a timer on one key and window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rheos.core.errors import UserFunctionError
from rheos.core.graph.state import Time
from rheos.core.graph.window_functions import GLOBAL, Element, Evictor, Trigger, TriggerResult
from rheos.core.operators.contract import Out
from rheos.core.operators.window.triggers.assigning import Bounds
from rheos.core.operators.window.triggers.contents import Contents
from rheos.core.operators.window.triggers.context import NO_WINDOW, WindowScope
from rheos.core.operators.window.triggers.merging_set import MergingSet
from rheos.core.operators.window.triggers.results import FiredWindow, WindowResults
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.safe_strings import shown
from rheos.core.state.timers import TimerService


@dataclass(frozen=True)
class Parts:
    """Trigger, evictor, contents and results, which all windows of one subtask share."""

    trigger: Trigger
    trigger_state: Sequence[Any]
    """Handles of all state that the trigger declares."""
    evictor: Evictor | None
    contents: Contents
    merging: MergingSet | None
    results: WindowResults
    time: Time | None
    """Kind of time that ends windows; None if they do not end."""
    lateness_ms: int
    timers: TimerService
    """Timers of all keys and windows, with which the windows end."""


class WindowLogic:
    """Logic of one window; `scope` selects its key and window."""

    def __init__(self, scope: WindowScope, parts: Parts) -> None:
        self.scope = scope
        self._users: Any = scope
        """The scope, as the untyped context that users' functions receive."""
        self._parts = parts
        self._trigger, self._contents = parts.trigger, parts.contents

    # --- records ----------------------------------------------------------------------------------

    def element(self, record: Any, key: Any, window: Bounds, mark: int) -> Iterator[Out]:
        """Process a record of a window that has not expired. `mark` is the watermark of its split."""
        scope = self.scope
        scope.at(key, window)
        yield from self._add_record(record, window, mark)

    def merging_element(
        self, record: Any, key: Any, new: Bounds, mark: int, passed_ms: int
    ) -> Iterator[Out] | None:
        """Process a record whose window may merge. Return None, without any change, if the merged
        window had expired by the watermark of its split, or by `passed_ms`."""
        scope, merging = self.scope, self._parts.merging
        assert merging is not None
        scope.at(key, NO_WINDOW)
        merged = merging.with_window(new)
        over = self._over_ms(merged.window)
        if self._parts.time == "event_time" and over is not None and over <= max(mark, passed_ms):
            return None
        moved = []
        for place in merged.moved:
            scope.under(place)
            moved.append(self._contents.take())
        scope.under(merged.place)
        for contents in moved:
            self._contents.join(contents)
        scope.under(NO_WINDOW)
        merging.keep(merged.windows)
        scope.at(key, merged.window)
        if merged.replaced:
            scope.merging(merged.replaced, lambda: self._trigger.on_merge(self._users))
            for old in merged.replaced:
                scope.at(key, old)
                self._forget(old)
            scope.at(key, merged.window)
        return self._add_record(record, merged.place, mark)

    def _add_record(self, record: Any, place: Bounds, mark: int) -> Iterator[Out]:
        scope = self.scope
        scope.under(place)
        self._contents.add(record, scope.timestamp)
        scope.under(scope.window)
        self._set_over()
        result = self._checked(self._trigger.on_element(record, self._users))
        yield from self._act(result, place, mark)

    # --- timers -----------------------------------------------------------------------------------

    def timer(self, timestamp: int, key: Any, window: Bounds, time: Time) -> Iterator[Out]:
        """Handle a timer of a key and window that is due."""
        scope, merging = self.scope, self._parts.merging
        place: Bounds | None = window
        if merging is not None:
            scope.at(key, NO_WINDOW)
            place = merging.place_of(window)
            if place is None:
                return
        assert place is not None
        scope.at(key, window)
        if time == "event_time":
            result = self._checked(self._trigger.on_event_time(timestamp, self._users))
        else:
            result = self._checked(self._trigger.on_processing_time(timestamp, self._users))
        yield from self._act(result, place, MIN_TIMESTAMP_MS)
        if time == self._parts.time and timestamp == self._over_ms(window):
            scope.under(place)
            self._contents.clear()
            scope.under(window)
            self._forget(window)
            if merging is not None:
                scope.under(NO_WINDOW)
                merging.drop(window)

    # --- effects on a window ------------------------------------------------------------------------

    def _checked(self, result: Any) -> TriggerResult:
        if not isinstance(result, TriggerResult):
            raise UserFunctionError(
                f"the trigger returned {shown(result)}, but must return a TriggerResult",
                hint="return rh.TriggerResult.CONTINUE, FIRE, PURGE or FIRE_AND_PURGE",
            )
        return result

    def _act(self, result: TriggerResult, place: Bounds, mark: int) -> Iterator[Out]:
        if result is TriggerResult.CONTINUE:
            return
        scope = self.scope
        if result.fires:
            yield from self._fire(place, mark)
        if result.purges:
            scope.under(place)
            self._contents.clear()
            scope.under(scope.window)

    def _fire(self, place: Bounds, mark: int) -> Iterator[Out]:
        scope, parts, evictor = self.scope, self._parts, self._parts.evictor
        scope.under(place)
        elements = self._contents.elements()
        if not elements:
            return
        kept = elements
        if evictor is not None:
            kept = _evicted(evictor.evict_before(list(elements), scope))
        if kept:
            window = scope.window
            timed = parts.time == "event_time"
            stamp = window.end_ms - 1 if timed else scope.timestamp
            fired = FiredWindow(
                scope.key,
                window,
                stamp,
                mark if window == GLOBAL else MIN_TIMESTAMP_MS,
                scope.given_ms,
            )
            scope.clear_key()
            yield from parts.results.add(fired, kept)
            scope.at(fired.key, fired.window)
        if evictor is not None:
            kept = _evicted(evictor.evict_after(list(kept), scope))
            if len(kept) < len(elements):
                scope.under(place)
                self._contents.replace(kept)

    def _over_ms(self, window: Bounds) -> int | None:
        """Return the time at which a window ends by its clock; None if it never ends."""
        if self._parts.time is None:
            return None
        return window[1] - 1 + (self._parts.lateness_ms if self._parts.time == "event_time" else 0)

    def _set_over(self) -> None:
        over = self._over_ms(self.scope.window)
        if over is not None:
            if self._parts.time == "event_time":
                self._parts.timers.register(over)
            else:
                self._parts.timers.register_processing(over)

    def _forget(self, window: Bounds) -> None:
        """Remove the state of the current window, which has expired or become part of another."""
        self._trigger.clear(self._users)
        for state in self._parts.trigger_state:
            state.clear()
        over = self._over_ms(window)
        if over is not None:
            if self._parts.time == "event_time":
                self._parts.timers.delete(over)
            else:
                self._parts.timers.delete_processing(over)


def _evicted(given: Any) -> list[Element]:
    """Check the result of an evictor, and return its elements."""
    kept: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    strange = [element for element in kept if not isinstance(element, Element)]
    if strange:
        raise UserFunctionError(
            f"the evictor returned {shown(strange[0])}, but must return the elements to keep",
            hint="return some of the elements that it received, such as elements[-10:]",
        )
    return kept
