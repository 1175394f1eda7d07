"""Settings of the data plane."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

_MIN_POLL_US = 200
_MAX_POLL_US = 10_000
_MAX_POLL_BOUNDED_US = 1_000
_LEAST_SHARE = 16
"""Minimum number of rows that are worth sending as a batch. With fewer rows, the fixed cost exceeds the
cost of the rows."""
_REPORT_US_BY_SLOT = 2_000
"""Time that the driver has for each subtask's report: up to 2,000 subtasks, it gets at most 500 in a
second."""
_LONGEST_REPORT_US = 4_000_000
"""Longest time between two reports. A subtask that is silent for twice as long counts as blocked."""
_BATCHES_IN_BUFFERS = 4
"""Maximum number of batches that all buffers of an edge may hold."""


class Guarantee(Enum):
    EXACTLY_ONCE = "exactly once"
    """Aligned barriers hold channels back until all have arrived. Unaligned barriers store the rows
    between subtasks."""

    AT_LEAST_ONCE = "at least once"
    """Nothing waits for barriers. Rows after a barrier may be included in its checkpoint, and be
    processed again after a restart."""


@dataclass(frozen=True)
class TaskConfig:
    batch_rows: int = 16_384
    """Maximum number of rows in a batch, and number of rows that fill a buffer. Slots choose less if
    rows are expensive."""
    buffer_timeout_us: int | None = 10_000
    """Maximum time that a row waits for others in a subtask. 0: it does not wait. None: it waits until
    buffers are full."""
    credits: int = 4
    """Number of batches of a channel that may be in transit or waiting at the receiver."""
    latency_us: int | None = None
    """Objective for the latency of a row from source to sink, p99. Each slot then chooses its own
    buffer timeout, and batches of up to `batch_rows`."""
    progress_interval_us: int = 1_000_000
    """Least time between two reports of a subtask's metrics."""
    marker_interval_us: int | None = None
    """Least time between two latency markers of a source's subtask; None: that between two reports."""
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    rests: bool = True
    """Whether a source that returned few rows is polled again only after a pause."""
    unaligned_after_us: int | None = None
    """Maximum time that a barrier waits for rows before it overtakes them; the checkpoint then stores
    these rows. With 0 it overtakes at once, with None never. Barriers of savepoints never overtake.
    With at-least-once, barriers never wait."""

    def report_interval_us(self, parallelism: int) -> int:
        """Return the time between two reports of a subtask; in wide jobs, they are less frequent."""
        spaced_us = min(parallelism * _REPORT_US_BY_SLOT, _LONGEST_REPORT_US)
        return max(self.progress_interval_us, spaced_us)

    def poll_interval_us(self, *, bounded: bool) -> int:
        """Return the pause after which a source that returned `few_rows` is polled again.

        If rows were polled one by one, each would cost a turn of the loop. So rows wait for the buffer
        timeout in the source, where waiting costs nothing, and are sent in the turn in which they are
        read. A source that was quiet for that time is polled at once, so a single row does not wait. A
        bounded source, whose rows may be in small files or blocks, is read without long pauses.
        """
        timeout_us = _MAX_POLL_US if self.buffer_timeout_us is None else self.buffer_timeout_us
        if bounded:
            timeout_us = min(timeout_us // 10, _MAX_POLL_BOUNDED_US)
        return min(max(timeout_us, _MIN_POLL_US), _MAX_POLL_US)

    @property
    def few_rows(self) -> int:
        """Return the number of rows for which a poll is worth a turn of the loop."""
        return max(self.batch_rows // _LEAST_SHARE, 2) if self.rests else 0

    def flush_after_us(self, *, polls: bool) -> int | None:
        """Return the age of a buffer's first row at which the buffer is sent, if no other batch of the
        channel is in transit. No row waits for others longer than the buffer timeout. `polls`: the rows
        come from a source, and have already waited there."""
        if self.buffer_timeout_us is None:
            return None
        waited_us = self.poll_interval_us(bounded=False) if polls else 0
        return max(self.buffer_timeout_us - waited_us, 0)

    def full_rows(self, shares: int) -> int:
        """Return the number of rows that fill a channel's buffer, with `shares` channels per batch.

        This is half of an even share, so that a whole batch passes without a copy. Small shares are
        rounded up, because each sent batch has a fixed cost. All buffers of an edge together hold at
        most a few whole batches.
        """
        least = min(self.batch_rows // _LEAST_SHARE, _BATCHES_IN_BUFFERS * self.batch_rows // shares)
        return max(1, self.batch_rows // (2 * shares), least)
