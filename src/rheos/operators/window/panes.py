"""A columnar store of window state by pane, in the manner of an LSM tree.

State is rows of any columns, beside the two that name their pane. It is added as immutable
*segments*, sorted by pane; segments of one order of magnitude are merged when there are `FAN_IN` of
them, by a function that may combine rows of one key and pane. So a row is merged a logarithmic number
of times, and few segments are ever read. What windows gather, what is purged and what a snapshot
freezes are ranges of segments; none of it copies a row that stays.

Merging is associative and commutative, so a store is the same whether rows are added as they came or
as some snapshot merged them: a delta is rows to add.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl

from rheos.operators.window.assign import Ints, WindowGrid, progressions
from rheos.protocol.snapshots import PartMode
from rheos.state.parts import Chain

SLICE = "slice_start"
VALID = "first_window_end"
END = "window_end"
PANE = (SLICE, VALID)

FAN_IN = 8

WORTH_A_DELTA = 2
"""A whole part that is no more than so many times as long as the delta is better: it ends the chain."""

Merge: TypeAlias = Callable[[Sequence[pl.DataFrame], Sequence[str]], pl.DataFrame]
"""Makes one frame of several, combining the rows that agree in their key and the columns named."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows sorted by pane, with the index of their panes: pane i is rows starts[i] to starts[i + 1]."""

    frame: pl.DataFrame
    slices: Ints
    valids: Ints
    starts: Ints
    capacity: int
    """How many rows its memory holds, with those that were purged."""

    @classmethod
    def of(cls, frame: pl.DataFrame) -> Segment:
        slices, valids = frame[SLICE].to_numpy(), frame[VALID].to_numpy()
        changes = np.flatnonzero((slices[1:] != slices[:-1]) | (valids[1:] != valids[:-1]))
        if len(changes):
            frame = frame.sort(PANE)
            slices, valids = frame[SLICE].to_numpy(), frame[VALID].to_numpy()
            changes = np.flatnonzero((slices[1:] != slices[:-1]) | (valids[1:] != valids[:-1]))
        starts = np.concatenate([[0], changes + 1, [len(slices)]])
        return cls(frame, slices[starts[:-1]], valids[starts[:-1]], starts, frame.height)

    @property
    def level(self) -> int:
        """The order of magnitude of its height, in powers of FAN_IN."""
        return self.frame.height.bit_length() // (FAN_IN - 1).bit_length()

    def nothing(self) -> Segment:
        """None of its rows."""
        none = self.slices[:0]
        return Segment(self.frame.clear(), none, none, self.starts[:1], 0)

    def without(self, panes: int) -> Segment:
        """What stays when the first panes go."""
        gone = int(self.starts[panes])
        frame, capacity = self.frame.slice(gone), self.capacity
        if frame.height * 2 < capacity:
            # A slice keeps all of its memory alive; copying what is left frees the rest.
            frame, capacity = frame.gather(np.arange(frame.height)), frame.height
        return Segment(
            frame, self.slices[panes:], self.valids[panes:], self.starts[panes:] - gone, capacity
        )


@dataclass(slots=True)
class PartSize:
    """How long a part is: at the most, until it is written."""

    mode: PartMode
    rows: int


@dataclass(frozen=True, slots=True)
class PanePart:
    """What a snapshot takes of a store: segments that nothing changes any more."""

    segments: Sequence[Segment]
    size: PartSize

    @classmethod
    def of(cls, mode: PartMode, segments: Sequence[Segment]) -> PanePart:
        return cls(segments, PartSize(mode, sum(segment.frame.height for segment in segments)))

    @property
    def frames(self) -> list[pl.DataFrame]:
        return [segment.frame for segment in self.segments]


class PaneStore:
    """The rows of all panes that are open.

    Segments with rows that no snapshot has are kept apart, and merged among themselves: together they
    are what a delta holds. What was purged since needs no word: it follows from how far windows have
    fired.
    """

    def __init__(self, grid: WindowGrid, merge: Merge) -> None:
        self._grid = grid
        self._merge = merge
        self._fresh: list[Segment] = []
        self._settled: list[Segment] = []
        self._unmerged = False
        """Whether segments have settled that are not yet merged with the others."""
        self._chain = Chain()
        self._taken: PartSize | None = None

    def add(self, frame: pl.DataFrame) -> None:
        """Adds rows, in any order of panes."""
        if not frame.height:
            return
        if self._unmerged:
            self._unmerged = False
            self._compact(self._settled)
        self._fresh.append(Segment.of(frame))
        self._compact(self._fresh)

    def _compact(self, segments: list[Segment]) -> None:
        """Merges segments of one level where there are enough of them."""
        levels = Counter(segment.level for segment in segments)
        full = [level for level, count in levels.items() if count >= FAN_IN]
        while full:
            level = full.pop()
            frames = [segment.frame for segment in segments if segment.level == level]
            segments[:] = [segment for segment in segments if segment.level != level]
            merged = Segment.of(self._merge(frames, PANE))
            segments.append(merged)
            levels[level] = 0
            levels[merged.level] += 1
            if levels[merged.level] >= FAN_IN and merged.level not in full:
                full.append(merged.level)

    @property
    def _segments(self) -> list[Segment]:
        return self._settled + self._fresh

    def panes(self) -> tuple[Ints, Ints, Ints]:
        """Slice, first valid window end and row count of all panes; some occur more than once."""
        segments = self._segments
        if not segments:
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing, nothing
        return (
            np.concatenate([segment.slices for segment in segments]),
            np.concatenate([segment.valids for segment in segments]),
            np.concatenate([np.diff(segment.starts) for segment in segments]),
        )

    def gather(self, first_end: int, last_end: int) -> list[pl.DataFrame]:
        """The rows of the windows that end from `first_end` to `last_end`, once for each of them,
        with the column END in the place of the pane."""
        frames = []
        for segment in self._segments:
            ends, counts = self._grid.due(segment.slices, segment.valids, first_end - 1, last_end)
            hit = np.flatnonzero(counts)
            if not len(hit):
                continue
            begin, stop = hit[0], hit[-1] + 1
            sizes = np.diff(segment.starts)
            if (counts[begin:stop] == 1).all():
                low, high = int(segment.starts[begin]), int(segment.starts[stop])
                rows = segment.frame.slice(low, high - low)
                end_of_row = np.repeat(ends[begin:stop], sizes[begin:stop])
            else:
                end_of_pair, pane = progressions(ends, counts, self._grid.slide)
                index, pair = progressions(segment.starts[pane], sizes[pane], 1)
                rows = segment.frame[index]
                end_of_row = end_of_pair[pair]
            columns = [column for column in rows.columns if column not in PANE]
            frames.append(rows[columns].hstack([pl.Series(END, end_of_row)]))
        return frames

    def purge(self, last_end: int) -> None:
        """Drops the panes that no window ending after `last_end` takes."""
        self._settled = self._purged(self._settled, last_end)
        self._fresh = self._purged(self._fresh, last_end)

    def _purged(self, segments: Sequence[Segment], last_end: int) -> list[Segment]:
        kept = []
        for segment in segments:
            # A later slice has a later last window, so what goes is a prefix.
            gone = int(np.searchsorted(self._grid.last_end(segment.slices), last_end, side="right"))
            if gone == len(segment.slices):
                continue
            kept.append(segment.without(gone) if gone else segment)
        return kept

    # --- snapshots --------------------------------------------------------------------------------

    def next_part(self) -> PanePart | None:
        """What the next snapshot holds; None where the store is empty. Rows to come belong to the
        snapshot after it."""
        if self._taken is not None:
            self._chain.taken(self._taken.mode, self._taken.rows)
            self._taken = None
        part = self.whole()
        if part is None:
            self._chain.force_full()
            return None
        delta = PanePart.of(PartMode.DELTA, self._fresh or [self._settled[0].nothing()])
        full = self._chain.next_is_full(delta.size.rows)
        if not full and part.size.rows > WORTH_A_DELTA * delta.size.rows:
            part = delta
        self._settled = self._segments
        self._fresh = []
        self._unmerged = True
        self._taken = part.size
        return part

    def whole(self) -> PanePart | None:
        """All rows, or None where there are none."""
        segments = self._segments
        return PanePart.of(PartMode.FULL, segments) if segments else None

    def force_full(self) -> None:
        """The next part is to be a whole one."""
        self._taken = None
        self._chain.force_full()
