"""Simulated slots that restore checkpoints ahead, next to the running attempt (UP12)."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable

from rheos.core.checkpoint.savepoint import Restore
from rheos.core.errors import RheosError
from rheos.core.protocol.ports import Clock, Store
from rheos.core.task.prepared_slot import PreparedSlot
from rheos.core.task.slot import Deployment, prepare_slot
from rheos.runtimes.host.io import InlineIo
from rheos.runtimes.simulated.clock import SimClock


class WaitingSlot:
    """One slot before its attempt. `delay_us` draws how long a request takes to arrive."""

    def __init__(
        self,
        deployment: Deployment,
        subtask: int,
        *,
        store: Store,
        clock: SimClock,
        own_clock: Clock,
        delay_us: Callable[[], int],
    ) -> None:
        self.attempt = deployment.attempt
        self.subtask = subtask
        self.alive = True
        self.state = prepare_slot(deployment, subtask, store, own_clock, InlineIo())
        self._clock = clock
        self._delay_us = delay_us
        self._requests: deque[tuple[int, Restore]] = deque()

    def request(self, restore: Restore) -> None:
        """Send the request to restore a checkpoint, which arrives later, after earlier ones."""
        at_us = self._clock.monotonic_us() + self._delay_us()
        if self._requests:
            at_us = max(at_us, self._requests[-1][0])
        self._requests.append((at_us, restore))

    def next_us(self) -> int | None:
        """Return the time of its next action; None if it waits for a request."""
        return self._requests[0][0] if self._requests else None

    def is_due(self) -> bool:
        """Return whether a request has arrived."""
        due_us = self.next_us()
        return due_us is not None and due_us <= self._clock.monotonic_us()

    def turn(self) -> bool:
        """Restore the next requested checkpoint, if its request has arrived. Return whether it did."""
        if not self.is_due():
            return False
        with contextlib.suppress(RheosError):  # The next request restores a later checkpoint.
            self.state.catch_up(self._requests.popleft()[1])
        return True

    def die(self) -> None:
        """End the process at once."""
        self.alive = False
        self._requests.clear()


def take_slots(slots: list[WaitingSlot], parallelism: int) -> list[PreparedSlot | None]:
    """Return the states of the slots for an attempt, by subtask. They are None if a slot is dead, or
    if the attempt has another parallelism."""
    if len(slots) != parallelism or not all(slot.alive for slot in slots):
        return [None] * parallelism
    return [slot.state for slot in slots]
