"""Splits of a source that are ahead wait for the slowest, so that what waits for the watermark stays
bounded. No split is read whose watermark is further than `max_drift` beyond the slowest one's, of this
subtask and, as far as it has heard, of all."""

from __future__ import annotations

from collections.abc import Sequence

from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.source_split import SplitState
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

DRIFT_LOOK_US = 50_000
"""How often a subtask looks at, and reports, how far its splits are apart."""

DRIFT_PAUSED_MS = "drift_paused_ms"
"""The counter of how long splits were not read because they were ahead, all of them together."""


class SourceAlignment:
    """Of one subtask. In each turn of reading `look` comes first, and then `holds` for its splits."""

    def __init__(
        self,
        ctx: OperatorContext,
        open_splits: Sequence[SplitState],
        *,
        max_drift_ms: int,
        bound_ms: int,
    ) -> None:
        """`open_splits` is the source's own list, as it is at any time."""
        self._ctx = ctx
        self._open = open_splits
        self._max_drift_ms = max_drift_ms
        self._bound_ms = bound_ms
        self._slowest_ms: int | None = None
        """Watermark of the slowest split of all subtasks, as last reported to this one."""
        self._furthest_ms = MAX_TIMESTAMP_MS

    def align(self, slowest_ms: int | None) -> None:
        """Set the watermark of the slowest split of all subtasks."""
        self._slowest_ms = slowest_ms

    def reached_ms(self) -> int | None:
        """The watermark of the slowest split that has given rows and is not idle. Splits that wait to
        be opened do not count: they would wait for those that wait for them."""
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
        """Whether the split is to wait; how long it does is counted."""
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
