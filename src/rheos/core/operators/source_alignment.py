"""Watermark alignment: splits of a source that are ahead wait for the slowest, which bounds the rows
buffered downstream. A split is not read while its watermark is more than `max_drift` ahead of the
slowest split's. The slowest split is the slowest of this subtask and, as far as reported, of all
subtasks."""

from __future__ import annotations

from collections.abc import Sequence

from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.source_split import SplitState
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

DRIFT_LOOK_US = 50_000
"""Interval in µs at which a subtask checks and reports how far its splits are apart."""

DRIFT_PAUSED_MS = "drift_paused_ms"
"""Counter of the ms for which splits were not read because they were ahead, summed over splits."""


class SourceAlignment:
    """Watermark alignment of one subtask. In each turn of reading, `look` precedes `holds` for each
    split."""

    def __init__(
        self,
        ctx: OperatorContext,
        open_splits: Sequence[SplitState],
        *,
        max_drift_ms: int,
        bound_ms: int,
    ) -> None:
        """Start alignment. `open_splits` is the source's own list, which changes over time."""
        self._ctx = ctx
        self._open = open_splits
        self._max_drift_ms = max_drift_ms
        self._bound_ms = bound_ms
        self._slowest_ms: int | None = None
        """Watermark of the slowest split of all subtasks, as last reported to this one."""
        self._furthest_ms = MAX_TIMESTAMP_MS

    def align(self, slowest_ms: int | None) -> None:
        """Record the watermark of the slowest split of all subtasks."""
        self._slowest_ms = slowest_ms

    def reached_ms(self) -> int | None:
        """Return the watermark of the slowest split that has had rows and is not idle. Splits that wait
        to be opened do not count: otherwise they and the open splits would wait for each other."""
        marks = (
            split.watermark(self._bound_ms)
            for split in self._open
            if not split.idle and split.max_ts != MIN_TIMESTAMP_MS
        )
        return min(marks, default=None)

    def look(self) -> None:
        """Update the limit up to which splits may be read now."""
        known = [mark for mark in (self.reached_ms(), self._slowest_ms) if mark is not None]
        self._furthest_ms = min(known) + self._max_drift_ms if known else MAX_TIMESTAMP_MS

    def holds(self, split: SplitState) -> bool:
        """Return whether the split has to wait, and count the time for which it does."""
        ahead = split.watermark(self._bound_ms) > self._furthest_ms
        if ahead or split.paused_us is not None:
            now_us = self._ctx.clock.monotonic_us()
            waited_ms = 0 if split.paused_us is None else (now_us - split.paused_us) // 1000
            if waited_ms:
                self._ctx.count(DRIFT_PAUSED_MS, waited_ms)
            if not ahead:
                split.paused_us = None
            elif split.paused_us is None or waited_ms:
                split.paused_us = now_us
            split.quiet_since_us = None
        return ahead
