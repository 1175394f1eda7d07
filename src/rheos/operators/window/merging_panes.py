"""The panes of merging windows: merged by a key's neighbours, and read by key.

Rows are sorted by where their pane ends *as far as was known* when they were stored. What is due by the
watermark is a prefix of each segment; the windows that the keys of these rows have show which of them
are over (`merging_trigger`). Rows of a window that has grown move behind, to its new end.

So a row of a long session is read and stored again once per gap, at the most, and merged with its
neighbours then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from rheos.operators.spill import SpilledRows
from rheos.operators.window.merging import joined
from rheos.operators.window.panes import MemoryBudget, PanePart, PaneStore
from rheos.operators.window.segments import Merge, Segment, cut
from rheos.protocol.elements import MIN_TIMESTAMP_MS

EVER = MIN_TIMESTAMP_MS * 2
"""Before all ends of panes."""


class MergingPanes(PaneStore):
    """Rows by key and pane; where it `joins`, panes of a key that are one window are merged where they
    meet."""

    def __init__(
        self,
        pane: Sequence[str],
        merge: Merge,
        keys: Sequence[str],
        memory: MemoryBudget,
        *,
        joins: bool = True,
    ) -> None:
        super().__init__(pane, merge, keys, memory)
        self._joins = joins

    def _merged_in_memory(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        if not self._joins:
            return super()._merged_in_memory(frames)
        return self.merged(pl.concat(frames, how="diagonal"))

    def merged(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows, those of one window combined."""
        return self._merge([joined(frame, self._keys)], self.pane)

    # --- reading ------------------------------------------------------------------------------------

    def parts(self) -> list[range | None]:
        """The ranges of places that memory takes one after the other; None stands for all."""
        if all(isinstance(segment.rows, pl.DataFrame) for segment in self):
            return [None]
        size_bytes = sum(segment.size_bytes for segment in self)
        rows = sum(segment.height for segment in self)
        return cut(self._memory.places, self._memory.parts(size_bytes, rows))

    def has(self, above: int, upto: int) -> bool:
        """Whether there are panes that end after `above`, `upto` at the latest."""
        return any(np.diff(_bounds(segment, above, upto))[0] for segment in self)

    def ending(self, above: int, upto: int, places: range | None) -> list[pl.DataFrame]:
        """The rows of panes that end after `above`, `upto` at the latest."""
        found = []
        for segment in self:
            begin, stop = _bounds(segment, above, upto)
            if begin < stop:
                found.append(segment.read(begin, stop, self._keys, places))
        return [frame for frame in found if frame.height]

    def of_keys(
        self, keys: pl.DataFrame, places: range | None, upto: int | None = None
    ) -> pl.DataFrame:
        """The rows of these keys; where it is given, of panes that end at `upto` at the latest."""
        frames = []
        for segment in self:
            stop = len(segment.firsts) if upto is None else _bounds(segment, upto, upto)[0]
            rows = segment.read(0, stop, self._keys, places)
            if isinstance(segment.rows, SpilledRows):
                rows = rows.join(keys, on=self._keys, how="semi")
            frames.append(rows)
        if not frames:
            return pl.DataFrame()
        return pl.concat(frames, how="diagonal").join(keys, on=self._keys, how="semi")

    # --- what is over ---------------------------------------------------------------------------------

    def take(self, upto: int) -> TakenRows:
        """Takes the rows of panes that end at `upto` at the latest out of the store."""
        taken = []
        for segments in (self._settled, self._fresh):
            left = []
            for segment in segments:
                stop = _bounds(segment, upto, upto)[0]
                if stop:
                    taken.append((segment, stop))
                if stop < len(segment.firsts):
                    left.append(segment.without(stop) if stop else segment)
            segments[:] = left
        return TakenRows(taken, self._keys)

    # --- snapshots ------------------------------------------------------------------------------------

    def next_part(self) -> PanePart | None:
        # Merged rows stand for others that a delta does not name, so each part is whole.
        return self.whole()


class TakenRows:
    """Rows that were taken out of a store."""

    def __init__(self, segments: Sequence[tuple[Segment, int]], keys: Sequence[str]) -> None:
        self._segments = segments
        self._keys = keys

    def rows(self, places: range | None) -> Iterator[pl.DataFrame]:
        """Those of the keys in these places."""
        for segment, stop in self._segments:
            frame = segment.read(0, stop, self._keys, places)
            if frame.height:
                yield frame


def _bounds(segment: Segment, above: int, upto: int) -> tuple[int, int]:
    """The panes that end after `above`, `upto` at the latest: the first, and the one behind them."""
    begin, stop = np.searchsorted(segment.firsts, [above, upto], side="right")
    return int(begin), int(stop)
