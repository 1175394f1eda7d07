"""Cumulating windows: in each span of `size`, windows that all begin with the span, and end `step`
apart.

Time is cut into slices of `step`. A row is in the windows of its span that end with its slice or later.
As with the grid, a pane is (slice, first valid window end), because a row may be late for some of its
windows.

                 span                           span
       |-----------------------|-----------------------|
       0       1       2       3                       6       size = 3 slices
       [-------)                        e = 1
       [---------------)                e = 2
       [-----------------------)        e = 3
       a row of slice 1 is in the windows that end at 2 and 3

```python
def window(start_ms: int, end_ms: int) -> dict:
    epoch = datetime.fromtimestamp(0, UTC)
    times = [epoch + timedelta(milliseconds=ms) for ms in (start_ms, end_ms)]
    return dict(zip(("window_start", "window_end"), times))

check_example(
    OperatorExample(
        lambda sales: sales.key_by("shop")
        .window(rh.Cumulating("30ms", step="10ms"))
        .aggregate(sales=rh.agg.count(), sum=rh.agg.sum("price")),
        pa.schema([("shop", pa.string()), ("price", pa.int64()), ("at", pa.int64())]),
        [
            {"shop": "ulm", "price": 5, "at": 1},
            {"shop": "ulm", "price": 2, "at": 15},
            WatermarkMark(12),
            {"shop": "ulm", "price": 1, "at": 3},
            {"shop": "ulm", "price": 7, "at": 31},
        ],
        on="at",
    ),
    {
        "out": [
            {"shop": "ulm", **window(0, 10), "sales": 1, "sum": 5},
            {"shop": "ulm", **window(0, 20), "sales": 3, "sum": 8},
            {"shop": "ulm", **window(0, 30), "sales": 3, "sum": 8},
            {"shop": "ulm", **window(30, 40), "sales": 1, "sum": 7},
            {"shop": "ulm", **window(30, 50), "sales": 1, "sum": 7},
            {"shop": "ulm", **window(30, 60), "sales": 1, "sum": 7},
        ]
    },
)
```
"""

from __future__ import annotations

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
class CumulatingWindows(FixedWindows):
    """Windows that begin every `size` and, within each such span, end every `step`."""

    kind: ClassVar[str] = "cumulating"

    size: int
    step: int
    offset: int

    @classmethod
    def of(cls, cut: Cut) -> CumulatingWindows:
        return cls(int(cut["size"]), int(cut["step"]), int(cut["offset"]))

    @property
    def cut(self) -> Cut:
        return {"size": self.size, "step": self.step, "offset": self.offset}

    def __str__(self) -> str:
        return f"windows of up to {self.size} ms by {self.step} ms, offset {self.offset} ms"

    def _round_down(self, ms: IntOrInts, to: int) -> IntOrInts:
        return (ms - self.offset) // to * to + self.offset

    def assign(
        self, ts: Ints, wm: Ints | None, lateness_ms: int, purged_through: int
    ) -> PaneAssignment:
        slices = self._round_down(ts, self.step)
        first, last = slices + self.step, self.last_end(slices)
        # Window e takes a row unless e - 1 + lateness <= watermark: from e = watermark - lateness + 2.
        passed = np.int64(purged_through - (lateness_ms - 2))
        own = first if wm is None else np.maximum(first, wm - (lateness_ms - 2))
        here = np.maximum(own, passed)
        valids = first + -(-(here - first) // self.step) * self.step
        taken = valids <= last
        if taken.all():
            return PaneAssignment((slices, valids), None, None)
        by_itself = first + -(-(own - first) // self.step) * self.step > last
        late = ~taken
        panes = slices[taken], valids[taken]
        return PaneAssignment(panes, taken, late, purged=int((late & ~by_itself).sum()))

    def due(self, slices: Ints, valids: Ints, above: IntOrInts, upto: int) -> tuple[Ints, Ints]:
        # Values are clipped before they are subtracted: see the grid.
        first = valids + -(-(np.maximum(valids, above + 1) - valids) // self.step) * self.step
        last = np.minimum(self.last_end(slices), upto)
        return first, np.maximum((last - first) // self.step + 1, 0)

    def ends(self, first: Ints, count: Ints) -> tuple[Ints, Ints]:
        return progressions(first, count, self.step)

    def last_end(self, slices: Ints) -> Ints:
        return self._round_down(slices, self.size) + self.size

    def start_of(self, end: IntOrInts) -> IntOrInts:
        return self._round_down(end - 1, self.size)

    def pane_end(self, slices: Ints) -> Ints:
        return slices + self.step
