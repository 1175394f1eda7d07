"""Counts of a subtask's channels and of its time, for its metrics."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from rheos.core.protocol.elements import Batch


class BatchSizes:
    """Memory sizes of batches of one schema, without validity bitmaps. For numbers, the row count
    determines the size; for strings, the first and last offset do. Asking Arrow would cost more than
    sending a row."""

    def __init__(self) -> None:
        self._row_bytes: int | None = None
        self._texts: list[tuple[int, struct.Struct]] = []
        self._asked = False

    def of(self, batch: Batch) -> int:
        if not self._asked:
            self._asked = True
            self._look_at(batch.schema)
        if self._row_bytes is None:
            return int(batch.nbytes)
        rows = int(batch.num_rows)
        size_bytes = self._row_bytes * rows
        if rows:
            for place, offset in self._texts:
                size_bytes += _text_bytes(batch.column(place), rows, offset)
        return size_bytes

    def _look_at(self, schema: pa.Schema) -> None:
        """Determine the size of a row. It stays unknown if some column has values that are neither
        strings nor whole bytes."""
        row_bits = 0
        for place, kind in enumerate(schema.types):
            if (offset := _OFFSETS.get(kind.id)) is not None:
                row_bits += 8 * offset.size
                self._texts.append((place, offset))
            elif pa.types.is_primitive(kind) and kind.bit_width % 8 == 0:
                row_bits += kind.bit_width
            else:
                return
        self._row_bytes = row_bits // 8


_OFFSETS = {
    pa.string().id: struct.Struct("=i"),
    pa.binary().id: struct.Struct("=i"),
    pa.large_string().id: struct.Struct("=q"),
    pa.large_binary().id: struct.Struct("=q"),
}


def _text_bytes(column: pa.Array, rows: int, offset: struct.Struct) -> int:
    """Return the size of the values of a column that is not empty."""
    offsets = column.buffers()[1]
    first, last = column.offset * offset.size, (column.offset + rows) * offset.size
    (begins,), (ends,) = offset.unpack_from(offsets, first), offset.unpack_from(offsets, last)
    return int(ends - begins)


@dataclass(slots=True)
class Traffic:
    """The batches that passed in one direction since the attempt began."""

    batches: int = 0
    rows: int = 0
    size_bytes: int = 0
    """Size of the batches in memory."""
    _sizes: BatchSizes = field(default_factory=BatchSizes)

    def add(self, batch: Batch) -> None:
        self.batches += 1
        self.rows += batch.num_rows
        self.size_bytes += self._sizes.of(batch)


class RunOutcome(Enum):
    """The result of running a chain."""

    WORKED = "worked, and may have more to do", True, False
    SETTLED = "has worked, now idle", True, False
    SUSPENDED = "worked, until there was no credit to emit more", True, True
    STARVED = "nothing to do", False, False
    BLOCKED = "work available, but no credit to emit its output", False, True

    def __init__(self, meaning: str, worked: bool, blocked: bool) -> None:
        """Create an outcome. If `blocked`, the chain waits for credit; until that arrives, only a
        barrier that may overtake lets it continue."""
        self.worked = worked
        self.blocked = blocked


@dataclass(slots=True)
class SpentTime:
    """Time that a chain spends by outcome. In the rest of the time, it waits for other chains of its
    slot."""

    busy_us: int = 0
    blocked_us: int = 0
    idle_us: int = 0
    _was: RunOutcome = RunOutcome.WORKED
    _until_us: int = 0

    def turn(self, ran: RunOutcome, began_us: int, ended_us: int) -> None:
        """Record a turn. The time since the previous turn is counted under that turn's outcome."""
        waited_us = began_us - self._until_us
        took_us = ended_us - began_us
        if self._was.blocked:
            self.blocked_us += waited_us
        elif self._was is not RunOutcome.WORKED:
            self.idle_us += waited_us
        if ran.worked:
            self.busy_us += took_us
        elif ran is RunOutcome.BLOCKED:
            self.blocked_us += took_us
        else:
            self.idle_us += took_us
        self._was, self._until_us = ran, ended_us
