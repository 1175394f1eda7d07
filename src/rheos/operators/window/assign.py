"""Which windows a row belongs to: slices, panes, and what is late. Pure arithmetic on int64 ms.

Windows begin at k * slide + offset and last `size`. Time is cut into *slices* of gcd(size, slide), so
that each window is a whole number of slices and a row's slice tells its windows: those that end at
`first_end(slice)`, then every `slide`, up to `last_end(slice)`.

A row that is late for the first of these and not for the others may enter only the others. So state
is kept by *pane*: (slice, first valid window end). The window that ends at e gathers the panes of its
slices whose first valid end is at most e.

                 slide                          size = 3 slices, slide = 1 slice
               |-------|
    slices     0       1       2       3
    windows    [-----------------------)        e = 3
                       [-----------------------)        e = 4
                               [-----------------------)        e = 5
    a row of slice 2 has first_end 3, last_end 5; late for e = 3 it goes to pane (2, 4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from rheos.graph.windows import Window, slice_ms

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
IntOrInts = TypeVar("IntOrInts", int, Ints)


@dataclass(frozen=True, slots=True)
class WindowGrid:
    """Where the windows lie."""

    size: int
    slide: int
    offset: int
    slice: int

    @classmethod
    def of(cls, window: Window) -> WindowGrid:
        return cls(window.size_ms, window.slide_ms, window.offset_ms, slice_ms(window))

    def slice_of(self, ts: IntOrInts) -> IntOrInts:
        """The start of the slice that holds the timestamp."""
        return (ts - self.offset) // self.slice * self.slice + self.offset

    def first_end(self, slice_start: IntOrInts) -> IntOrInts:
        """The end of the first window that holds the slice, where one does."""
        behind = (slice_start - self.size - self.offset) // self.slide + 1
        return behind * self.slide + (self.offset + self.size)

    def last_end(self, slice_start: IntOrInts) -> IntOrInts:
        """The end of the last window that holds the slice; before `first_end` where none does."""
        return (slice_start - self.offset) // self.slide * self.slide + (self.offset + self.size)

    def due(self, slices: Ints, valids: Ints, above: int, upto: int) -> tuple[Ints, Ints]:
        """For each pane, the first of its window ends > `above`, and how many follow up to `upto`."""
        # Differences are taken from what was clipped: a watermark at either end of time fits int64,
        # its distance to a timestamp need not.
        first = valids + -(-(np.maximum(valids, above + 1) - valids) // self.slide) * self.slide
        last = np.minimum(self.last_end(slices), upto)
        return first, np.maximum((last - first) // self.slide + 1, 0)


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


def assign(
    grid: WindowGrid, ts: Ints, wm: Ints | None, lateness_ms: int, purged_through: int
) -> Assigned:
    """Puts rows into panes.

    `wm` is the watermark of each row's own split, and decides what is late. `purged_through` is the
    operator's own watermark: windows it has purged are gone for every row.
    """
    low, high = grid.slice_of(int(ts.min())), grid.slice_of(int(ts.max()))
    ahead = purged_through if wm is None else max(int(wm.max()), purged_through)
    if low == high:
        slices = np.array([low], dtype=np.int64)
    else:
        slices = grid.slice_of(ts)
    if grid.size >= grid.slide and ahead + 2 - lateness_ms <= grid.first_end(low):
        return Assigned(slices, grid.first_end(slices), None, None)

    first, last = grid.first_end(slices), grid.last_end(slices)
    # A window e takes a row unless e - 1 + lateness <= watermark: so from e = watermark - lateness + 2.
    own = np.full(1, np.iinfo(np.int64).min // 2) if wm is None else wm - (lateness_ms - 2)
    here = np.maximum(own, purged_through - (lateness_ms - 2))
    valids = first - (first - np.maximum(first, here)) // grid.slide * grid.slide
    shape = ts.shape
    inside = np.broadcast_to(first <= last, shape)
    taken = np.broadcast_to(valids <= last, shape) & inside
    late = inside & ~taken
    by_itself = np.broadcast_to(
        first - (first - np.maximum(first, own)) // grid.slide * grid.slide > last, shape
    )
    return Assigned(
        slices=np.broadcast_to(slices, shape)[taken],
        valids=np.broadcast_to(valids, shape)[taken],
        taken=taken,
        late=late if late.any() else None,
        purged=int((late & ~by_itself).sum()),
        outside=int((~inside).sum()),
    )


def progressions(first: Ints, count: Ints, step: int) -> tuple[Ints, Ints]:
    """The terms first[i] + k * step for k < count[i], and for each the i it comes from."""
    owner = np.repeat(np.arange(len(first)), count)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    return first[owner] + nth * step, owner
