"""Functions of OVER that are not aggregates: their result depends on the positions of rows in a frame,
or on the order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from rheos.core.aggregates.frames import Columns, FrameState


class FramePosition(Enum):
    """Functions, named by their result. All of them treat null like any other value."""

    FIRST = "FIRST"
    """The first value in the frame."""
    LAST = "LAST"
    """The last value in the frame."""
    BEFORE = "BEFORE"
    """The first value in a frame that is complete: LAG."""
    AFTER = "AFTER"
    """The last value in a frame that is complete: LEAD."""
    RANK = "RANK"
    """Number of rows that precede the row and its peers, plus one."""
    DENSE_RANK = "DENSE_RANK"
    """Number of distinct values of the order column, up to and including the row's."""

    @property
    def is_rank(self) -> bool:
        """Whether the function ranks rows by their sort value."""
        return self in (FramePosition.RANK, FramePosition.DENSE_RANK)

    def frame(self, rows: int) -> Callable[[], FrameState]:
        """Return a factory for the state. `rows` is the number of rows in a complete frame."""
        match self:
            case FramePosition.FIRST | FramePosition.LAST:
                return partial(PositionFrame, 0 if self is FramePosition.FIRST else -1, 1)
            case FramePosition.BEFORE | FramePosition.AFTER:
                return partial(PositionFrame, 0 if self is FramePosition.BEFORE else -1, rows)
            case FramePosition.RANK | FramePosition.DENSE_RANK:
                return partial(RankFrame, self is FramePosition.DENSE_RANK)


class PositionFrame(FrameState):
    """The first or the last value in a frame."""

    def __init__(self, place: int, rows: int) -> None:
        """Create an empty frame. `place` is 0 or -1. With fewer than `rows` rows the result is null."""
        self._place, self._rows = place, rows
        self._values: deque[Any] = deque()

    def add(self, value: Any) -> None:
        self._values.append(value)

    def remove(self, value: Any) -> None:
        self._values.popleft()

    def result(self) -> Any:
        return self._values[self._place] if len(self._values) >= self._rows else None

    def forget(self) -> None:
        while len(self._values) > 1:
            if self._place:
                self._values.popleft()
            else:
                self._values.pop()

    def stored(self) -> Columns:
        return [[*self._values]]

    def restore(self, columns: Columns) -> None:
        [values] = columns
        self._values = deque(values)


class RankFrame(FrameState):
    """The rank of the last row by its sort value. Frames of ranks have no beginning."""

    def __init__(self, dense: bool) -> None:
        self._dense = dense
        self._rank, self._rows, self._last = 1, 0, None

    def add(self, value: Any) -> None:
        if self._rows and value != self._last:
            self._rank = self._rank + 1 if self._dense else self._rows + 1
        self._rows += 1
        self._last = value

    def remove(self, value: Any) -> None:
        raise AssertionError("frames of ranks have no start")

    def result(self) -> int:
        return self._rank

    def stored(self) -> Columns:
        return [[self._rank, self._rows], [self._last]]

    def restore(self, columns: Columns) -> None:
        [self._rank, self._rows], [self._last] = columns
