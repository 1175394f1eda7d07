"""The panes of fixed windows. The panes of a window, and expired panes, are ranges of slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from rheos.core.operators.window.contract import FixedWindows, Ints, progressions
from rheos.core.operators.window.pane_columns import END, PANE
from rheos.core.operators.window.panes import MemoryBudget, PaneStore
from rheos.core.state.pane_segments import Merge, Segment, cut, panes_of


class FixedPanes(PaneStore):
    """The rows of all panes that a future window may contain."""

    def __init__(
        self, windows: FixedWindows, merge: Merge, keys: Sequence[str], memory: MemoryBudget
    ) -> None:
        super().__init__(windows.pane, merge, keys, memory)
        self._windows = windows

    def _merged(self, segments: Sequence[Segment]) -> Segment:
        # Segments of sliding windows mostly have different slices, so they share no pane.
        in_memory = all(isinstance(segment.rows, pl.DataFrame) for segment in segments)
        if in_memory and _are_disjoint(segments):
            # As one chunk: each window reads the rows, and would copy rows in several chunks each time.
            rows = pl.concat([segment.whole() for segment in segments], how="diagonal", rechunk=True)
            return Segment.of(rows, self.pane)
        return super()._merged(segments)

    def panes(self) -> tuple[Ints, Ints, Ints]:
        """Return slice, first valid window end and row count of all panes, possibly with
        repetitions."""
        segments = self._segments
        if not segments:
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing, nothing
        return (
            np.concatenate([segment.firsts for segment in segments]),
            np.concatenate([segment.seconds for segment in segments]),
            np.concatenate([np.diff(segment.starts) for segment in segments]),
        )

    def parts(self, first_end: int, last_end: int) -> int:
        """Return the number of parts, by ranges of places, in which the rows of these windows must be
        gathered."""
        if all(isinstance(segment.rows, pl.DataFrame) for segment in self):
            return 1
        size_bytes = gathered = 0
        for segment in self:
            _, counts = self._windows.due(segment.firsts, segment.seconds, first_end - 1, last_end)
            rows = int((counts * np.diff(segment.starts)).sum())
            size_bytes += segment.size_bytes * rows // max(segment.height, 1)
            gathered += rows
        return self._memory.parts(size_bytes, gathered)

    def gather(self, first_end: int, last_end: int, places: range | None = None) -> list[pl.DataFrame]:
        """Return the rows of the windows that end from `first_end` to `last_end`, once for each window.
        Column END replaces the columns of the pane. If `places` is passed, return only keys there."""
        frames = []
        for segment in self._segments:
            ends, counts = self._windows.due(segment.firsts, segment.seconds, first_end - 1, last_end)
            hit = np.flatnonzero(counts)
            if not len(hit):
                continue
            begin, stop = int(hit[0]), int(hit[-1]) + 1
            rows = segment.read(begin, stop, self._keys, places)
            if places is None:
                ends, counts = ends[begin:stop], counts[begin:stop]
                sizes = np.diff(segment.starts[begin : stop + 1])
            else:
                slices, valids, starts = panes_of(rows, self.pane)
                ends, counts = self._windows.due(slices, valids, first_end - 1, last_end)
                sizes = np.diff(starts)
            if (counts == 1).all():
                end_of_row = np.repeat(ends, sizes)
            else:
                end_of_pair, pane = self._windows.ends(ends, counts)
                starts = np.cumsum(sizes) - sizes
                index, pair = progressions(starts[pane], sizes[pane], 1)
                rows = rows[index]
                end_of_row = end_of_pair[pair]
            columns = [column for column in rows.columns if column not in PANE]
            frames.append(rows[columns].hstack([pl.Series(END, end_of_row)]))
        return frames

    def whole_keys(self) -> Iterator[pl.DataFrame]:
        """Yield keys and panes of all rows, in parts that fit into memory. A part has all rows of its
        keys."""
        parts = 1
        if any(not isinstance(segment.rows, pl.DataFrame) for segment in self):
            parts = self._memory.parts(sum(segment.size_bytes for segment in self), self.height)
        for places in cut(self._memory.places, parts):
            rows = [segment.read(0, len(segment.firsts), self._keys, places) for segment in self]
            if rows:
                yield pl.concat([frame.select(*self._keys, *PANE) for frame in rows])

    def purge(self, last_end: int) -> None:
        """Drop the panes that no window ending after `last_end` contains."""
        self._settled = self._purged(self._settled, last_end)
        self._fresh = self._purged(self._fresh, last_end)

    def _purged(self, segments: Sequence[Segment], last_end: int) -> list[Segment]:
        kept = []
        for segment in segments:
            # A later slice has a later last window, so expired slices are a prefix.
            gone = int(np.searchsorted(self._windows.last_end(segment.firsts), last_end, side="right"))
            if gone == len(segment.firsts):
                continue
            kept.append(segment.without(gone) if gone else segment)
        return kept


def _are_disjoint(segments: Sequence[Segment]) -> bool:
    """Return whether each slice, and so each pane, occurs in at most one segment."""
    slices = np.concatenate([np.unique(segment.firsts) for segment in segments])
    return len(np.unique(slices)) == len(slices)
