"""The panes of merging windows: merged with neighbours of the same key, and read by key.

Rows are sorted by the end of their pane *as it was known* when they were stored. The rows that are due
at a watermark are a prefix of each segment. The windows of these rows' keys show which of the rows have
ended (`merging_trigger`). Rows of a window that has grown move to its new end.

So a row of a long session is read and stored again at most once per gap, and is then merged with its
neighbours. If state is columns of numbers, the newest pane of each key is kept separately and merged in
place (`newest_panes`). For reading, these newest panes are one more segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl

from rheos.core.operators.window.merging import all_meet, joined
from rheos.core.operators.window.newest_panes import NewestPanes, ReduceOf
from rheos.core.operators.window.panes import MemoryBudget, PanePart, PaneStore
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.protocol.snapshots import PartMode
from rheos.core.state.pane_segments import Merge, Segment, cut, in_places
from rheos.core.state.slots import Slots
from rheos.core.state.spill import SpilledRows

EVER = MIN_TIMESTAMP_MS * 2
"""A time before the end of every pane."""
_FEW_ROWS = 16
"""Maximum number of rows per key for which a batch is stored without combining its rows first."""
_SHARE = 4
"""Divisor of the memory for state: the newest panes use at most a fourth."""


class MergingPanes(PaneStore):
    """Rows by key and pane. If `joins` is set, panes of a key that form one window are merged."""

    def __init__(
        self,
        pane: Sequence[str],
        merge: Merge,
        keys: Sequence[str],
        memory: MemoryBudget,
        *,
        joins: bool = True,
        reduce_of: ReduceOf | None = None,
    ) -> None:
        """Create an empty store. `reduce_of` selects the state columns that may be kept as arrays."""
        super().__init__(pane, merge, keys, memory)
        self._joins = joins
        self._newest = None if reduce_of is None else NewestPanes(keys, reduce_of)
        self._grow = False
        """Whether windows are longer than a batch, judging by the last batch. Only then do most rows of
        a batch meet the newest pane of their key."""

    def add(self, frame: pl.DataFrame) -> None:
        self._grow = self._newest is not None and bool(frame.height) and all_meet(frame)
        if not self._grow or self._newest is None:
            super().add(frame)
            return
        left = self._newest.add(frame)
        if left is not None:
            for for_segments in self._newest.exchange(self.merged(left)):
                super().add(for_segments)
        if self._newest.is_large or self._newest.memory_bytes > self._memory.size_bytes // _SHARE:
            super().add(self._newest.take_all())

    def _merged_in_memory(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        if not self._joins:
            return super()._merged_in_memory(frames)
        return self.merged(pl.concat(frames, how="diagonal"))

    def merged(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows, with the rows of each window combined."""
        return self._merge([joined(frame, self._keys)], self.pane)

    def put_back(self, frame: pl.DataFrame) -> None:
        """Add back rows that were taken, because their windows have grown since."""
        if frame.height:
            (self.add if self._grow else super().add)(self.merged(frame))

    def takes_rows(self, rows: int) -> bool:
        return self._newest is not None and self._newest.rows * _FEW_ROWS > rows

    @property
    def memory_bytes(self) -> int:
        return super().memory_bytes + (0 if self._newest is None else self._newest.memory_bytes)

    def clear(self) -> None:
        super().clear()
        if self._newest is not None:
            self._newest.clear()

    def _of_newest(
        self, slots: Callable[[NewestPanes], Slots], places: range | None
    ) -> list[pl.DataFrame]:
        """Return the newest panes that `slots` selects, for keys in `places`, as a frame; none if there
        are no such panes."""
        if self._newest is None or not self._newest.rows:
            return []
        named = slots(self._newest)
        if not len(named):
            return []
        frame = self._newest.frame(named)
        return [in_places(frame, self._keys, places)]

    # --- reading ------------------------------------------------------------------------------------

    @property
    def one_of_each_key(self) -> bool:
        """Return whether it is known, without a search, that no key has two panes."""
        return self._newest is not None and not self._segments

    def parts(self) -> list[range | None]:
        """Return the ranges of places that fit into memory one at a time; None means all places."""
        if all(isinstance(segment.rows, pl.DataFrame) for segment in self):
            return [None]
        size_bytes = sum(segment.size_bytes for segment in self)
        rows = sum(segment.height for segment in self)
        return cut(self._memory.places, self._memory.parts(size_bytes, rows))

    def has(self, above: int, upto: int) -> bool:
        """Return whether panes exist that end after `above` and at or before `upto`."""
        if any(np.diff(_bounds(segment, above, upto))[0] for segment in self):
            return True
        return self._newest is not None and bool(len(self._newest.ending(above, upto)))

    def next_end(self, above: int) -> int | None:
        """Return the earliest end of a pane after `above`; None if no pane ends after it."""
        ends = []
        for segment in self:
            begin, _ = _bounds(segment, above, above)
            if begin < len(segment.firsts):
                ends.append(int(segment.firsts[begin]))
        newest = None if self._newest is None else self._newest.next_end(above)
        return min(ends if newest is None else [*ends, newest], default=None)

    def ending(self, above: int, upto: int, places: range | None) -> list[pl.DataFrame]:
        """Return the rows of panes that end after `above` and at or before `upto`."""
        found = self._of_newest(lambda panes: panes.ending(above, upto), places)
        for segment in self:
            begin, stop = _bounds(segment, above, upto)
            if begin < stop:
                found.append(segment.read(begin, stop, self._keys, places))
        return [frame for frame in found if frame.height]

    def of_keys(
        self, keys: pl.DataFrame, places: range | None, upto: int | None = None
    ) -> pl.DataFrame:
        """Return the rows of these keys, or only those of panes that end at or before `upto`."""
        frames = self._of_newest(lambda panes: panes.of_keys(keys, upto), places)
        for segment in self:
            stop = len(segment.firsts) if upto is None else _bounds(segment, upto, upto)[0]
            rows = segment.read(0, stop, self._keys, places)
            if isinstance(segment.rows, SpilledRows):
                rows = rows.join(keys, on=self._keys, how="semi")
            frames.append(rows)
        if not frames:
            return pl.DataFrame()
        return pl.concat(frames, how="diagonal").join(keys, on=self._keys, how="semi")

    # --- removal --------------------------------------------------------------------------------------

    def take(self, upto: int) -> TakenRows:
        """Remove the rows of panes that end at or before `upto` from the store, and return them."""
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
        ended = self._of_newest(lambda panes: panes.ending(EVER, upto), None)
        self._drop_newest(upto)
        return TakenRows(taken, ended, self._keys)

    def drop(self, upto: int) -> None:
        """Drop the rows that `take` would return. Call this only while no key has two panes."""
        assert self.one_of_each_key
        self._drop_newest(upto)

    def _drop_newest(self, upto: int) -> None:
        if self._newest is not None and self._newest.rows:
            self._newest.drop(self._newest.ending(EVER, upto))

    def settle(self, upto: int) -> None:
        """Move the newest panes that end at or before `upto` into segments. They have fired, and the
        search for due panes covers only panes that have not fired."""
        for frame in self._of_newest(lambda panes: panes.ending(EVER, upto), None):
            self._drop_newest(upto)
            super().add(frame)

    # --- snapshots ------------------------------------------------------------------------------------

    def whole(self) -> PanePart | None:
        newest, segments = self._of_newest(NewestPanes.all, None), self._segments
        return self._part(PartMode.FULL, segments, newest) if segments or newest else None

    def next_part(self) -> PanePart | None:
        # A merged row replaces rows that a delta does not name, so each part is a full one.
        return self.whole()


class TakenRows:
    """Rows that were taken out of a store."""

    def __init__(
        self,
        segments: Sequence[tuple[Segment, int]],
        others: Sequence[pl.DataFrame],
        keys: Sequence[str],
    ) -> None:
        self._segments = segments
        self._others = others
        self._keys = keys

    def rows(self, places: range | None) -> Iterator[pl.DataFrame]:
        """Yield the rows whose keys are in these places."""
        for segment, stop in self._segments:
            frame = segment.read(0, stop, self._keys, places)
            if frame.height:
                yield frame
        for frame in self._others:
            there = in_places(frame, self._keys, places)
            if there.height:
                yield there


def _bounds(segment: Segment, above: int, upto: int) -> tuple[int, int]:
    """Return the range of panes that end after `above` and at or before `upto`: the index of the first
    one, and the index after the last one."""
    begin, stop = np.searchsorted(segment.firsts, [above, upto], side="right")
    return int(begin), int(stop)
