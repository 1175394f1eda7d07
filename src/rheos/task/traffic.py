"""What a subtask counts of its channels and of its time, for its figures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rheos.protocol.elements import Batch


@dataclass(slots=True)
class Traffic:
    """Batches that went one way, since the attempt began."""

    batches: int = 0
    rows: int = 0
    size_bytes: int = 0
    """In memory."""

    def add(self, batch: Batch) -> None:
        self.batches += 1
        self.rows += batch.num_rows
        self.size_bytes += batch.nbytes


class Ran(Enum):
    """What came of letting a chain run."""

    WORKED = "worked"
    STARVED = "nothing to do"
    BLOCKED = "work at hand, but no credit to emit it"


@dataclass(slots=True)
class TimeSpent:
    """What a chain's time goes to. What is left over it has waited for other chains of its slot."""

    busy_us: int = 0
    blocked_us: int = 0
    idle_us: int = 0
    _was: Ran = Ran.WORKED
    _until_us: int = 0

    def turn(self, ran: Ran, began_us: int, ended_us: int) -> None:
        """The chain has had its turn. Since the one before it was as that had left it."""
        waited_us = began_us - self._until_us
        took_us = ended_us - began_us
        if self._was is Ran.BLOCKED:
            self.blocked_us += waited_us
        elif self._was is Ran.STARVED:
            self.idle_us += waited_us
        if ran is Ran.WORKED:
            self.busy_us += took_us
        elif ran is Ran.BLOCKED:
            self.blocked_us += took_us
        else:
            self.idle_us += took_us
        self._was, self._until_us = ran, ended_us
