"""The interface that each kind of window implements, and that the operators use.

The operator puts every row of a key into one *pane*. A few int64 columns, `Windows.pane`, identify the
pane. State is kept by key and pane, sorted by the first two of these columns. A window consists of
panes and is identified by its end. There are two families:

- `FixedWindows` have bounds that do not depend on the rows. Rows of one pane share all their windows.
  So a kind computes which windows a pane belongs to, for whole columns of panes.
- `MergingWindows` start from the rows of a key. Each row starts as a window of its own, and windows
  that meet become one (`merging`). A kind defines only the length of a single row's window.

A kind of either family has a name in stored state (`kind`), and the numbers and strings that define its
bounds (`cut`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from rheos.core.operators.window.pane_columns import (
    END,
    FIRST,
    MERGING_PANE,
    OPEN_TO,
    PANE,
    SLICE,
    START,
)

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Cut: TypeAlias = Mapping[str, int | str]
"""Parameters of the windows. An int is in ms; a str is a name, such as a time zone."""
IntOrInts = TypeVar("IntOrInts", int, Ints)


@dataclass(frozen=True, slots=True)
class PaneAssignment:
    """Assignment of the rows of a batch to panes.

    `panes` has an array for each column of a pane, with one element per accepted row, or a single one
    if all rows share a pane.
    """

    panes: tuple[Ints, ...]
    taken: Mask | None
    """Mask of the rows that are assigned to a pane; None for all rows."""
    late: Mask | None
    """Mask of the rows that are late for all their windows; None if no row is."""
    purged: int = 0
    """Number of late rows that are late only because this subtask had purged their windows."""
    outside: int = 0
    """Number of rows that are in no window."""
    undecided: Mask | None = None
    """Mask of the rows whose lateness is not decided yet; None if it is for all rows."""


class Windows(ABC):
    """A kind of window with its parameters. Immutable. Its `str` describes the parameters."""

    __slots__ = ()

    kind: ClassVar[str]
    """Name of the kind in stored state."""
    pane: ClassVar[tuple[str, ...]]
    """Columns that identify a pane."""
    window: ClassVar[tuple[str, ...]]
    """Columns that identify a window of a key in frames of window contents."""

    @property
    @abstractmethod
    def cut(self) -> Cut:
        """Return the parameters of the windows. Stored state of other parameters is not restored."""

    @abstractmethod
    def assign(
        self, ts: Ints, wm: Ints | None, lateness_ms: int, purged_through: int
    ) -> PaneAssignment:
        """Assign rows to panes.

        `wm` is the watermark of each row's own split, and decides which rows are late. `purged_through`
        is the operator's own watermark: windows that were purged by it no longer exist for any row.
        """

    @abstractmethod
    def first_ends(self, panes: Sequence[Ints]) -> Ints:
        """Return the time at which each pane is due first, from its columns `pane`."""

    @abstractmethod
    def starts(self, gathered: pl.DataFrame) -> Ints:
        """Return the starts of windows, from a frame with the columns `window`."""

    @abstractmethod
    def span(self, column: Callable[[str], Ints]) -> tuple[Ints, Ints]:
        """Return the bounds in event time of the rows of panes, from the columns `pane`."""


class FixedWindows(Windows):
    """Kind of windows with fixed bounds. A pane is (slice_start, first_window_end), whose meaning the
    kind defines. Pure arithmetic on int64."""

    __slots__ = ()

    pane = PANE
    window = (END,)

    @abstractmethod
    def due(self, slices: Ints, valids: Ints, above: IntOrInts, upto: int) -> tuple[Ints, Ints]:
        """Return, for each pane, its first window end after `above`, and the number of its window ends
        up to `upto`. `above` may be an array, with an element for each pane."""

    @abstractmethod
    def ends(self, first: Ints, count: Ints) -> tuple[Ints, Ints]:
        """Return the window ends that `due` describes, and for each end the number of its pane."""

    @abstractmethod
    def last_end(self, slices: Ints) -> Ints:
        """Return the end of the last window that contains the slice. Later slices have the same or a
        later end."""

    @abstractmethod
    def start_of(self, end: IntOrInts) -> IntOrInts:
        """Return the start of the window with this end."""

    @abstractmethod
    def pane_end(self, slices: Ints) -> Ints:
        """Return the end of the panes' rows in event time."""

    def first_ends(self, panes: Sequence[Ints]) -> Ints:
        return panes[1]

    def starts(self, gathered: pl.DataFrame) -> Ints:
        return self.start_of(gathered[END].to_numpy())

    def span(self, column: Callable[[str], Ints]) -> tuple[Ints, Ints]:
        slices = column(SLICE)
        return slices, self.pane_end(slices)


class MergingWindows(Windows):
    """Kind of windows that grow with a key's rows. `merging` defines panes, and which form one
    window."""

    __slots__ = ()

    pane = MERGING_PANE
    window = (END, START)

    @abstractmethod
    def end_of(self, ts: Ints) -> Ints:
        """Return the ends of the windows of single rows; these windows start with their rows."""

    def assign(
        self, ts: Ints, wm: Ints | None, lateness_ms: int, purged_through: int
    ) -> PaneAssignment:
        ends = self.end_of(ts)
        # A window that ends at e takes a row unless e - 1 + lateness <= watermark.
        passed = np.int64(purged_through - (lateness_ms - 2))
        own = passed if wm is None else np.maximum(wm - (lateness_ms - 2), passed)
        open_from = np.maximum(ts, own)
        undecided = open_from > ends
        if not undecided.any():
            return PaneAssignment((ends, open_from, ts), None, None)
        taken = ~undecided
        panes = ends[taken], open_from[taken], ts[taken]
        return PaneAssignment(panes, taken, None, undecided=undecided)

    def first_ends(self, panes: Sequence[Ints]) -> Ints:
        return panes[0]

    def starts(self, gathered: pl.DataFrame) -> Ints:
        return gathered[START].to_numpy()

    def span(self, column: Callable[[str], Ints]) -> tuple[Ints, Ints]:
        return column(FIRST), column(OPEN_TO)


def progressions(first: Ints, count: Ints, step: int) -> tuple[Ints, Ints]:
    """Return the terms first[i] + k * step for k < count[i], and for each term its i."""
    owner = np.repeat(np.arange(len(first)), count)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    return first[owner] + nth * step, owner
