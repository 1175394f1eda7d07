"""The seam of windows: what a kind of window says, and the operators go by.

Every row of a key is put into one *pane*, which two int64 name: `slice_start` and `first_window_end`.
A window is named by its end, and gathers panes. What two panes mean to a kind is its own; to the
operators they are what state is kept by, sorted by the first and then the second. So a kind says

- into which pane a row goes, and whether it is late (`assign`);
- which windows a pane belongs to (`due`, `ends`), and when it may go (`last_end`);
- what it is called in stored state, and how it is cut (`kind`, `cut_ms`).

All of it is pure arithmetic on int64, over whole columns of panes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
IntOrInts = TypeVar("IntOrInts", int, Ints)


@dataclass(frozen=True, slots=True)
class Assigned:
    """Where the rows of a batch go.

    `slices` and `valids` have one element per row taken, or a single one where all rows share a pane.
    """

    slices: Ints
    valids: Ints
    taken: Mask | None
    """The rows that go into a pane; None for all of them."""
    late: Mask | None
    """The rows that are late for all their windows; None for none of them."""
    purged: int = 0
    """How many of the late rows are so only because this subtask had purged their windows."""
    outside: int = 0
    """How many rows lie between windows."""


class Windows(ABC):
    """A kind of window, cut in one way. Immutable. Texts of it say how it is cut."""

    __slots__ = ()

    kind: ClassVar[str]
    """Its name in stored state."""

    @property
    @abstractmethod
    def cut_ms(self) -> Mapping[str, int]:
        """How it is cut: state of windows that are cut otherwise is not read."""

    @abstractmethod
    def assign(self, ts: Ints, wm: Ints | None, lateness_ms: int, purged_through: int) -> Assigned:
        """Puts rows into panes.

        `wm` is the watermark of each row's own split, and decides what is late. `purged_through` is the
        operator's own watermark: windows it has purged are gone for every row.
        """

    @abstractmethod
    def due(self, slices: Ints, valids: Ints, above: int, upto: int) -> tuple[Ints, Ints]:
        """For each pane, the first of its window ends > `above`, and how many follow up to `upto`."""

    @abstractmethod
    def ends(self, first: Ints, count: Ints) -> tuple[Ints, Ints]:
        """The window ends that `due` means, and for each the number of its pane."""

    @abstractmethod
    def last_end(self, slices: Ints) -> Ints:
        """The end of the last window that a pane of this slice belongs to. Later slices have later
        ones, or the same."""

    @abstractmethod
    def start_of(self, end: IntOrInts) -> IntOrInts:
        """Where the window that ends there starts."""

    @abstractmethod
    def pane_end(self, slices: Ints) -> Ints:
        """Up to where the rows of panes lie, in event time."""


def progressions(first: Ints, count: Ints, step: int) -> tuple[Ints, Ints]:
    """The terms first[i] + k * step for k < count[i], and for each the i it comes from."""
    owner = np.repeat(np.arange(len(first)), count)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    return first[owner] + nth * step, owner
