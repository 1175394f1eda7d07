"""Rows of fixed windows that have come and are not combined yet.

Where there are many keys, the rows of one batch have few in common: combining them batch by batch makes
nearly as many rows of state as there were, which are then merged again and again. So rows wait, as they
are, until there are many, or a window of theirs is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from rheos.operators.window.columns import PANE
from rheos.operators.window.contract import Assigned
from rheos.operators.window.frames import paned

MOST_ROWS = 1 << 17
_BYTES = 512
"""Of memory for state, so many allow one row to wait: a small part of it is taken."""


class WaitingRows:
    """Those of one subtask, no window of which has fired. At the most `most_rows` of them wait, or
    fewer where they are long."""

    def __init__(self, state_bytes: int, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = min(most_rows, state_bytes // _BYTES)
        self._of_panes: dict[tuple[int, ...], list[pl.DataFrame]] = {}
        """The frames whose rows share a pane, by that."""
        self._mixed: list[pl.DataFrame] = []
        self._rows = 0
        self.first_end: int | None = None
        """The end of the first window that takes any of them; None where there are none."""

    def add(self, rows: pl.DataFrame, assigned: Assigned) -> bool:
        """Rows with their panes, as in `frames.frame_of`. Returns whether as many wait as may."""
        first = int(assigned.panes[1].min())
        if self.first_end is None or first < self.first_end:
            self.first_end = first
        if PANE[0] in rows.columns:
            self._mixed.append(rows)
        else:
            pane = tuple(int(values[0]) for values in assigned.panes)
            self._of_panes.setdefault(pane, []).append(rows)
        # A row that is longer than its share, as of lists, counts as several.
        self._rows += max(rows.height, int(rows.estimated_size()) // _BYTES)
        return self._rows >= self._most_rows

    def due(self, end: int) -> bool:
        """Whether a window that ends there, or before, takes any of them."""
        return self.first_end is not None and self.first_end <= end

    def take(self) -> Iterator[tuple[pl.DataFrame, Assigned]]:
        """All of them, as they were added; those of one pane together. None is left."""
        of_panes, mixed = self._of_panes, self._mixed
        self.clear()
        if mixed and len(of_panes) > 1:
            # A pane that few rows are of alone is combined with the others.
            for pane, frames in list(of_panes.items()):
                if len(frames) == 1:
                    mixed.append(paned(frames[0], _shared(pane), PANE))
                    del of_panes[pane]
        for pane, frames in of_panes.items():
            yield _one(frames), _shared(pane)
        if mixed:
            rows = _one(mixed)
            yield rows, Assigned(tuple(rows[name].to_numpy() for name in PANE), None, None)

    def clear(self) -> None:
        self._of_panes, self._mixed, self._rows, self.first_end = {}, [], 0, None

    @property
    def memory_bytes(self) -> int:
        frames = [frame for frames in self._of_panes.values() for frame in frames] + self._mixed
        return sum(int(frame.estimated_size()) for frame in frames)


def _shared(pane: Sequence[int]) -> Assigned:
    return Assigned(tuple(np.array([value], np.int64) for value in pane), None, None)


def _one(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical")
