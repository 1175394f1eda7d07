"""Whether the wall clock was set, or the machine stood still, while something was measured by it."""

from __future__ import annotations

import time


class ClockWatch:
    """Compares the wall clock with the one that only runs, from when it is made on."""

    def __init__(self) -> None:
        self._offset_ns = _offset_ns()

    def moved_ms(self) -> int:
        """By how much the wall clock has left the other one. Latencies are off by as much."""
        return (_offset_ns() - self._offset_ns) // 1_000_000


def _offset_ns() -> int:
    return time.time_ns() - time.monotonic_ns()
