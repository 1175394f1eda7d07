"""The settings of the data plane."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

_MIN_POLL_US = 200
_MAX_POLL_US = 10_000
_MAX_POLL_BOUNDED_US = 1_000
_LEAST_SHARE = 16
"""Of a batch: what is less pays more for being a batch than for its rows."""
_BATCHES_IN_BUFFERS = 4
"""All buffers of an edge may hold so many batches."""


class Guarantee(Enum):
    EXACTLY_ONCE = "exactly once"
    """Barriers hold channels back until all have arrived, or rows between subtasks are stored."""

    AT_LEAST_ONCE = "at least once"
    """Nothing waits for barriers: rows behind one may be in the checkpoint, and come again after it."""


@dataclass(frozen=True)
class TaskConfig:
    batch_rows: int = 16_384
    """The most rows of a batch, and how many fill a buffer. Slots choose less where rows are dear."""
    buffer_timeout_us: int | None = 10_000
    """How long a row may wait for others in a subtask: 0 not at all, None until buffers are full."""
    credits: int = 4
    """Batches a channel may have on the way or waiting at the receiver."""
    latency_us: int | None = None
    """What a row may take from source to sink, p99. Then each slot chooses its own buffer timeout, and
    batches of up to `batch_rows`."""
    progress_interval_us: int = 1_000_000
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    rests: bool = True
    """Whether a source that returned few rows is polled again only after a while."""
    unaligned_after_us: int | None = None
    """How long a barrier may wait behind rows before it overtakes them, and they are stored with the
    checkpoint: 0 overtakes at once, None never. The barriers of savepoints never do; at least once,
    nothing waits anyway."""

    def poll_interval_us(self, *, bounded: bool) -> int:
        """How soon a source that gave `few_rows` is asked again.

        Rows that came one by one would each pay for a turn of the loop. So the wait that the buffer
        timeout allows a row is at the source, where it costs nothing, and what was read is sent in the
        same turn. A source that was quiet for as long is asked at once: a row alone does not wait. One
        that ends may have its rows in small files or blocks, and is to be read through.
        """
        timeout_us = _MAX_POLL_US if self.buffer_timeout_us is None else self.buffer_timeout_us
        if bounded:
            timeout_us = min(timeout_us // 10, _MAX_POLL_BOUNDED_US)
        return min(max(timeout_us, _MIN_POLL_US), _MAX_POLL_US)

    @property
    def few_rows(self) -> int:
        """Fewer rows than this cost less than the turn of the loop that reads them."""
        return max(self.batch_rows // _LEAST_SHARE, 2) if self.rests else 0

    def flush_after_us(self, *, polls: bool) -> int | None:
        """How old a buffer's first row is when it is sent, where nothing of the channel is on the way:
        no row waits for others longer than the buffer timeout. `polls`: the rows are a source's, and
        have waited to be read."""
        if self.buffer_timeout_us is None:
            return None
        waited_us = self.poll_interval_us(bounded=False) if polls else 0
        return max(self.buffer_timeout_us - waited_us, 0)

    def full_rows(self, shares: int) -> int:
        """How many rows fill a channel's buffer, where a batch is dealt out over so many channels.

        Half of an even share, so that a whole batch passes without being copied together. Where shares
        are small, more: each batch that is sent has its price, however few rows it has. All buffers of
        an edge together hold a few whole batches at the most.
        """
        least = min(self.batch_rows // _LEAST_SHARE, _BATCHES_IN_BUFFERS * self.batch_rows // shares)
        return max(1, self.batch_rows // (2 * shares), least)
