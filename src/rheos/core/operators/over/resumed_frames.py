"""Frames over the rows of a table, which are resumed near a change instead of computed from the start.

Rows change anywhere, but mostly at their end. So two things are stored with the rows:

- the frames of the last row. A row that follows it is added to these frames, whatever their length.
- if all frames begin with the first row, their states before every 64th row or so. The results of a row
  are computed from the nearest of them.

Neither is part of a snapshot: both are computed again when the order of the rows is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from rheos.core.aggregates.frames import Columns
from rheos.core.operators.changelog.row_orders import OrderedEntry
from rheos.core.operators.over.moving_frames import FrameRow, FrameSpec, FrameTooLarge, MovingFrames

STATES_EVERY = 64
"""Number of rows after which states are stored again."""
_MOST_VALUES = 32
"""Maximum number of values in stored states. Larger states, such as all distinct values, are not
stored."""


@dataclass(slots=True)
class OverRow:
    """A row with its results."""

    values: Any
    results: tuple[Any, ...] = ()
    states: Sequence[Columns] | None = None
    """States of the frames before this row, if they are stored here."""
    frames: MovingFrames | None = None
    """Frames up to this row, if it was the last row when they were computed."""

    @property
    def whole(self) -> tuple[Any, ...]:
        return (*self.values, *self.results)


Entries = Sequence[OrderedEntry[OverRow]]


class ResumedFrames:
    """Computes the results of rows, from what earlier computations have stored with the rows."""

    def __init__(
        self,
        make: Callable[[], MovingFrames],
        row: Callable[[OverRow], FrameRow],
        frames: Sequence[FrameSpec],
    ) -> None:
        """Create the computation.

        Args:
            make: Function that creates frames without rows.
            row: Function that returns the row of a frame.
            frames: The frames of the functions.
        """
        self._make, self._row = make, row
        self._by_rows = all(frame.by_rows for frame in frames)
        self._ends_with_row = all(frame.following == 0 for frame in frames)
        self._from_first = self._ends_with_row and all(frame.preceding is None for frame in frames)

    def results(
        self, entries: Entries, begin: int, end: int, needed: Callable[[], tuple[int, int]]
    ) -> list[tuple[Any, ...]]:
        """Return the results of a range of rows that is not empty. It contains all rows whose results
        have changed since the last call.

        Args:
            entries: All rows in order.
            begin: Index of the first row of the range.
            end: Index of the row after the range.
            needed: Function that returns the range of the rows in the frames of these rows.

        Raises FrameTooLarge, with the index of the row within the range.
        """
        frames = self._take_frames(entries, begin)
        if frames is not None:
            results = frames.add([self._row(entries[begin].row)], complete=1)
        elif self._from_first:
            frames, results = self._from_states(entries, begin, end)
        else:
            frames = self._make()
            first, stop = needed()
            rows = [self._row(entry.row) for entry in entries[first:stop]]
            frames.restore_rows(rows[: begin - first])
            results = frames.add(rows[begin - first :], complete=end - begin)
        if self._ends_with_row and end == len(entries):
            entries[-1].row.frames = frames
        return results

    def _take_frames(self, entries: Entries, begin: int) -> MovingFrames | None:
        """Return the frames to which the row at `begin` is to be added, if it was appended. Frames that
        are stored with rows before it have another last row from now on."""
        last = entries[-1].row
        before = entries[-2].row if len(entries) > 1 else None
        frames = None if before is None else before.frames
        appended = begin == len(entries) - 1 and not last.results
        last.frames = None
        if before is not None:
            before.frames = None
        return frames if appended else None

    def _from_states(
        self, entries: Entries, begin: int, end: int
    ) -> tuple[MovingFrames, list[tuple[Any, ...]]]:
        """Compute results from the nearest stored states, and store states on the way."""
        for entry in entries[begin:end]:
            entry.row.states = None
        at = begin
        while at and entries[at].row.states is None:
            at -= 1
        frames = self._make()
        if at:
            frames.restore_states(deepcopy(entries[at].row.states or ()))
        results: list[tuple[Any, ...]] = []
        while at < end:
            if at > 0:
                entries[at].row.states = _few(frames.stored_states())
            stop = self._stop(entries, min(at + STATES_EVERY, end))
            rows = [self._row(entry.row) for entry in entries[at:stop]]
            try:
                results += frames.add(rows, complete=stop - at)[max(begin - at, 0) :]
            except FrameTooLarge as error:
                error.row += at - begin
                raise
            at = stop
        return frames, results

    def _stop(self, entries: Entries, stop: int) -> int:
        """Return the end of the peers of the row before `stop`."""
        if not self._by_rows:
            here = self._row(entries[stop - 1].row).by
            while stop < len(entries) and self._row(entries[stop].row).by == here:
                stop += 1
        return stop


def _few(states: Sequence[Columns]) -> Sequence[Columns] | None:
    """Return states that are small enough to be stored."""
    values = sum(len(column) for state in states for column in state)
    return states if values <= _MOST_VALUES else None
