"""Immutable rows of window state, sorted by pane: in memory, or on disk.

On disk the rows of a pane are sorted by *place*: 15 bits of their key's hash. So a pane that exceeds
memory can be merged, written and fired one range of places at a time, with all rows of a key at once.
Key groups use the same bits, so the keys of a subtask are in one range of places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from rheos.core.protocol.polars_frames import arrow_column
from rheos.core.state.key_groups import groups_of_columns
from rheos.core.state.levels import level_of
from rheos.core.state.numbered_rows import Numbers
from rheos.core.state.spill import PLACE, SpilledRows, SpillFolder, among

PLACES = 1 << 15
"""Number of places to which keys are hashed."""

Mask: TypeAlias = npt.NDArray[np.bool_]

Merge: TypeAlias = Callable[[Sequence[pl.DataFrame], Sequence[str]], pl.DataFrame]
"""Function that merges frames. It combines rows with the same key and equal values in these columns."""


def places_of(frame: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """Return the place of each row: the highest bits of its key's hash, like the key group."""
    if not frame.height:
        return pl.Series(PLACE, [], dtype=pl.UInt16)
    columns = [arrow_column(frame[key]) for key in keys]
    return pl.Series(PLACE, groups_of_columns(columns, PLACES))


def in_places(frame: pl.DataFrame, keys: Sequence[str], places: range | None) -> pl.DataFrame:
    """Return the rows of the keys in these places; None means all."""
    if places is None or not frame.height:
        return frame
    return among(frame, places_of(frame, keys), places)


def places_of_groups(groups: range, max_parallelism: int) -> range:
    """Return the places that keys of these groups may have."""
    return range(groups.start * PLACES // max_parallelism, -(-groups.stop * PLACES // max_parallelism))


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows sorted by pane, with the index of their panes: pane i is rows starts[i] to starts[i + 1].

    Panes are distinguished and sorted by the first two of their columns.
    """

    rows: pl.DataFrame | SpilledRows
    firsts: Numbers
    seconds: Numbers
    starts: Numbers
    capacity: int
    """Number of rows in its memory, including purged ones."""
    size_bytes: int
    """Size in bytes of the segment's rows in memory; if they are on disk, the size that they would
    have."""

    @classmethod
    def of(cls, frame: pl.DataFrame, pane: Sequence[str]) -> Segment:
        panes = panes_of(frame, pane)
        if not _ascend(*panes[:2]):
            frame = _by_pane(frame, pane, *panes)
            panes = panes_of(frame, pane)
        return cls(frame, *panes, frame.height, int(frame.estimated_size()))

    @property
    def height(self) -> int:
        return int(self.starts[-1] - self.starts[0])

    @property
    def level(self) -> int:
        """Return the order of magnitude of its height."""
        return level_of(self.height)

    @property
    def memory_bytes(self) -> int:
        """Return the memory that it uses, in bytes."""
        return 0 if isinstance(self.rows, SpilledRows) else self.size_bytes

    def read(
        self, first: int, stop: int, keys: Sequence[str], places: range | None = None
    ) -> pl.DataFrame:
        """Return the rows of the panes from `first` to before `stop`. If `places` is passed, return
        only those of keys in these places."""
        low, high = int(self.starts[first]), int(self.starts[stop])
        if isinstance(self.rows, SpilledRows):
            return self.rows.read(low, high, places)
        frame = self.rows.slice(low, high - low)
        return in_places(frame, keys, places)

    def whole(self) -> pl.DataFrame:
        """Return all rows."""
        return self.read(0, len(self.firsts), ())

    def nothing(self) -> Segment:
        """Return a frame with the segment's columns and no rows."""
        none = self.firsts[:0]
        return replace(self, firsts=none, seconds=none, starts=self.starts[:1], size_bytes=0)

    def without(self, panes: int) -> Segment:
        """Return the segment without its first panes."""
        firsts, seconds, starts = self.firsts[panes:], self.seconds[panes:], self.starts[panes:]
        rows, capacity = self.rows, self.capacity
        if isinstance(rows, pl.DataFrame):
            rows, starts = rows.slice(int(starts[0])), starts - starts[0]
            if rows.height * 2 < capacity:
                # A slice keeps all of its memory allocated; copying the remaining rows frees the rest.
                rows = rows.gather(np.arange(rows.height))
                capacity = rows.height
        left = int(starts[-1] - starts[0])
        size_bytes = self.size_bytes * left // max(self.height, 1)
        return Segment(rows, firsts, seconds, starts, capacity, size_bytes)


_SORTED_AT_ONCE = 1 << 10
"""Number of rows from which it pays to sort by one number instead of two."""
_RUN_ROWS = 4
"""Average number of rows per run of one pane from which it pays to sort runs instead of rows."""


def _by_pane(
    frame: pl.DataFrame, pane: Sequence[str], firsts: Numbers, seconds: Numbers, starts: Numbers
) -> pl.DataFrame:
    """Return the frame, which has rows, sorted by pane. The caller passes the panes of runs of rows,
    and where the runs start. Rows that arrive by time, and segments to merge, have long runs."""
    if len(firsts) * _RUN_ROWS <= frame.height:
        order = np.lexsort((seconds, firsts))
        lengths = np.diff(starts)[order]
        moved_by = starts[:-1][order] - (np.cumsum(lengths) - lengths)
        rows: Numbers = np.arange(frame.height) + np.repeat(moved_by, lengths)
        return frame[rows]
    if frame.height >= _SORTED_AT_ONCE:
        firsts, seconds = frame[pane[0]].to_numpy(), frame[pane[1]].to_numpy()
        low, most = int(firsts.min()), int(seconds.max()) - int(seconds.min()) + 1
        if (int(firsts.max()) - low + 1) * most < 2**63:
            return frame[np.argsort((firsts - low) * most + (seconds - seconds.min()))]
    return frame.sort(pane[:2])


def _ascend(firsts: Numbers, seconds: Numbers) -> bool:
    """Return whether runs of panes are in the order of panes, with each pane once."""
    later = (firsts[1:] > firsts[:-1]) | ((firsts[1:] == firsts[:-1]) & (seconds[1:] > seconds[:-1]))
    return bool(later.all())


def panes_of(frame: pl.DataFrame, pane: Sequence[str]) -> tuple[Numbers, Numbers, Numbers]:
    """Return the panes of successive runs of rows, and where the runs start."""
    firsts, seconds = frame[pane[0]].to_numpy(), frame[pane[1]].to_numpy()
    starts = np.append(np.flatnonzero(_changes(firsts, seconds)), len(firsts))
    return firsts[starts[:-1]], seconds[starts[:-1]], starts


def spilled(
    frames: Iterable[pl.DataFrame], keys: Sequence[str], pane: Sequence[str], folder: SpillFolder
) -> Segment:
    """Write frames, which are in the order of panes and places, to disk. Return the segment."""
    panes: list[tuple[Numbers, Numbers, Numbers]] = []
    written = size_bytes = 0

    def sorted_frames() -> Iterator[pl.DataFrame]:
        nonlocal written, size_bytes
        for frame in frames:
            if not frame.height:
                continue
            placed = frame.hstack([places_of(frame, keys)]).sort([*pane[:2], PLACE])
            firsts, seconds, starts = panes_of(placed, pane)
            panes.append((firsts, seconds, starts[:-1] + written))
            written += placed.height
            size_bytes += int(frame.estimated_size())
            yield placed

    rows = folder.write(sorted_frames())
    firsts, seconds, starts = (np.concatenate(parts) for parts in zip(*panes, strict=True))
    # A pane that is in several frames becomes one.
    first = _changes(firsts, seconds)
    return Segment(
        rows,
        firsts[first],
        seconds[first],
        np.append(starts[first], written),
        written,
        size_bytes,
    )


def pieces(
    segments: Sequence[Segment], keys: Sequence[str], most_rows: int, places: range
) -> Iterator[list[pl.DataFrame]]:
    """Yield the rows of all segments, piece by piece, in the order of panes and places.

    A piece has all rows of its panes, or of a range of places of one pane, and about `most_rows` if
    possible. A segment without rows in a piece contributes an empty frame, so all pieces have the same
    columns. `places` are the places that keys may have.
    """
    firsts = np.concatenate([segment.firsts for segment in segments])
    seconds = np.concatenate([segment.seconds for segment in segments])
    sizes = np.concatenate([np.diff(segment.starts) for segment in segments])
    if int(sizes.sum()) <= most_rows:
        yield [segment.whole() for segment in segments]
        return
    order = np.lexsort((seconds, firsts))
    firsts, seconds = firsts[order], seconds[order]
    first = np.flatnonzero(_changes(firsts, seconds))
    through = np.cumsum(np.add.reduceat(sizes[order], first))
    begin, done = 0, 0
    while begin < len(first):
        # As many whole panes as fit, and at least one.
        stop = max(begin + 1, int(np.searchsorted(through, done + most_rows, side="right")))
        low = int(firsts[first[begin]]), int(seconds[first[begin]])
        high = int(firsts[first[stop - 1]]), int(seconds[first[stop - 1]])
        spans = [
            (segment, _position(segment, low), _position(segment, high, behind=True))
            for segment in segments
        ]
        for some in cut(places, -(-int(through[stop - 1] - done) // most_rows)):
            yield [segment.read(low, high, keys, some) for segment, low, high in spans]
        begin, done = stop, int(through[stop - 1])


def cut(places: range, parts: int) -> list[range | None]:
    """Return ranges of places of equal length; None means all places."""
    parts = min(parts, len(places))
    if parts <= 1:
        return [None]
    bounds = [places.start + len(places) * i // parts for i in range(parts + 1)]
    return [range(low, high) for low, high in pairwise(bounds)]


def _position(segment: Segment, pane: tuple[int, int], *, behind: bool = False) -> int:
    """Return the number of the segment's panes before this pane; including it if `behind`."""
    low, high = np.searchsorted(segment.firsts, pane[0]), np.searchsorted(segment.firsts, pane[0] + 1)
    wanted = pane[1] + 1 if behind else pane[1]
    return int(low + np.searchsorted(segment.seconds[low:high], wanted))


def _changes(firsts: Numbers, seconds: Numbers) -> Mask:
    """Return, for panes in order, whether each differs from the one before."""
    changes: Mask = np.ones(len(firsts), dtype=np.bool_)
    changes[1:] = (firsts[1:] != firsts[:-1]) | (seconds[1:] != seconds[:-1])
    return changes
