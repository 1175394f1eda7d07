"""A columnar store of window state by pane, in the manner of an LSM tree.

State is rows of any columns, beside the two that name their pane. It is added as immutable
*segments*, sorted by pane; segments of one order of magnitude are merged when there are `FAN_IN` of
them, by a function that may combine rows of one key and pane. So a row is merged a logarithmic number
of times, and few segments are ever read. What windows gather, what is purged and what a snapshot
freezes are ranges of segments; none of it copies a row that stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl

from rheos.operators.window.assign import Ints, WindowGrid, progressions

SLICE = "slice_start"
VALID = "first_window_end"
END = "window_end"
PANE = (SLICE, VALID)

FAN_IN = 8

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


class PaneStore:
    """The rows of all panes that are open."""

    def __init__(self, grid: WindowGrid, merge: Merge) -> None:
        self._grid = grid
        self._merge = merge
        self._segments: list[Segment] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Adds rows, in any order of panes."""
        if not frame.height:
            return
        self._segments.append(Segment.of(frame))
        while (run := self._mergeable()) >= FAN_IN:
            frames = [segment.frame for segment in self._segments[-run:]]
            self._segments[-run:] = [Segment.of(self._merge(frames, PANE))]

    def _mergeable(self) -> int:
        """How many of the newest segments are no larger than the newest one, in magnitude."""
        level, run = self._segments[-1].level, 0
        for segment in reversed(self._segments):
            if segment.level > level:
                break
            run += 1
        return run

    def panes(self) -> tuple[Ints, Ints, Ints]:
        """Slice, first valid window end and row count of all panes; some occur more than once."""
        if not self._segments:
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing, nothing
        return (
            np.concatenate([segment.slices for segment in self._segments]),
            np.concatenate([segment.valids for segment in self._segments]),
            np.concatenate([np.diff(segment.starts) for segment in self._segments]),
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
        kept = []
        for segment in self._segments:
            # A later slice has a later last window, so what goes is a prefix.
            gone = int(np.searchsorted(self._grid.last_end(segment.slices), last_end, side="right"))
            if gone == len(segment.slices):
                continue
            kept.append(segment.without(gone) if gone else segment)
        self._segments = kept

    def freeze(self) -> tuple[pl.DataFrame, ...]:
        """The rows as they are now; what follows does not change them."""
        return tuple(segment.frame for segment in self._segments)
