"""Rows that are found by key and time, a batch of look-ups at a time.

Rows form *segments*: those of one batch, or of several merged batches. Each row has a number, in the
order of arrival, and so has each place in the index. Within a segment the places are sorted by key and
time, so the rows of a key are one *run*. A run refers to the previous run of its key:

    segment          0               1           2
    runs of key a    a a ◄────────── a a a ◄──── a ◄─── head of a
    runs of key b        b ◄──────────────────── b ◄─── head of b

A look-up goes from the head of its key through the runs, and searches each run by time. All look-ups of
a batch advance together. When `FAN_IN` segments have one order of magnitude they are merged, so a key
has few runs.

Keys are slots (`state.key_index`). Expired rows are dropped one whole segment at a time. The owner has
to make sure that few expired rows remain among others (`kept`, `alive`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.protocol.elements import TS, Batch
from rheos.core.state.levels import FAN_IN, level_of, to_spill
from rheos.core.state.numbered_array import NumberedArray, with_room
from rheos.core.state.numbered_rows import Numbers, taken
from rheos.core.state.slots import Slots, order_by_slot
from rheos.core.state.spill import SpillFolder

MOST_ROWS = 1 << 20
"""Maximum number of rows of a merged segment, which is copied at once."""


class Matches(NamedTuple):
    """The rows that look-ups have found: look-up `by[i]` found the places from `begin[i]` to before
    `end[i]`. They have the order of the look-ups; a look-up may occur several times."""

    by: Numbers
    begin: Numbers
    end: Numbers

    def pieces(self, most: int) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield the look-up and the place of each found row, at most `most` at a time."""
        counts = self.end - self.begin
        through = np.cumsum(counts)
        total = int(through[-1]) if len(through) else 0
        for first in range(0, total, most):
            stop = min(first + most, total)
            low = int(np.searchsorted(through, first, side="right"))
            high = int(np.searchsorted(through, stop, side="left")) + 1
            begin, end = self.begin[low:high].copy(), self.end[low:high].copy()
            # Cut off the places that were yielded before or will be yielded next, of the first and last
            # range.
            begin[0] = end[0] - (through[low] - first)
            end[-1] -= through[high - 1] - stop
            some = end - begin
            skipped = np.cumsum(some) - some
            within = np.arange(stop - first) - np.repeat(skipped, some)
            yield np.repeat(self.by[low:high], some), np.repeat(begin, some) + within


@dataclass(slots=True)
class _Segment:
    first: int
    """Number of the segment's first row, and of its first place."""
    run: int
    """Number of the segment's first run."""
    rows: Batch
    """Rows of the segment, in the order of arrival."""
    latest: int
    """Latest time of the segment's rows."""
    size_bytes: int
    """Memory in bytes; 0 if it is on disk."""
    by_time: Numbers | None = None
    """Rows of the segment in the order of time, from the first one; computed when needed."""
    cut: int = 0
    """Number of rows in `by_time` that `due` has returned already."""

    @property
    def height(self) -> int:
        return int(self.rows.num_rows)

    @property
    def level(self) -> int:
        return level_of(self.height)

    @property
    def stamps(self) -> Numbers:
        stamps: Numbers = self.rows.column(TS).to_numpy()
        return stamps


class TimedRows:
    """The rows of one side. They have the column TS."""

    def __init__(self, schema: pa.Schema, folder: SpillFolder | None) -> None:
        self._schema = schema
        self._folder = folder
        self._segments: list[_Segment] = []
        # Indexed by place:
        self._slots = NumberedArray(np.int32)
        self._stamps = NumberedArray(np.int64)
        self._numbers = NumberedArray(np.int64)
        # Indexed by run: its slot, its first place, the place after it, and the previous run of its
        # slot.
        self._of = NumberedArray(np.int32)
        self._begins = NumberedArray(np.int64)
        self._ends = NumberedArray(np.int64)
        self._before = NumberedArray(np.int64)
        # Indexed by slot: the last run.
        self._heads: Numbers = np.full(1 << 10, -1, np.int64)

    # --- rows -----------------------------------------------------------------------------------------

    @property
    def first(self) -> int:
        """Return the number of the first stored row."""
        return self._slots.first

    @property
    def next(self) -> int:
        """Return the number of the next row to be added."""
        return self._slots.next

    @property
    def kept(self) -> int:
        """Return the number of stored rows."""
        return self.next - self.first

    def add(self, slots: Slots, rows: Batch) -> None:
        """Add rows with the slots of their keys."""
        if not rows.num_rows:
            return
        stamps = rows.column(TS).to_numpy()
        first = self.next
        self._slots.add(slots)
        self._stamps.add(stamps)
        self._numbers.add(np.arange(first, first + len(stamps)))
        self._heads = with_room(self._heads, int(slots.max()) + 1, -1)
        self._segments.append(_Segment(first, self._of.next, rows, int(stamps.max()), rows.nbytes))
        self._index(len(self._segments) - 1)
        while (at := self._first_to_merge()) is not None:
            self._put_together(at)

    def _first_to_merge(self) -> int | None:
        """Return the index of the first segment to be merged with all later ones, or None."""
        level, at, rows = self._segments[-1].level, len(self._segments), 0
        while at and self._segments[at - 1].level <= level:
            at -= 1
            rows += self._segments[at].height
        return at if len(self._segments) - at >= FAN_IN and rows <= MOST_ROWS else None

    def _put_together(self, at: int) -> None:
        parts = self._segments[at:]
        rows = pa.concat_batches([part.rows for part in parts])
        latest = max(part.latest for part in parts)
        one = _Segment(parts[0].first, parts[0].run, rows, latest, rows.nbytes)
        if any(part.by_time is not None for part in parts):
            done = np.concatenate([_mask_of_done(part) for part in parts])
            one.by_time = np.argsort(one.stamps, kind="stable")
            # The rows returned already are those up to one time, except rows of restored groups.
            one.cut = int(np.count_nonzero(done))
        self._segments[at:] = [one]
        self._index(at)

    def _index(self, at: int) -> None:
        """Compute the runs of the last segment, which replace those of the merged segments."""
        segment = self._segments[at]
        if segment.run < self._of.next:
            before, of = self._before.since(segment.run), self._of.since(segment.run)
            oldest = before < segment.run
            self._heads[of[oldest]] = before[oldest]
            for each in (self._of, self._begins, self._ends, self._before):
                each.drop_since(segment.run)
        slots, stamps = self._slots.since(segment.first), self._stamps.since(segment.first)
        numbers = self._numbers.since(segment.first)
        order = _order(slots, stamps)
        for values in (slots, stamps, numbers):
            values[:] = values[order]
        begins = np.flatnonzero(np.concatenate([[True], slots[1:] != slots[:-1]]))
        of = slots[begins]
        self._of.add(of)
        self._begins.add(begins + segment.first)
        self._ends.add(np.append(begins[1:], len(slots)) + segment.first)
        self._before.add(self._heads[of])
        self._heads[of] = segment.run + np.arange(len(of))

    # --- look-ups -------------------------------------------------------------------------------------

    def find(self, slots: Slots, low: Numbers, high: Numbers) -> Matches:
        """Return, for each look-up, the rows of its slot with times from `low` to `high`, inclusive."""
        by, runs = self._runs_of(slots)
        first = self._begins.first
        begin, end = self._begins.all()[runs - first], self._ends.all()[runs - first]
        stamps, place = self._stamps.all(), self._stamps.first
        begin = _search(stamps, begin - place, end - place, low[by])
        end = _search(stamps, begin, end - place, high[by] + 1)
        some = np.flatnonzero(end > begin)
        by = by[some]
        # The matches of one segment are in the order of the look-ups.
        if len(self._segments) > 1:
            order = np.argsort(by, kind="stable")
            by, some = by[order], some[order]
        return Matches(by, begin[some] + place, end[some] + place)

    def _runs_of(self, slots: Slots) -> tuple[Numbers, Numbers]:
        """Return all runs of each look-up's slot."""
        first, before = self._before.first, self._before.all()
        by = np.flatnonzero(slots < len(self._heads))
        runs = self._heads[slots[by]]
        found: list[tuple[Numbers, Numbers]] = []
        while True:
            there = np.flatnonzero(runs >= first)
            if not len(there) or not len(before):
                break
            if len(there) < len(runs):
                by, runs = by[there], runs[there]
            found.append((by, runs))
            runs = before[runs - first]
        if len(found) == 1:
            return found[0]
        if not found:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing
        return np.concatenate([by for by, _ in found]), np.concatenate([runs for _, runs in found])

    def at(self, places: Numbers) -> tuple[Numbers, Numbers]:
        """Return the numbers and the times of the rows at these places."""
        first = self._numbers.first
        return self._numbers.all()[places - first], self._stamps.all()[places - first]

    def take(self, numbers: Numbers, columns: Sequence[str]) -> Batch:
        """Return these columns of the rows with these numbers."""
        if not len(numbers):
            return pa.RecordBatch.from_pylist([], self._schema).select(columns)
        return taken([(segment.first, segment.rows) for segment in self._segments], numbers, columns)

    # --- time -----------------------------------------------------------------------------------------

    def due(self, until_ms: int) -> Numbers:
        """Return the rows up to that time that were not returned before, unordered. They remain."""
        found: list[Numbers] = []
        for segment in self._segments:
            stamps = segment.stamps
            if segment.by_time is None:
                segment.by_time = np.argsort(stamps, kind="stable")
            order = segment.by_time
            cut = int(np.searchsorted(stamps, until_ms, side="right", sorter=order))
            if cut > segment.cut:
                found.append(order[segment.cut : cut] + segment.first)
                segment.cut = cut
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def drop(self, until_ms: int) -> None:
        """Drop the first segments, as long as all of their rows are at or before that time."""
        gone = 0
        while gone < len(self._segments) and self._segments[gone].latest <= until_ms:
            gone += 1
        if not gone:
            return
        dropped = self._segments[gone - 1]
        left = self._segments[gone:]
        self._segments = left
        first = left[0].first if left else dropped.first + dropped.height
        run = left[0].run if left else self._of.next
        for of_places in (self._slots, self._stamps, self._numbers):
            of_places.drop_before(first)
        for of_runs in (self._of, self._begins, self._ends, self._before):
            of_runs.drop_before(run)

    def alive(self, until_ms: int) -> int:
        """Return the number of rows after that time."""
        return int(np.count_nonzero(self._stamps.all() > until_ms))

    def segments(self) -> Iterator[tuple[int, Batch]]:
        """Yield all rows in batches, in the order of their numbers, with each batch's first number."""
        for segment in self._segments:
            yield segment.first, segment.rows

    # --- memory ---------------------------------------------------------------------------------------

    @property
    def memory_bytes(self) -> int:
        """Return the memory that the rows use, in bytes, without the index."""
        return sum(segment.size_bytes for segment in self._segments)

    def spill(self, size_bytes: int) -> None:
        """Move the largest segments to disk, until the others use at most `size_bytes`."""
        if self._folder is None:
            return
        for segment in to_spill(((each.size_bytes, each) for each in self._segments), size_bytes):
            segment.rows, segment.size_bytes = self._folder.mapped(segment.rows), 0


def _mask_of_done(segment: _Segment) -> npt.NDArray[np.bool_]:
    done = np.zeros(segment.height, np.bool_)
    if segment.by_time is not None:
        done[segment.by_time[: segment.cut]] = True
    return done


_FEW_RUNS = 16
"""Maximum number of runs by time for which merging is faster than sorting by slot and time."""


def _order(slots: Slots, stamps: Numbers) -> Numbers:
    """Return the order by slot, and by time within a slot."""
    if np.count_nonzero(stamps[1:] < stamps[:-1]) <= _FEW_RUNS:
        # A batch mostly arrives in the order of time, so its runs are merged.
        by_time = np.argsort(stamps, kind="stable")
        return by_time[order_by_slot(slots[by_time])]
    low = int(stamps.min())
    span = int(stamps.max()) - low + 1
    if (int(slots.max()) + 1) * span < 2**63:
        return np.argsort(slots * np.int64(span) + (stamps - low), kind="stable")
    return np.lexsort((stamps, slots))


def _search(stamps: Numbers, begin: Numbers, end: Numbers, wanted: Numbers) -> Numbers:
    """Return, for each run from `begin` to `end`, the position of the first time that is not before
    `wanted`."""
    low, high = begin.copy(), end.copy()
    open_ = np.flatnonzero(low < high)
    while len(open_):
        left, right = low[open_], high[open_]
        middle = (left + right) >> 1
        before = stamps[middle] < wanted[open_]
        left = np.where(before, middle + 1, left)
        right = np.where(before, right, middle)
        low[open_], high[open_] = left, right
        open_ = open_[left < right]
    return low
