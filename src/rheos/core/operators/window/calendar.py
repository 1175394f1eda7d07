"""Windows by the calendar of a time zone: local days, weeks, months, and hours of the local day.

The local clock has numbered *steps*. Step k begins at the first instant at which the clock shows the
step's start, or a later time. So a local day may have 23 or 25 hours, and a day that a zone has skipped
has no length. A slice is a step. The windows of a slice end at the next steps, in one of two ways:

    steps               0       1       2       3       4
    sliding, 2 steps    [---------------)                    ends at 2
                                [---------------)            ends at 3
    cumulating, 3       [-------)                            ends at 1
                        [---------------)                    ends at 2
                        [-----------------------)            ends at 3

A tumbling window is a sliding one of one step. As with the grid, a pane is (slice, first valid window
end), because a row may be late for some of its windows.

```python
def window(start_ms: int, end_ms: int) -> dict:
    epoch = datetime.fromtimestamp(0, UTC)
    times = [epoch + timedelta(milliseconds=ms) for ms in (start_ms, end_ms)]
    return dict(zip(("window_start", "window_end"), times))

HOUR = 3_600_000
SUMMER_BEGINS = 1774738800000  # 2026-03-29 00:00 in Berlin, a day of 23 hours

check_example(
    OperatorExample(
        lambda sales: sales.key_by("shop")
        .window(rh.Tumbling("1d", zone="Europe/Berlin"))
        .aggregate(sales=rh.agg.count(), sum=rh.agg.sum("price")),
        pa.schema([("shop", pa.string()), ("price", pa.int64()), ("at", pa.int64())]),
        [
            {"shop": "ulm", "price": 5, "at": SUMMER_BEGINS},
            {"shop": "ulm", "price": 2, "at": SUMMER_BEGINS + 23 * HOUR - 1},
            {"shop": "ulm", "price": 1, "at": SUMMER_BEGINS + 23 * HOUR},
        ],
        on="at",
    ),
    {
        "out": [
            {"shop": "ulm", **window(SUMMER_BEGINS, SUMMER_BEGINS + 23 * HOUR), "sales": 2, "sum": 7},
            {
                "shop": "ulm",
                **window(SUMMER_BEGINS + 23 * HOUR, SUMMER_BEGINS + 47 * HOUR),
                "sales": 1,
                "sum": 1,
            },
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from rheos.core.graph.calendars import CalendarCut, anchor_ms
from rheos.core.operators.window.contract import (
    Cut,
    FixedWindows,
    IntOrInts,
    Ints,
    PaneAssignment,
    progressions,
)
from rheos.core.operators.window.zone_clock import zone_clock
from rheos.core.protocol.durations import CalendarLength


@dataclass(frozen=True, slots=True)
class CalendarSteps:
    """The steps of one length on a local clock, by their numbers."""

    length: CalendarLength
    zone: str
    offset_ms: int

    def starts(self, numbers: Ints) -> Ints:
        """Return the instants at which steps begin. A skipped step begins with the next one."""
        if self.length.months:
            months = (numbers * self.length.months).astype("datetime64[M]")
            local = months.astype("datetime64[ms]").astype(np.int64)
        else:
            local = numbers * self.length.ms + anchor_ms(self.length)
        return zone_clock(self.zone).instants(local + self.offset_ms)

    def numbers(self, ts: Ints) -> Ints:
        """Return the number of the step that contains each instant. If several steps begin at one
        instant, that is the last of them."""
        local = zone_clock(self.zone).local(ts) - self.offset_ms
        if self.length.months:
            months = local.astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64)
            found: Ints = months // self.length.months
        else:
            found = (local - anchor_ms(self.length)) // self.length.ms
        # If a clock was set back by more than a step, later steps have already begun.
        while True:
            begun = self.starts(found + 1) <= ts
            if not begun.any():
                return found
            found = found + begun


@dataclass(frozen=True, slots=True)
class CalendarWindows(FixedWindows):
    """Windows that begin and end with the steps of a calendar."""

    kind: ClassVar[str] = "calendar"

    calendar: CalendarCut
    steps: CalendarSteps
    whole: CalendarSteps
    """Bounds of the longest windows, if windows grow (cumulating)."""
    width: int
    """Number of steps in a window, if windows do not grow."""
    _newest: list[Ints] = field(default_factory=list, compare=False, repr=False)
    """Step and bounds of the newest batch that was in one step, as the next batch usually is, too."""

    @classmethod
    def of(cls, cut: Cut) -> CalendarWindows:
        given = CalendarCut.stored(cut)
        steps, whole = (
            CalendarSteps(length, given.zone, given.offset_ms) for length in (given.every, given.size)
        )
        return cls(given, steps, whole, 0 if given.grows else given.most_steps)

    @property
    def cut(self) -> Cut:
        return self.calendar.cut

    def __str__(self) -> str:
        given = self.calendar
        moved = f", offset {given.offset_ms} ms" if given.offset_ms else ""
        return f"windows of {given.size} by {given.every} in {given.zone}{moved}"

    def _last(self, steps: Ints) -> Ints:
        """Return, for each step, the number of the step that ends its last window."""
        if self.calendar.grows:
            within = self.whole.numbers(self.steps.starts(steps))
            return self._first_from(self.whole.starts(within + 1))
        last = steps + self.width
        return np.minimum(last, self._first_from(self.steps.starts(last)))

    def _first_from(self, instants: Ints) -> Ints:
        """Return the number of the first step that starts at an instant or later. Windows are
        identified by their end. So if several steps start at one instant, the first is the end of a
        window."""
        return self.steps.numbers(instants - 1) + 1

    def assign(
        self, ts: Ints, wm: Ints | None, lateness_ms: int, purged_through: int
    ) -> PaneAssignment:
        numbers, slices, first = self._steps_of(ts)
        ahead = purged_through if wm is None else max(int(wm.max()), purged_through)
        if ahead + 2 - lateness_ms <= int(first.min()):
            return PaneAssignment((slices, first), None, None)

        # Window e takes a row unless e - 1 + lateness <= watermark: from e = watermark - lateness + 2.
        last_step = self._last(numbers)
        last = self.steps.starts(last_step)
        passed = np.int64(purged_through - (lateness_ms - 2))
        own = first if wm is None else np.maximum(first, wm - (lateness_ms - 2))
        here = np.maximum(own, passed)
        shape = ts.shape
        taken = np.broadcast_to(here <= last, shape)
        late = ~taken
        slices, here = np.broadcast_to(slices, shape)[taken], np.broadcast_to(here, shape)[taken]
        valids = np.broadcast_to(first, shape)[taken].copy()
        behind = here > valids
        if behind.any():
            valids[behind] = self.steps.starts(self._first_from(here[behind]))
        if not late.any():
            return PaneAssignment((slices, valids), None, None)
        by_itself = np.broadcast_to(own > last, shape)
        return PaneAssignment((slices, valids), taken, late, purged=int((late & ~by_itself).sum()))

    def _steps_of(self, ts: Ints) -> Sequence[Ints]:
        """Return the steps of these times with their bounds; a single one if all share a step."""
        low, high = int(ts.min()), int(ts.max())
        if self._newest and self._newest[1][0] <= low and high < self._newest[2][0]:
            return self._newest
        ends = self.steps.numbers(np.array([low, high]))
        most = int(ends[1] - ends[0]) + 2
        if most > len(ts) + 2:
            numbers = self.steps.numbers(ts)
            return numbers, self.steps.starts(numbers), self.steps.starts(numbers + 1)
        bounds = self.steps.starts(ends[0] + np.arange(most))
        if most == 2:
            self._newest[:] = [ends[:1], bounds[:1], bounds[1:]]
            return self._newest
        at = np.searchsorted(bounds, ts, side="right") - 1
        return ends[0] + at, bounds[at], bounds[at + 1]

    def due(self, slices: Ints, valids: Ints, above: IntOrInts, upto: int) -> tuple[Ints, Ints]:
        if self.width == 1:
            return valids, ((valids > above) & (valids <= upto)).astype(np.int64)
        last_step = self._last(self.steps.numbers(slices))
        last = self.steps.starts(last_step)
        # Times are clipped, because a watermark may be at either end of time.
        first_step = self._first_from(np.clip(above + 1, valids, last + 1))
        upto_step = self.steps.numbers(np.clip(upto, valids - 1, last))
        count = np.maximum(np.minimum(last_step, upto_step) - first_step + 1, 0)
        return self.steps.starts(first_step), count

    def ends(self, first: Ints, count: Ints) -> tuple[Ints, Ints]:
        if self.width == 1:
            owner = np.flatnonzero(count)
            return first[owner], owner
        steps, owner = progressions(self._first_from(first), count, 1)
        ends = self.steps.starts(steps)
        skipped = ends == self.steps.starts(steps - 1)
        return ends[~skipped], owner[~skipped]

    def last_end(self, slices: Ints) -> Ints:
        return self.steps.starts(self._last(self.steps.numbers(slices)))

    def start_of(self, end: IntOrInts) -> IntOrInts:
        ends = np.atleast_1d(np.asarray(end, dtype=np.int64))
        if self.calendar.grows:
            starts = self.whole.starts(self.whole.numbers(ends - 1))
        else:
            starts = self.steps.starts(self._first_from(ends) - self.width)
        return starts if isinstance(end, np.ndarray) else int(starts[0])

    def pane_end(self, slices: Ints) -> Ints:
        return self.steps.starts(self.steps.numbers(slices) + 1)
