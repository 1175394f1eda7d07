"""State of an aggregate over a frame: a run of rows that moves forward, as in OVER of SQL.

A frame adds a row at its end and removes one at its beginning. `FrameState` updates an aggregate with
each step, so that a row costs the same whatever the length of the frame. There are two ways:

- An aggregate that can subtract a value, such as a sum, defines `add` and `remove`.
- An aggregate that cannot, such as a minimum, derives from `MergedFrame` and defines how two partial
  results are merged. The older rows of the frame are stored as merged blocks. When all blocks are used
      up, new ones are computed from the newer rows. On average a row is merged twice.

MATCH_RECOGNIZE uses the same state, and never removes a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

Columns: TypeAlias = Sequence[Sequence[Any]]
"""Stored state: columns of plain values."""


class FrameState(ABC):
    """The values of one aggregate in a frame. Nulls are `None`."""

    @abstractmethod
    def add(self, value: Any) -> None:
        """Add the value of the row that follows the frame."""

    @abstractmethod
    def remove(self, value: Any) -> None:
        """Remove the value of the first row of the frame."""

    @abstractmethod
    def result(self) -> Any:
        """Return the aggregate of the frame. Raise SumTooLarge if its type cannot hold it."""

    def forget(self) -> None:
        """Drop data that only `remove` needs. Called if no value is ever removed."""

    @abstractmethod
    def stored(self) -> Columns:
        """Return the state of a frame from which nothing was removed."""

    @abstractmethod
    def restore(self, columns: Columns) -> None:
        """Replace the state by what `stored` returned."""


class MergedFrame(FrameState):
    """An aggregate that merges values, and cannot subtract one."""

    def __init__(self) -> None:
        self._newer: list[Any] = []
        """Values since the last computation of the blocks."""
        self._newest: Any = None
        """Result of these newer values."""
        self._blocks: list[Any] = []
        """Results of the older values: of the last one, of the last two, and so on."""

    @abstractmethod
    def merge(self, older: Any, newer: Any) -> Any:
        """Return the merged result of two runs of rows. Both arguments are not None."""

    def add(self, value: Any) -> None:
        self._newer.append(value)
        self._newest = self._merged(self._newest, value)

    def remove(self, value: Any) -> None:
        if not self._blocks:
            block = None
            for each in reversed(self._newer):
                block = self._merged(each, block)
                self._blocks.append(block)
            self._newer, self._newest = [], None
        self._blocks.pop()

    def result(self) -> Any:
        return self._merged(self._blocks[-1], self._newest) if self._blocks else self._newest

    def _merged(self, older: Any, newer: Any) -> Any:
        if older is None or newer is None:
            return newer if older is None else older
        return self.merge(older, newer)

    def forget(self) -> None:
        self._newer = []

    def stored(self) -> Columns:
        return [[self.result()]]

    def restore(self, columns: Columns) -> None:
        self._newer, self._blocks = [], []
        [[self._newest]] = columns
