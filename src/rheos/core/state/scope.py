"""The current key of user code, and the current time: handles of state read both.

Each subtask of an operator has one scope. The operator sets its key before each call of user code, and
its event time as rows arrive. Expiry of state uses these two clocks and no others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from rheos.core.errors import StateAccessError
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.protocol.ports import Clock
from rheos.core.state.key_limit import KeyContents, KeyLimit


class NoKey:
    """Placeholder for a missing key. Every look-up with it raises the user's error."""

    def __hash__(self) -> NoReturn:
        raise StateAccessError(
            "keyed state or a timer was used outside a keyed context",
            hint="use it in process_element, on_timer or process; not in open, close or __init__, nor "
            "in process_broadcast_element: rows of the broadcast stream have no key",
        )


NO_KEY = NoKey()


def _unlimited(kept: KeyContents) -> KeyLimit:
    return KeyLimit(kept, 2**62)


class KeyScope:
    """The current key, and the current time of both kinds, in ms since the epoch."""

    __slots__ = ("clock", "key", "limit", "passed_ms")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.limit: Callable[[KeyContents], KeyLimit] = _unlimited
        """Function that creates a limit of what one key may keep."""
        self.key: Any = NO_KEY
        self.passed_ms = MIN_TIMESTAMP_MS
        """Event time that all later calls have reached. It rises only between calls."""

    def event_time(self) -> int:
        """Return the event time of the current call, which may precede that of the previous call."""
        return self.passed_ms

    @property
    def processing_time(self) -> int:
        """Return the wall-clock time."""
        return self.clock.now_ms()
