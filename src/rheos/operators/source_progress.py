"""How far a subtask of a source is with its splits, for its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rheos.operators.source_split import SplitState
from rheos.protocol.elements import MIN_TIMESTAMP_MS

_MOST_SPLITS = 64
"""Of more, only all together are reported."""


@dataclass(frozen=True, slots=True)
class SplitProgress:
    id: str
    watermark_ms: int | None
    """None before its first row, where it has no event time, and where it is idle."""
    lag_rows: int | None


@dataclass(frozen=True, slots=True)
class SourceProgress:
    open: int
    waiting: int
    lag_rows: int | None
    """Records that are there and not read; None where no split can say."""
    lag_ms: int | None
    """The wall clock less the latest event time read, of the split furthest behind; splits that are
    known to be read to their ends do not count."""
    splits: Sequence[SplitProgress]


def source_progress(
    open_splits: Sequence[SplitState], waiting: int, bound_ms: int, now_ms: int
) -> SourceProgress:
    lags = [None if state.reader is None else state.reader.lag_rows() for state in open_splits]
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
        [SplitProgress(state.split.id, _watermark_ms(state, bound_ms), lag) for state, lag in few],
    )


def _watermark_ms(state: SplitState, bound_ms: int) -> int | None:
    if state.max_ts == MIN_TIMESTAMP_MS or state.idle:
        return None
    return state.watermark(bound_ms)
