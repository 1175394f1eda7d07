"""Functions of OVER that are not aggregates: their result depends on the positions of rows in a frame,
or on the order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, assert_never

from rheos.core.aggregates.frames import Columns, FrameState


class FramePosition(Enum):
    """Functions, named by their result."""

    FIRST = "FIRST"
    """The n-th value in the frame."""
    LAST = "LAST"
    """The n-th value from the end of the frame."""
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


@dataclass(frozen=True)
class PositionFunction:
    """A function of positions or of the order."""

    position: FramePosition
    n: int = 1
    """Number of the value, from 1, for FIRST and LAST."""
    ignores_nulls: bool = False
    """Whether nulls are left out. By default null is treated like any other value."""

    def label(self) -> str:
        """Return the name of the function. Ids of stored state are made of it."""
        name = self.position.value
        if self.n > 1:
            name += f" {self.n}"
        return name + (" IGNORE NULLS" if self.ignores_nulls else "")

    def frame(self, rows: int) -> Callable[[], FrameState]:
        """Return a factory for the state. `rows` is the number of rows in a complete frame."""
        match self.position:
            case FramePosition.FIRST:
                return partial(PositionFrame, self.n - 1, self.n, self.ignores_nulls)
            case FramePosition.LAST:
                return partial(PositionFrame, -self.n, self.n, self.ignores_nulls)
            case FramePosition.BEFORE | FramePosition.AFTER:
                return partial(PositionFrame, 0 if self.position is FramePosition.BEFORE else -1, rows)
            case FramePosition.RANK | FramePosition.DENSE_RANK:
                return partial(RankFrame, self.position is FramePosition.DENSE_RANK)
            case _:
                assert_never(self.position)


class PositionFrame(FrameState):
    """The value at a position of a frame."""

    def __init__(self, place: int, rows: int, ignores_nulls: bool = False) -> None:
        """Create an empty frame. `place` is the index of the value; it counts from the end if it is
        negative. With fewer than `rows` values the result is null."""
        self._place, self._rows, self._ignores_nulls = place, rows, ignores_nulls
        self._values: deque[Any] = deque()

    def add(self, value: Any) -> None:
        if value is not None or not self._ignores_nulls:
            self._values.append(value)

    def remove(self, value: Any) -> None:
        if value is not None or not self._ignores_nulls:
            self._values.popleft()

    def result(self) -> Any:
        return self._values[self._place] if len(self._values) >= self._rows else None

    def forget(self) -> None:
        from_end = self._place < 0
        while len(self._values) > (-self._place if from_end else self._place + 1):
            if from_end:
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
