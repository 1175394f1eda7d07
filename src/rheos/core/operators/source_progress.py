"""Progress of a source subtask with its splits, and its pauses, for its metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rheos.core.connectors import capabilities
from rheos.core.operators.source_split import SplitState
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS

_MOST_SPLITS = 64
"""Maximum number of splits that are reported one by one. If a subtask has more, it reports only
totals."""


@dataclass(frozen=True, slots=True)
class SplitProgress:
    id: str
    watermark_ms: int | None
    """The split's watermark; None before its first row, without event time, and while it is idle."""
    lag_rows: int | None
    idle: bool = False
    """Whether the split has had no rows for so long that it does not hold back the watermark."""
    stands_ms: int | None = None
    """Time in ms since the split's event time last advanced; None if event time does not come from its
    rows."""


@dataclass(frozen=True, slots=True)
class SourceProgress:
    open: int
    waiting: int
    lag_rows: int | None
    """Number of records that are not read so far; None if no split can report it."""
    lag_ms: int | None
    """Wall-clock time less the latest event time read, for the slowest split. Splits that are
    known to be read to their ends do not count."""
    splits: Sequence[SplitProgress]


def source_progress(
    open_splits: Sequence[SplitState],
    waiting: int,
    bound_ms: int,
    now_ms: int,
    now_us: int | None,
) -> SourceProgress:
    """Return the progress. `now_ms` is wall-clock time; `now_us` is monotonic time, or None if event
    time does not come from a column."""
    lags = [
        None if state.reader is None else capabilities.lag_rows(state.reader) for state in open_splits
    ]
    known = [lag for lag in lags if lag is not None]
    behind = [
        now_ms - state.max_ts
        for state, lag in zip(open_splits, lags, strict=True)
        if state.max_ts != MIN_TIMESTAMP_MS and not state.idle and lag != 0
    ]
    few = zip(open_splits, lags, strict=True) if len(open_splits) <= _MOST_SPLITS else ()
    return SourceProgress(
        len(open_splits),
        waiting,
        sum(known) if known else None,
        max(behind, default=None),
        [
            SplitProgress(
                state.split.id,
                _watermark_ms(state, bound_ms),
                lag,
                state.idle,
                _stands_ms(state, now_us),
            )
            for state, lag in few
        ],
    )


def _stands_ms(state: SplitState, now_us: int | None) -> int | None:
    if now_us is None or state.advanced_us is None:
        return None
    return (now_us - state.advanced_us) // 1000


def _watermark_ms(state: SplitState, bound_ms: int) -> int | None:
    if state.max_ts == MIN_TIMESTAMP_MS or state.idle:
        return None
    return state.watermark(bound_ms)


class Pauses:
    """Times between rows of one subtask, in one attempt."""

    def __init__(self) -> None:
        self._received_us: int | None = None
        self.longest_ms = 0.0
        """Longest time in ms between two rows."""

    def received(self, now_us: int) -> None:
        """Note that rows were received now, by the monotonic clock."""
        if self._received_us is not None and now_us - self._received_us > self.longest_ms * 1000:
            self.longest_ms = (now_us - self._received_us) / 1000
        self._received_us = now_us

    def quiet_ms(self, now_us: int) -> float | None:
        """Return the time since a row was last received; None before the first."""
        return None if self._received_us is None else (now_us - self._received_us) / 1000
