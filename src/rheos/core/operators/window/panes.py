"""A columnar store of window state by pane, in the manner of an LSM tree.

State is rows with any columns, in addition to the two that identify their pane. Rows are added as
immutable *segments*, sorted by pane. When there are `FAN_IN` segments of one order of magnitude, the
store merges them with a function that may combine rows of one key and pane. So each row is merged a
logarithmic number of times, and reads touch few segments. Windows read ranges of segments; purging and
snapshots also work on ranges. The family of the windows decides which ranges they read and purge:
`fixed_panes`, `merging_panes`.

Merging is associative and commutative. So the content of a store is the same if rows are added as they
arrived, or as a snapshot merged them. A delta consists of rows to add (CP21).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from rheos.core.protocol.snapshots import PartMode
from rheos.core.state.levels import FAN_IN, to_spill
from rheos.core.state.pane_segments import PLACES, Merge, Segment, pieces, spilled
from rheos.core.state.parts import DeltaChain
from rheos.core.state.spill import SpillFolder

WORTH_A_DELTA = 2
"""Maximum ratio of a full part to a delta at which a full part is written instead, to end the chain."""

_FACTOR = np.uint64(31)
_HASHES = np.uint64(1 << 16)
"""Number of hashes by which rows are counted to bound the rows of a key."""

_LEAST_ROWS = 1 << 10
"""Minimum number of rows in a piece of state that exceeds memory."""


@dataclass(frozen=True)
class MemoryBudget:
    """Memory limit shared by the stores of one operator."""

    size_bytes: int
    folder: SpillFolder | None = None
    """Folder to spill to; None if all state has to remain in memory."""
    places: range = range(PLACES)
    """Places of the subtask's keys."""

    def relieve(self, stores: Iterable[PaneStore]) -> None:
        """Spill the largest segments if the stores use too much memory."""
        if self.folder is None:
            return
        held = sum(store.memory_bytes for store in stores)
        if held <= self.size_bytes:
            return
        segments = [(each.memory_bytes, (store, each)) for store in stores for each in store]
        others = held - sum(size_bytes for size_bytes, _ in segments)
        # Spill until half of the limit is free, so that this does not happen often.
        for store, segment in to_spill(segments, self.size_bytes // 2 - others):
            store.spill(segment, self.folder)

    def most_rows(self, segments: Sequence[Segment]) -> int:
        """Return the maximum number of rows of these segments that memory may contain at once."""
        rows = sum(segment.height for segment in segments)
        if all(isinstance(segment.rows, pl.DataFrame) for segment in segments):
            return max(rows, 1)
        size_bytes = sum(segment.size_bytes for segment in segments)
        return max(self.size_bytes // 8 * rows // max(size_bytes, 1), _LEAST_ROWS)

    def parts(self, size_bytes: int, rows: int) -> int:
        """Return the number of parts in which rows of that size are read from disk."""
        return min(-(-size_bytes * 8 // max(self.size_bytes, 1)), rows)


@dataclass(slots=True)
class PartSize:
    """Estimated size of a part: an upper bound until it is written."""

    mode: PartMode
    rows: int


@dataclass(frozen=True)
class PanePart:
    """Immutable rows of a store that a snapshot contains."""

    settled: Sequence[Segment]
    frames: Sequence[pl.DataFrame]
    """Further rows, which become segments when the part is written."""
    pane: Sequence[str]
    size: PartSize
    keys: Sequence[str]
    memory: MemoryBudget

    @cached_property
    def segments(self) -> list[Segment]:
        return [*self.settled, *(Segment.of(frame, self.pane) for frame in self.frames)]

    @property
    def unchanged(self) -> bool:
        """Return whether the part is a delta without rows."""
        return self.size.mode is PartMode.DELTA and not self.size.rows

    @property
    def is_large(self) -> bool:
        """Return whether the rows may be in several pieces."""
        return self.memory.most_rows(self.segments) < sum(segment.height for segment in self.segments)

    def pieces(self) -> Iterator[list[pl.DataFrame]]:
        """Yield the rows in pieces that fit into memory, without dividing a key and pane."""
        most_rows = self.memory.most_rows(self.segments)
        return pieces(self.segments, self.keys, most_rows, self.memory.places)


class PaneStore:
    """The rows of all open panes.

    Segments with rows that no snapshot contains are kept separately, and merged among themselves; a
    delta consists of them. Panes purged since the last snapshot are not written: they follow from the
    progress of the windows.
    """

    def __init__(
        self, pane: Sequence[str], merge: Merge, keys: Sequence[str], memory: MemoryBudget
    ) -> None:
        self.pane = pane
        """Columns that identify a pane; rows are sorted by the first two."""
        self._merge = merge
        self._keys = keys
        self._memory = memory
        self._fresh: list[Segment] = []
        self._settled: list[Segment] = []
        self._unmerged = False
        """Whether there are settled segments that are not merged with the others yet."""
        self._chain = DeltaChain()
        self._taken: PartSize | None = None

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows, in any order of panes."""
        if not frame.height:
            return
        if self._unmerged:
            self._unmerged = False
            self._compact(self._settled)
        self._fresh.append(Segment.of(frame, self.pane))
        self._compact(self._fresh)

    def takes_rows(self, rows: int) -> bool:
        """Return whether rows should be added without being combined, because combining them would cost
        more."""
        return False

    def _compact(self, segments: list[Segment]) -> None:
        """Merge the segments of a level when it has enough of them."""
        levels = Counter(segment.level for segment in segments)
        full = [level for level, count in levels.items() if count >= FAN_IN]
        while full:
            level = full.pop()
            merged = self._merged([segment for segment in segments if segment.level == level])
            segments[:] = [segment for segment in segments if segment.level != level]
            segments.append(merged)
            levels[level] = 0
            levels[merged.level] += 1
            if levels[merged.level] >= FAN_IN and merged.level not in full:
                full.append(merged.level)

    def _merged(self, segments: Sequence[Segment]) -> Segment:
        folder = self._memory.folder
        if folder is None or all(isinstance(segment.rows, pl.DataFrame) for segment in segments):
            merged = self._merged_in_memory([segment.whole() for segment in segments])
            return Segment.of(merged, self.pane)
        most_rows = self._memory.most_rows(segments)
        parts = pieces(segments, self._keys, most_rows, self._memory.places)
        pieced = (self._merge(frames, self.pane) for frames in parts)
        return spilled(pieced, self._keys, self.pane, folder)

    def _merged_in_memory(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return self._merge(frames, self.pane)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def height(self) -> int:
        """Return the number of rows."""
        return sum(segment.height for segment in self)

    def largest(self, above: int) -> tuple[int, tuple[object, ...]] | None:
        """Return the most rows that a key has in all panes, and the key. Return None if no key has more
        than `above`: to know that, it is mostly enough to count hashes, which takes less time."""
        part = self.whole()
        if part is None or self._most_with_one_hash(part) <= above:
            return None
        counted = pl.concat(
            frame.group_by(self._keys).len() for frames in part.pieces() for frame in frames
        )
        most = counted.group_by(self._keys).agg(pl.col("len").sum()).sort("len").row(-1)
        return most[-1], most[:-1]

    def _most_with_one_hash(self, part: PanePart) -> int:
        """Return the most rows whose keys share bits of their hash: at least as many as a key has."""
        counts = np.zeros(int(_HASHES), np.int64)
        for frames in part.pieces():
            for frame in frames:
                hashes = np.zeros(frame.height, np.uint64)
                for key in self._keys:
                    hashes = hashes * _FACTOR + frame[key].hash().to_numpy()
                counts += np.bincount((hashes % _HASHES).view(np.int64), minlength=int(_HASHES))
        return int(counts.max())

    @property
    def memory_bytes(self) -> int:
        return sum(segment.memory_bytes for segment in self._segments)

    def spill(self, segment: Segment, folder: SpillFolder) -> None:
        """Move a segment of the store to disk."""
        for segments in (self._settled, self._fresh):
            for position, candidate in enumerate(segments):
                if candidate is segment:
                    segments[position] = spilled([segment.whole()], self._keys, self.pane, folder)

    @property
    def _segments(self) -> list[Segment]:
        return self._settled + self._fresh

    def clear(self) -> None:
        """Drop all rows."""
        self._settled, self._fresh = [], []

    # --- snapshots --------------------------------------------------------------------------------

    def next_part(self) -> PanePart | None:
        """Return the next snapshot's part; None if the store is empty. Later rows are not part of
        it."""
        if self._taken is not None:
            self._chain.taken(self._taken.mode, self._taken.rows)
            self._taken = None
        part = self.whole()
        if part is None:
            self._chain.force_full()
            return None
        delta = self._part(PartMode.DELTA, self._fresh or [self._settled[0].nothing()])
        full = self._chain.next_is_full(delta.size.rows, part.size.rows)
        if not full and part.size.rows > WORTH_A_DELTA * delta.size.rows:
            part = delta
        self._settled = self._segments
        self._fresh = []
        self._unmerged = True
        self._taken = part.size
        return part

    def whole(self) -> PanePart | None:
        """Return all rows, or None if the store is empty."""
        segments = self._segments
        return self._part(PartMode.FULL, segments) if segments else None

    def _part(
        self, mode: PartMode, segments: Sequence[Segment], frames: Sequence[pl.DataFrame] = ()
    ) -> PanePart:
        rows = sum(segment.height for segment in segments) + sum(frame.height for frame in frames)
        size = PartSize(mode, rows)
        return PanePart(segments, frames, self.pane, size, self._keys, self._memory)

    def force_full(self) -> None:
        """Make the next part a full one."""
        self._taken = None
        self._chain.force_full()
