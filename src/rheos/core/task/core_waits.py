"""Measures the part of a slot's working time in which its thread only waited for a core."""

from __future__ import annotations

from rheos.core.protocol.ports import ThreadTimes


class CoreWaits:
    """The waits of one thread between two calls. `thread` reads its processor time."""

    def __init__(self, thread: ThreadTimes) -> None:
        self._thread = thread
        self._before = thread()
        self._busy_us = 0
        self.total_us = 0
        """Sum of the waits, in µs."""

    def worked_share(self, busy_us: int) -> float:
        """Return the share of the working time since the last call in which the thread did not wait for
        a core. It is 1 if the system does not report waits.

        Args:
            busy_us: Working time of the thread up to now, with its waits for a core.
        """
        before, busy_before_us = self._before, self._busy_us
        self._before, self._busy_us = self._thread(), busy_us
        busy_us -= busy_before_us
        if before is None or self._before is None or busy_us <= 0:
            return 1.0
        queued_us, ran_us = (
            self._before.queued_us - before.queued_us,
            self._before.ran_us - before.ran_us,
        )
        # The thread may also have waited between its turns.
        waited_us = max(busy_us - max(busy_us - queued_us, ran_us), 0)
        self.total_us += waited_us
        return 1 - waited_us / busy_us
