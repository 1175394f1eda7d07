"""A simulated driver: one process with the master of a job, and the slots it has launched."""

from __future__ import annotations

from rheos.runtimes.driver.master import Master
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.io import SimIo
from rheos.runtimes.simulated.launcher import SimLauncher
from rheos.runtimes.simulated.slot import Slot


class SimDriver:
    """A simulated driver. Calls of the store block its master for the time that `busy` receives."""

    def __init__(self, master: Master, launcher: SimLauncher, io: SimIo, clock: SimClock) -> None:
        self.master = master
        self.launcher = launcher
        self.io = io
        """Executor of the driver's publications, which run next to its master's steps."""
        self.dies_at_us: int | None = None
        """Time at which the process ends, if the driver was given up but still lives."""
        self._clock = clock
        self._busy_until_us = 0

    def busy(self, us: int) -> None:
        """Pause the process for this time, or extend its pause by this time."""
        self._busy_until_us = max(self._busy_until_us, self._clock.monotonic_us()) + us

    def turn(self) -> bool:
        """Run one turn of its loop. Return whether it did anything."""
        if self._clock.monotonic_us() < self._busy_until_us or self.master.done:
            return False
        self.io.run_due()
        self.master.step()
        return True

    def next_us(self) -> int | None:
        """Return the time of its next action, or None."""
        if self.master.done:
            return None
        times = [
            self.launcher.next_us(),
            self.io.next_us(),
            self.master.next_step_us(),
            self.dies_at_us,
        ]
        due = min((time for time in times if time is not None), default=None)
        return None if due is None else max(due, self._busy_until_us)

    def slots(self) -> list[Slot]:
        """Return all slots that it has launched and that still run, including those it does not know
        of."""
        zombies = [slot for slot in self.launcher.zombies if slot not in self.launcher.slots]
        return [slot for slot in (*self.launcher.slots, *zombies) if slot.alive]
