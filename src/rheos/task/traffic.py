"""What a subtask counts of its channels and of its time, for its figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from rheos.protocol.elements import Batch


class BatchSizes:
    """How many bytes batches of one schema take in memory. Of numbers alone it follows from how many
    rows there are, but for what says which are null: to ask Arrow costs as much as sending a row."""

    def __init__(self) -> None:
        self._row_bytes: int | None = None
        self._asked = False

    def of(self, batch: Batch) -> int:
        if not self._asked:
            self._asked = True
            self._row_bytes = _row_bytes(batch.schema)
        if self._row_bytes is None:
            return int(batch.nbytes)
        return self._row_bytes * int(batch.num_rows)


def _row_bytes(schema: pa.Schema) -> int | None:
    """None where rows differ, or are no whole bytes."""
    bits = [kind.bit_width if pa.types.is_primitive(kind) else 1 for kind in schema.types]
    return sum(bits) // 8 if all(each % 8 == 0 for each in bits) else None


@dataclass(slots=True)
class Traffic:
    """Batches that went one way, since the attempt began."""

    batches: int = 0
    rows: int = 0
    size_bytes: int = 0
    """In memory."""
    _sizes: BatchSizes = field(default_factory=BatchSizes)

    def add(self, batch: Batch) -> None:
        self.batches += 1
        self.rows += batch.num_rows
        self.size_bytes += self._sizes.of(batch)


class Ran(Enum):
    """What came of letting a chain run."""

    WORKED = "worked, and may have more to do", True, False
    SETTLED = "worked, and has nothing more to do", True, False
    SUSPENDED = "worked, until there was no credit to emit more", True, True
    STARVED = "nothing to do", False, False
    BLOCKED = "work at hand, but no credit to emit it", False, True

    def __init__(self, meaning: str, worked: bool, blocked: bool) -> None:
        """`blocked`: it waits for credit. Until that comes, no time that passes lets it go on, but that
        of a barrier that may overtake."""
        self.worked = worked
        self.blocked = blocked


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
        if self._was.blocked:
            self.blocked_us += waited_us
        elif self._was is not Ran.WORKED:
            self.idle_us += waited_us
        if ran.worked:
            self.busy_us += took_us
        elif ran is Ran.BLOCKED:
            self.blocked_us += took_us
        else:
            self.idle_us += took_us
        self._was, self._until_us = ran, ended_us
