"""Contexts of triggers, evictors, assigners and window functions: one key and window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rheos.core.graph.functions import TimeWindow
from rheos.core.operators.window.triggered.assigning import Bounds
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.state.scope import NO_KEY, KeyScope
from rheos.core.state.timers import TimerService

NO_WINDOW: Bounds = (0, 0)
"""Namespace of state that belongs to the key alone. No window is empty."""


class WindowScope:
    """One object serves all calls. It sets the scope of the backend: a key there is that of the stream,
    and then the window."""

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

    timers: TimerService

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
        """The watermark of the current call."""
        self.given_ms: int = MIN_TIMESTAMP_MS
        """Event time of the stream before the output of the current call."""

    @property
    def watermark(self) -> int:
        return self.reached_ms

    @property
    def processing_time(self) -> int:
        return self._scope.processing_time

    # --- the operator's ---------------------------------------------------------------------------

    def nowhere(self) -> None:
        """State and timers cannot be used."""
        self._scope.key = NO_KEY

    def at(self, key: Any, window: Bounds) -> None:
        """A call of that key and window follows."""
        self.key, self.window = key, TimeWindow(*window)
        self._scope.key = self.stored(key, window)

    def stored(self, key: Any, window: Bounds) -> tuple[Any, ...]:
        """The key of the backend."""
        return (key, *window) if self._keys == 1 else (*key, *window)

    def parted(self, stored: tuple[Any, ...]) -> tuple[Any, Bounds]:
        """Key and window of a key of the backend."""
        key = stored[0] if self._keys == 1 else stored[:-2]
        return key, (stored[-2], stored[-1])

    def under(self, window: Bounds) -> None:
        """State is that of the current key and this window; for users it is still the same window."""
        self._scope.key = self.stored(self.key, window)

    def merging(self, merged: Sequence[Bounds], call: Callable[[], object]) -> None:
        """Calls what may ask for the windows that have become the current one."""
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
