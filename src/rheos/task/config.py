"""The settings of the data plane."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Guarantee(Enum):
    EXACTLY_ONCE = "exactly once"
    """Barriers hold channels back until all have arrived, or rows between subtasks are stored."""

    AT_LEAST_ONCE = "at least once"
    """Nothing waits for barriers: rows behind one may be in the checkpoint, and come again after it."""


@dataclass(frozen=True)
class TaskConfig:
    batch_rows: int = 16_384
    """A buffer is full at this many rows."""
    buffer_timeout_us: int | None = 10_000
    """How long a row may wait in a buffer: 0 sends at once, None only full buffers."""
    credits: int = 4
    """Batches a channel may have on the way or waiting at the receiver."""
    progress_interval_us: int = 1_000_000
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    unaligned_after_us: int | None = None
    """How long a barrier may wait behind rows before it overtakes them, and they are stored with the
    checkpoint: 0 overtakes at once, None never. The barriers of savepoints never do; at least once,
    nothing waits anyway."""

    @property
    def poll_interval_us(self) -> int:
        """How soon a source that gave less than a whole batch is asked again.

        Rows that come one by one would each pay for a turn of the loop. A small part of the buffer
        timeout adds little to the latency that the user has allowed.
        """
        timeout_us = 10_000 if self.buffer_timeout_us is None else self.buffer_timeout_us
        return min(max(timeout_us // 10, 200), 1000)

    @property
    def flush_after_us(self) -> int | None:
        """How old a buffer's first row is when it is sent: with one turn of waiting to be read and one
        to be sent, no row has waited longer than the buffer timeout."""
        if self.buffer_timeout_us is None:
            return None
        return max(self.buffer_timeout_us - 2 * self.poll_interval_us, 0)
