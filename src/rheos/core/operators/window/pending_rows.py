"""Rows of fixed windows that have arrived and are not combined yet.

If a stream has many keys, few rows of a batch share a key. If each batch were combined by itself, it
would add nearly as many rows to state, which are then merged repeatedly. So rows are buffered until
there are many of them, or one of their windows is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from rheos.core.operators.window.contract import Ints, PaneAssignment
from rheos.core.operators.window.frames import paned
from rheos.core.operators.window.pane_columns import PANE

MOST_ROWS = 1 << 17
_BYTES = 512
"""Bytes of state memory per buffered row: buffered rows use a small part of it."""

_FEW_RUNS = 4
"""Number of runs of one pane up to which a batch is split by pane. Rows in order form few runs."""


class PendingRows:
    """Buffered rows of one subtask whose windows have not fired: at most `most_rows`, or fewer long
    ones."""

    def __init__(self, state_bytes: int, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = min(most_rows, state_bytes // _BYTES)
        self._of_panes: dict[tuple[int, ...], list[pl.DataFrame]] = {}
        """Frames whose rows all share one pane, by pane."""
        self._mixed: list[pl.DataFrame] = []
        self._rows = 0
        self.first_end: int | None = None
        """End of the earliest window of any buffered row; None if no rows are buffered."""

    def add(self, rows: pl.DataFrame, assigned: PaneAssignment) -> bool:
        """Buffer rows with their panes, as in `frames.frame_of`. Return whether the buffer is full."""
        first = int(assigned.panes[1].min())
        if self.first_end is None or first < self.first_end:
            self.first_end = first
        starts = _runs(assigned.panes)
        if len(starts) > _FEW_RUNS:
            self._mixed.append(rows)
        else:
            columns = [name for name in rows.columns if name not in PANE]
            for start, stop in pairwise([*starts.tolist(), rows.height]):
                pane = tuple(int(values[start]) for values in assigned.panes)
                run = rows if len(starts) == 1 else rows.slice(start, stop - start)
                self._of_panes.setdefault(pane, []).append(run[columns])
        self._rows += _weight(rows)
        return self._rows >= self._most_rows

    def due(self, end: int) -> bool:
        """Return whether a window that ends at or before `end` contains any buffered row."""
        return self.first_end is not None and self.first_end <= end

    def take(self, upto: int | None = None) -> Iterator[tuple[pl.DataFrame, PaneAssignment]]:
        """Yield all rows as they were added, by pane. If `upto` is passed, yield at least those of
        windows that end by then."""
        of_panes, mixed = self._of_panes, self._mixed
        self.clear()
        if upto is not None:
            later = {pane: of for pane, of in of_panes.items() if pane[1] > upto}
            of_panes = {pane: of for pane, of in of_panes.items() if pane[1] <= upto}
            self._of_panes = later
            self._rows = sum(_weight(frame) for frames in later.values() for frame in frames)
            self.first_end = min((pane[1] for pane in later), default=None)
        if mixed and len(of_panes) > 1:
            # A pane with few rows is combined together with others.
            for pane, frames in list(of_panes.items()):
                if len(frames) == 1:
                    mixed.append(paned(frames[0], _shared(pane), PANE))
                    del of_panes[pane]
        for pane, frames in of_panes.items():
            yield _concatenate(frames), _shared(pane)
        if mixed:
            rows = _concatenate(mixed)
            yield rows, PaneAssignment(tuple(rows[name].to_numpy() for name in PANE), None, None)

    def clear(self) -> None:
        self._of_panes, self._mixed, self._rows, self.first_end = {}, [], 0, None

    @property
    def memory_bytes(self) -> int:
        frames = [frame for frames in self._of_panes.values() for frame in frames] + self._mixed
        return sum(int(frame.estimated_size()) for frame in frames)


def _runs(panes: tuple[Ints, ...]) -> Ints:
    """Return the starts of runs of rows with the same pane."""
    changes = np.zeros(len(panes[0]), np.bool_)
    changes[0] = True
    for values in panes:
        changes[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(changes)


def _weight(rows: pl.DataFrame) -> int:
    """Return the number of rows as which these count. A row that exceeds its share of memory, such as
    one with lists, counts as several."""
    return max(rows.height, int(rows.estimated_size()) // _BYTES)


def _shared(pane: Sequence[int]) -> PaneAssignment:
    return PaneAssignment(tuple(np.array([value], np.int64) for value in pane), None, None)


def _concatenate(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical")
