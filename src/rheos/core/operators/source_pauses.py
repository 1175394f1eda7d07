"""The time since a source subtask last received a row, and its longest pause, for its metrics."""

from __future__ import annotations


class Pauses:
    """The times between rows of one subtask, in one attempt."""

    def __init__(self) -> None:
        self._received_us: int | None = None
        self.longest_ms = 0.0
        """The longest time between two rows."""

    def received(self, now_us: int) -> None:
        """Note that rows were received now, by the monotonic clock."""
        if self._received_us is not None and now_us - self._received_us > self.longest_ms * 1000:
            self.longest_ms = (now_us - self._received_us) / 1000
        self._received_us = now_us

    def quiet_ms(self, now_us: int) -> float | None:
        """Return the time since a row was last received; None before the first."""
        return None if self._received_us is None else (now_us - self._received_us) / 1000
