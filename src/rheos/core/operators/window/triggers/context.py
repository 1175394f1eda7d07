"""Contexts of triggers, evictors, assigners and window functions: one key and window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rheos.core.graph.functions import TimeWindow
from rheos.core.operators.window.triggers.assigning import Bounds
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.state.scope import NO_KEY, KeyScope

NO_WINDOW: Bounds = (0, 0)
"""Namespace of state that belongs to the key alone. No window has it, because no window is empty."""


class WindowScope:
    """The context of all calls of a subtask. It sets the backend's scope, whose key is the stream's key
    followed by the window."""

    __slots__ = (
        "_keys",
        "_merged",
        "_scope",
        "given_ms",
        "key",
        "reached_ms",
        "timers",
        "timestamp",
        "watermark_ms",
        "window",
    )

    timers: Any

    def __init__(self, scope: KeyScope, keys: int) -> None:
        self._scope = scope
        self._keys = keys
        self._merged: Sequence[Bounds] = ()
        self.key: Any = None
        self.window = TimeWindow(*NO_WINDOW)
        self.timestamp: int | None = None
        self.watermark_ms = MIN_TIMESTAMP_MS
        """Current event time."""
        self.reached_ms: int = MIN_TIMESTAMP_MS
        """Watermark of the current call."""
        self.given_ms: int = MIN_TIMESTAMP_MS
        """Event time of the stream before the output of the current call."""

    @property
    def watermark(self) -> int:
        return self.reached_ms

    @property
    def processing_time(self) -> int:
        return self._scope.processing_time

    # --- methods of the operator --------------------------------------------------------------------

    def clear_key(self) -> None:
        """Clear the key, so that state and timers cannot be used."""
        self._scope.key = NO_KEY

    def at(self, key: Any, window: Bounds) -> None:
        """Set the key and window of the next call."""
        self.key, self.window = key, TimeWindow(*window)
        self._scope.key = self.stored(key, window)

    def stored(self, key: Any, window: Bounds) -> tuple[Any, ...]:
        """Return the backend's key for a key and window."""
        return (key, *window) if self._keys == 1 else (*key, *window)

    def parted(self, stored: tuple[Any, ...]) -> tuple[Any, Bounds]:
        """Return the key and window of a backend's key."""
        key = stored[0] if self._keys == 1 else stored[:-2]
        return key, (stored[-2], stored[-1])

    def under(self, window: Bounds) -> None:
        """Select the state of the current key and this window. Users' functions see no change."""
        self._scope.key = self.stored(self.key, window)

    def merging(self, merged: Sequence[Bounds], call: Callable[[], object]) -> None:
        """Make a call during which `merged` yields the windows that were merged into the current
        one."""
        self._merged = merged
        try:
            call()
        finally:
            self._merged = ()
            self.under(self.window)

    def merged(self) -> Iterator[TimeWindow]:
        try:
            for window in self._merged:
                self.under(window)
                yield TimeWindow(*window)
        finally:
            self.under(self.window)
