"""Frames of sorted rows, and functions over them.

A row has a sort value, which is a number or a string, and an argument for each function. The frame of a
row begins a number of rows or a distance before it, or with the first row. It ends with the row, a
number of rows or a distance after it, or with the last row. A frame by distance ends with the last peer
of the row: the last row with the same sort value.

    ROWS 1 PRECEDING          a  b  c         RANGE 1 PRECEDING      at 1  at 2  at 2
                                └──┘ of c                            └─────────────┘ of both at 2

From one row to the next, a frame only moves forward. So each row is added to the state of a function
once, and removed once (`core.aggregates.frames`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rheos.core.aggregates.frames import Columns, FrameState
from rheos.core.aggregates.sum_too_large import SumTooLarge


@dataclass(frozen=True)
class FrameSpec:
    """Bounds of a frame."""

    by_rows: bool
    """Whether the bounds are numbers of rows. Otherwise they are distances."""
    preceding: int | None
    """Number of rows, or distance, before the row; negative after it. `None`: the frame begins with the
    first row."""
    descending: bool = False
    """Whether rows are in descending order."""
    following: int | None = 0
    """Number of rows, or distance, after the row; negative before it. `None`: the frame ends with the
    last row."""

    def __str__(self) -> str:
        begin = "UNBOUNDED PRECEDING" if self.preceding is None else _offset(-self.preceding)
        end = f" {_offset(self.following)}" if self.following else ""
        if self.following is None:
            end = " UNBOUNDED FOLLOWING"
        return f"{'ROWS' if self.by_rows else 'RANGE'} {begin}{end}"

    @property
    def needs_later_rows(self) -> bool:
        """Whether a row has a result only when later rows have arrived."""
        return self.following is None or self.following > 0

    @property
    def rows(self) -> int:
        """Number of rows in a complete frame by rows with two bounds."""
        return (self.preceding or 0) + 1 + (self.following or 0)


def covering(frames: Sequence[FrameSpec]) -> FrameSpec:
    """Return the frame that begins with the first of several frames, or with its row, and ends with the
    last of them."""
    begins, ends = [each.preceding for each in frames], [each.following for each in frames]
    return replace(
        frames[0],
        by_rows=any(each.by_rows for each in frames),
        preceding=None if None in begins else max(0, *(each for each in begins if each is not None)),
        following=None if None in ends else max(each for each in ends if each is not None),
    )


def _offset(of: int) -> str:
    return f"{of} FOLLOWING" if of > 0 else f"{-of} PRECEDING"


class FrameTooLarge(SumTooLarge):
    """A sum or a mean over the frame of a row that its type cannot hold."""

    def __init__(self, row: int, function: int, error: SumTooLarge) -> None:
        """Create the error. `row` is an index into the rows passed last, `function` into the
        functions."""
        super().__init__(row, what=error.what, limit=error.limit)
        self.function = function


class FrameRow(NamedTuple):
    """A row of a frame: its sort value, and the argument of each function."""

    by: Any
    values: tuple[Any, ...]


@dataclass(slots=True)
class _Lane:
    """Functions over one frame."""

    frame: FrameSpec
    places: list[int]
    """Indices of the functions."""
    states: list[FrameState]
    begin: int = 0
    end: int = 0
    """Number of the row after the last row of the frame; `begin` is the number of its first row."""


class MovingFrames:
    """The frames of the rows of one key, which are added in order."""

    def __init__(
        self,
        functions: Sequence[Callable[[], FrameState]],
        frame: FrameSpec,
        frames: Sequence[FrameSpec] = (),
    ) -> None:
        """Create frames without rows. If frames differ or include following rows, each function has its
        own frame in `frames`, and `frame` covers them all."""
        self._frame = frame
        self._functions = len(functions)
        lanes: dict[FrameSpec, _Lane] = {}
        for place, make in enumerate(functions):
            own = frames[place] if frames else frame
            lane = lanes.setdefault(own, _Lane(own, [], []))
            lane.places.append(place)
            lane.states.append(make())
        self._lanes = [*lanes.values()]
        self._rows: list[FrameRow] = []
        self._first = 0
        """Number of the first row of `_rows`."""
        self._next = 0
        """Number of the first row whose frame is not complete."""

    @property
    def has_beginning(self) -> bool:
        """Whether all frames begin at a row, so that only rows are stored, and no states."""
        return self._frame.preceding is not None

    @property
    def stores_rows(self) -> bool:
        """Whether rows are stored. Frames without a beginning may end before later rows."""
        return self.has_beginning or self._frame.following != 0

    @property
    def rows(self) -> int:
        """Return the number of rows that later frames may include or that have incomplete frames."""
        return self._first + len(self._rows) - self._needed()

    def add(
        self, rows: Sequence[FrameRow], *, ended: bool = False, complete: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Add the rows that follow, and return the results of rows whose frames are now complete.

        Args:
            rows: Rows in order. For frames by distance, all peers in one call.
            ended: Whether no further rows follow, so that all frames are complete.
            complete: Number of rows whose frames are complete, from the first one without a result;
                `None`: as many as frames by rows need.

        Raises FrameTooLarge.
        """
        before = self._next - self._first
        self._rows += rows
        ready = len(self._rows) - before
        if complete is not None:
            ready = complete
        elif not ended:
            following = self._frame.following
            ready = 0 if following is None else max(0, ready - max(0, following))
        results: list[tuple[Any, ...]] = []
        while len(results) < ready:
            shared = 1 if self._frame.by_rows else self._peers()
            results += [self._result(len(results))] * shared
            self._next = self._first + before + len(results)
        self._drop()
        return results

    def _peers(self) -> int:
        """Return the number of rows with one sort value, from the next row on."""
        at = self._next - self._first
        end, here = at + 1, self._rows[at].by
        while end < len(self._rows) and self._rows[end].by == here:
            end += 1
        return end - at

    def _result(self, place: int) -> tuple[Any, ...]:
        """Move all frames forward to the next row, and return its results."""
        results: list[Any] = [None] * self._functions
        stop = self._first + len(self._rows)
        for lane in self._lanes:
            self._move(lane, self._end(lane, stop))
            for at, state in zip(lane.places, lane.states, strict=True):
                try:
                    results[at] = state.result()
                except SumTooLarge as error:
                    raise FrameTooLarge(place, at, error) from None
        return tuple(results)

    def _move(self, lane: _Lane, end: int) -> None:
        rows, first = self._rows, self._first
        for number in range(lane.end, end):
            values = rows[number - first].values
            for at, state in zip(lane.places, lane.states, strict=True):
                state.add(values[at])
        lane.end = end
        begin = min(self._begin(lane), end)
        for number in range(lane.begin, begin):
            values = rows[number - first].values
            for at, state in zip(lane.places, lane.states, strict=True):
                state.remove(values[at])
        lane.begin = begin

    def _end(self, lane: _Lane, stop: int) -> int:
        """Return the number of the row after the frame of the next row. `stop` is the number of the row
        after the last one."""
        frame, end, following = lane.frame, lane.end, lane.frame.following
        if following is None:
            return stop
        if frame.by_rows:
            return max(end, min(self._next + 1 + following, stop))
        if following == 0:
            return max(end, self._next + self._peers())
        here = self._rows[self._next - self._first].by
        # Infinite values have no distance from their peers.
        while end < stop and not -distance(self._rows[end - self._first].by, here, frame) > following:
            end += 1
        return end

    def _begin(self, lane: _Lane) -> int:
        """Return the number of the first row in the frame of the next row."""
        preceding = lane.frame.preceding
        if preceding is None:
            return lane.begin
        if lane.frame.by_rows:
            return max(lane.begin, self._next - preceding)
        begin, here = lane.begin, self._rows[self._next - self._first].by
        while (
            begin < lane.end
            and distance(self._rows[begin - self._first].by, here, lane.frame) > preceding
        ):
            begin += 1
        return begin

    def _drop(self) -> None:
        """Drop the rows that no later frame includes."""
        for lane in self._lanes:
            if lane.frame.preceding is None:
                lane.begin = lane.end
                for state in lane.states:
                    state.forget()
        # States still hold the rows with which their frames begin.
        needed = min((self._next, *(lane.begin for lane in self._lanes)))
        if (needed - self._first) * 2 > len(self._rows):
            del self._rows[: needed - self._first]
            self._first = needed

    def _needed(self) -> int:
        """Return the number of the first row that later frames may include."""
        needed = self._next
        for lane in self._lanes:
            preceding = lane.frame.preceding
            by_rows = preceding is not None and lane.frame.by_rows
            needed = min(needed, self._next - max(0, preceding or 0) if by_rows else lane.begin)
        return max(self._first, needed)

    # --- state ----------------------------------------------------------------------------------------

    def stored_rows(self) -> list[FrameRow]:
        """Return the rows with results that later frames may include."""
        return self._rows[self._needed() - self._first : self._next - self._first]

    def restore_rows(self, rows: Sequence[FrameRow]) -> None:
        """Restore the rows that `stored_rows` returned."""
        self._rows, self._first, self._next = [*rows], 0, len(rows)

    def stored_states(self) -> list[Columns]:
        """Return the state of each function over a frame that begins with the first row. If such frames
        include following rows, their ends come first, as numbers of rows from the next one."""
        lanes = self._without_beginning()
        states = [state.stored() for lane in lanes for state in lane.states]
        if not self._frame.needs_later_rows:
            return states
        return [[[lane.end - self._next for lane in lanes]], *states]

    def restore_states(self, stored: Sequence[Columns]) -> None:
        """Restore the states that `stored_states` returned, after the rows."""
        lanes = self._without_beginning()
        if self._frame.needs_later_rows:
            [[ends], *stored] = stored
            for lane, end in zip(lanes, ends, strict=True):
                lane.begin = lane.end = self._next + end
        states = [state for lane in lanes for state in lane.states]
        for state, columns in zip(states, stored, strict=True):
            state.restore(columns)

    def _without_beginning(self) -> list[_Lane]:
        return [lane for lane in self._lanes if lane.frame.preceding is None]


def distance(by: Any, here: Any, frame: FrameSpec) -> Any:
    """Return the distance of a row from one that follows it."""
    return by - here if frame.descending else here - by
