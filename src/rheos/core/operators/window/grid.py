"""The windows of a fixed grid, `Tumbling` and `Sliding`. Pure arithmetic on int64 ms.

Windows begin at k * slide + offset and have the length `size`. Time is cut into *slices* of gcd(size,
slide), so each window is a whole number of slices. The slice of a row determines its windows: those
that end at `first_end(slice)`, then every `slide`, up to `last_end(slice)`.

A row that is late for the first of these windows, but not for the others, may enter only the others. So
state is kept by *pane*: (slice, first valid window end). The window that ends at e contains the panes
of its slices whose first valid end is at most e.

                 slide                          size = 3 slices, slide = 1 slice
               |-------|
    slices     0       1       2       3
    windows    [-----------------------)        e = 3
                       [-----------------------)        e = 4
                               [-----------------------)        e = 5
    a row of slice 2 has first_end 3, last_end 5; late for e = 3 it goes to pane (2, 4)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rheos.core.operators.window.contract import (
    Cut,
    FixedWindows,
    IntOrInts,
    Ints,
    PaneAssignment,
    progressions,
)


@dataclass(frozen=True, slots=True)
class WindowGrid(FixedWindows):
    """Windows of one size that start every `slide`."""

    kind: ClassVar[str] = "grid"

    size: int
    slide: int
    offset: int
    slice: int

    @classmethod
    def of(cls, cut: Cut) -> WindowGrid:
        size, slide = int(cut["size"]), int(cut["slide"])
        return cls(size, slide, int(cut["offset"]), math.gcd(size, slide))

    @property
    def cut(self) -> Cut:
        return {"size": self.size, "slide": self.slide, "offset": self.offset}

    def __str__(self) -> str:
        return f"windows of {self.size} ms every {self.slide} ms, offset {self.offset} ms"

    def slice_of(self, ts: IntOrInts) -> IntOrInts:
        """Return the start of the slice that contains the timestamp."""
        return (ts - self.offset) // self.slice * self.slice + self.offset

    def first_end(self, slice_start: IntOrInts) -> IntOrInts:
        """Return the end of the first window that contains the slice, if a window does."""
        behind = (slice_start - self.size - self.offset) // self.slide + 1
        return behind * self.slide + (self.offset + self.size)

    def last_end(self, slice_start: IntOrInts) -> IntOrInts:
        """Return the end of the last window that contains the slice; if no window does, a time before
        `first_end`."""
        return (slice_start - self.offset) // self.slide * self.slide + (self.offset + self.size)

    def due(self, slices: Ints, valids: Ints, above: IntOrInts, upto: int) -> tuple[Ints, Ints]:
        # Values are clipped before they are subtracted. A watermark at either end of time fits int64,
        # but its distance to a timestamp may not.
        first = valids + -(-(np.maximum(valids, above + 1) - valids) // self.slide) * self.slide
        last = np.minimum(self.last_end(slices), upto)
        return first, np.maximum((last - first) // self.slide + 1, 0)

    def ends(self, first: Ints, count: Ints) -> tuple[Ints, Ints]:
        return progressions(first, count, self.slide)

    def start_of(self, end: IntOrInts) -> IntOrInts:
        return end - self.size

    def pane_end(self, slices: Ints) -> Ints:
        return slices + self.slice

    def assign(
        self, ts: Ints, wm: Ints | None, lateness_ms: int, purged_through: int
    ) -> PaneAssignment:
        low, high = self.slice_of(int(ts.min())), self.slice_of(int(ts.max()))
        ahead = purged_through if wm is None else max(int(wm.max()), purged_through)
        if low == high:
            slices = np.array([low], dtype=np.int64)
        else:
            slices = self.slice_of(ts)
        if self.size >= self.slide and ahead + 2 - lateness_ms <= self.first_end(low):
            return PaneAssignment((slices, self.first_end(slices)), None, None)

        first, last = self.first_end(slices), self.last_end(slices)
        # Window e takes a row unless e - 1 + lateness <= watermark: from e = watermark - lateness + 2.
        own = np.full(1, np.iinfo(np.int64).min // 2) if wm is None else wm - (lateness_ms - 2)
        here = np.maximum(own, purged_through - (lateness_ms - 2))
        valids = first - (first - np.maximum(first, here)) // self.slide * self.slide
        shape = ts.shape
        inside = np.broadcast_to(first <= last, shape)
        taken = np.broadcast_to(valids <= last, shape) & inside
        late = inside & ~taken
        by_itself = np.broadcast_to(
            first - (first - np.maximum(first, own)) // self.slide * self.slide > last, shape
        )
        return PaneAssignment(
            panes=(np.broadcast_to(slices, shape)[taken], np.broadcast_to(valids, shape)[taken]),
            taken=taken,
            late=late if late.any() else None,
            purged=int((late & ~by_itself).sum()),
            outside=int((~inside).sum()),
        )
