"""The faults of a simulated world's store: single operations fail, and outages last for a while."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.store import Moment, Operation

_WRITES: tuple[Operation, ...] = ("put", "put_if_absent")


class Storage:
    """Belongs to a world, which says when it draws."""

    def __init__(self, faults: Faults, clock: SimClock, rng: Random) -> None:
        self._faults = faults
        self._clock = clock
        self._rng = rng
        self._out_until_us = 0
        self._full_until_us = 0
        self._slow_until_us = 0

    def strike(self, happens: Callable[[float], bool]) -> None:
        """Start outages as time passes. `happens` draws whether a fault of a given rate occurs."""
        if happens(self._faults.store_outage):
            self._out_until_us = self._spell_us()
        if happens(self._faults.store_full):
            self._full_until_us = self._spell_us()
        if happens(self._faults.store_slow):
            self._slow_until_us = self._spell_us()

    def _spell_us(self) -> int:
        now_us = self._clock.monotonic_us()
        return min(now_us + self._rng.randrange(5_000, 400_000), self._faults.until_us)

    def strikes(self, moment: Moment, operation: Operation) -> bool:
        """Whether an operation fails at this moment."""
        now_us = self._clock.monotonic_us()
        if now_us >= self._faults.until_us:
            return False
        writes = operation in _WRITES
        if moment == "before":
            if now_us < self._out_until_us or (writes and now_us < self._full_until_us):
                return True
            if operation in ("get", "list"):
                return self._rng.random() < self._faults.read_error
        # A write has three moments, and fails at one of them.
        return writes and self._rng.random() < self._faults.store_error / 3

    def latency_us(self) -> int:
        """Return the extra time in us that the next operation takes."""
        if self._clock.monotonic_us() >= self._slow_until_us:
            return 0
        return self._rng.choice([20_000, 100_000, 400_000]) + self._rng.randrange(20_000)
