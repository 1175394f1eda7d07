"""A chain that begins with a source: it polls the source, and announces its event-time progress."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rheos.core.connectors.contract import Pending
from rheos.core.operators.contract import Out
from rheos.core.operators.source import EndOfInput
from rheos.core.protocol.elements import WatermarkMark
from rheos.core.task.barriers import TriggeredBarriers
from rheos.core.task.chain import ChainParts, ChainRunner, Work
from rheos.core.task.config import TaskConfig
from rheos.core.task.traffic import BatchSizes

_FEW_BYTES = 1 << 18
"""Size in bytes from which a batch of few rows is treated like one of many."""


class SourceChain(ChainRunner):
    """Runs one subtask of a chain whose head is a source."""

    def __init__(self, parts: ChainParts, *, bounded: bool) -> None:
        """Create the chain. `bounded`: the source ends."""
        self._bounded = bounded
        barriers = TriggeredBarriers(parts.clock, parts.config)
        # A poll may take long, so the other chains have their turn after each.
        super().__init__(parts, barriers, elements_per_run=1)
        self._poll_at_us = 0
        """Time, on the monotonic clock, before which the source is not polled."""
        self._sizes: defaultdict[str, BatchSizes] = defaultdict(BatchSizes)
        """Sizes of the batches that the source returns, by tag."""
        self._draining = False

    def _set(self, config: TaskConfig) -> None:
        super()._set(config)
        self._few_rows = config.few_rows
        self._poll_interval_us = config.poll_interval_us(bounded=self._bounded)

    def has_caught_up(self) -> bool:
        """Return whether the source has returned all rows that existed when the run began. Only for a
        run over the available input."""
        source = self._tree.source
        return source is not None and source.until_now and source.has_caught_up()

    def drain(self) -> None:
        self._draining = True

    def _read(self) -> Work | None:
        self._wake_at_us = None
        if self._draining:
            return self._end()
        now_us = self._clock.monotonic_us()
        if now_us < self._poll_at_us:
            self._wake_at_us = self._poll_at_us
            return None
        polled = self._tree.poll(self._batch_rows)
        if isinstance(polled, EndOfInput):
            return self._end()
        if isinstance(polled, Pending):
            self._wake_after(polled.wake_after_us)
            return self._source_marks() if any(time.has_news for time in self._tree.times) else None
        rows = sum(out.batch.num_rows for out in polled)
        self.rows_taken += rows
        self.batches_taken += 1
        if rows < self._few_rows and self._is_small(polled):
            # It returned few rows, so polling it at once would cost more than the rows are worth.
            self._wake_at_us = self._poll_at_us = now_us + self._poll_interval_us
            self._rests = True
        return self._polled(polled)

    def _is_small(self, polled: Sequence[Out]) -> bool:
        return sum(self._sizes[out.tag].of(out.batch) for out in polled) < _FEW_BYTES

    def _polled(self, outs: Sequence[Out]) -> Work:
        yield from self._tree.polled(outs)
        if (born := self.latency.born()) is not None:
            self._outputs.latency(born)
        yield from self._source_marks()

    def _source_marks(self) -> Work:
        """Announce the event time of the source, and of later operators that assign event time."""
        times = self._tree.times
        for time in times:
            if (idle := time.of.idle()) != time.idle:
                time.idle = idle
                yield from self._forward_activity(idle, time.edges)
            watermark_ms = time.of.watermark()
            if watermark_ms > time.watermark_ms:
                time.watermark_ms = watermark_ms
                yield from self._tree.watermark_of(time.operators, watermark_ms)
                self._outputs.mark(WatermarkMark(watermark_ms), time.edges)
        self.watermark_ms = min(time.watermark_ms for time in times)
