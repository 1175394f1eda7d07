"""Virtual time, which only the world advances."""

from __future__ import annotations

_EPOCH_MS = 1_700_000_000_000


class SimClock:
    """A Clock. Wall-clock time can be made to jump; monotonic time cannot."""

    def __init__(self) -> None:
        self._us = 0
        self._jump_ms = 0

    def now_ms(self) -> int:
        return _EPOCH_MS + self._us // 1000 + self._jump_ms

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000

    def monotonic_us(self) -> int:
        return self._us

    def advance(self, us: int) -> None:
        assert us >= 0
        self._us += us

    def jump(self, ms: int) -> None:
        """Set the wall clock forward or back."""
        self._jump_ms += ms


class ProcessClock:
    """A Clock as one process reads it, with a skewed wall clock and its own start of monotonic time."""

    def __init__(self, clock: SimClock, skew_ms: int, origin_us: int) -> None:
        self._clock = clock
        self._skew_ms = skew_ms
        self._origin_us = origin_us

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._skew_ms

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000

    def monotonic_us(self) -> int:
        return self._clock.monotonic_us() + self._origin_us
