"""Firing of fixed windows. Windows that fire together are gathered at once, if memory permits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from rheos.core.operators.window.contract import FixedWindows, Ints
from rheos.core.operators.window.fixed_panes import FixedPanes
from rheos.core.operators.window.pane_columns import END, PANE, SLICE, VALID
from rheos.core.operators.window.panes import PaneStore
from rheos.core.operators.window.trigger import Firing, FiringRule
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from rheos.core.state.pane_segments import cut

GATHERED_ROWS = 1 << 16
"""Maximum rows of state that are gathered at once, unless a single window has more."""

_PAIRS = 1 << 20
"""Maximum pairs of pane and window that are processed at once."""

_BEFORE = "slice_before"


@dataclass(frozen=True)
class FixedFiring(Firing):
    """Windows that fire together: those that end from `first_end` to `last_end`."""

    first_end: int
    last_end: int
    only: pl.DataFrame | None
    """Keys and window ends to which the firing is restricted; None: no restriction."""
    places: range | None
    """Places to whose keys the firing is restricted; None: no restriction."""

    def rows_of(self, store: PaneStore) -> list[pl.DataFrame]:
        assert isinstance(store, FixedPanes)
        frames = store.gather(self.first_end, self.last_end, self.places)
        if self.only is not None:
            on = self.only.columns
            frames = [frame.join(self.only, on=on, how="semi") for frame in frames]
        return [frame for frame in frames if frame.height]


class FixedTrigger(FiringRule):
    """Trigger of the fixed windows of a subtask. `index` has a row for every key and pane of the
    `stores`; `places` are those of the subtask's keys."""

    def __init__(
        self,
        windows: FixedWindows,
        keys: Sequence[str],
        index: FixedPanes,
        stores: Iterable[FixedPanes],
        places: range,
    ) -> None:
        self._windows = windows
        self._keys = keys
        self._index = index
        self._stores = list(stores)
        self._places = places

    def passed(self, above: int, upto: int, only: pl.DataFrame | None = None) -> Iterator[Firing]:
        for first_end, last_end in self._due(above, upto):
            yield from self._parts(first_end, last_end, only)

    def refire(self, touched: pl.DataFrame, fired_through: int) -> Iterator[Firing]:
        valids = touched[VALID].to_numpy()
        if int(valids.min()) > fired_through:
            return
        slices = touched[SLICE].to_numpy()
        ends, owner = self._windows.ends(
            *self._windows.due(slices, valids, MIN_TIMESTAMP_MS, fired_through)
        )
        only = touched.select(self._keys)[owner].with_columns(pl.Series(END, ends)).unique()
        among = np.unique(ends)
        for first_end, last_end in self._due(int(among[0]) - 1, int(among[-1]), among):
            yield from self._parts(first_end, last_end, only)

    def count_windows(self, above: int) -> int:
        # A key's next slice is also in the windows of the slice before it that end later than its
        # start. So only the ends after the last one of the slice before are further windows.
        slices, valids, _ = self._index.panes()
        if not len(slices):
            return 0
        order = np.lexsort((valids, slices))
        slices, valids = slices[order], valids[order]
        lows = np.append(above, np.maximum(self._windows.last_end(slices[:-1]), above))
        ends, _ = self._windows.ends(*self._windows.due(slices, valids, lows, MAX_TIMESTAMP_MS))
        count = 0
        for rows in self._index.whole_keys():
            rows = rows.sort(PANE).with_columns(pl.col(SLICE).shift(1).over(self._keys).alias(_BEFORE))
            own, before = rows[SLICE].to_numpy(), rows[_BEFORE]
            counted = self._windows.last_end(before.fill_null(0).to_numpy())
            lows = np.where(before.is_null(), above, np.maximum(counted, above))
            lows = np.maximum(lows, rows[VALID].to_numpy() - 1)
            stops = np.searchsorted(ends, self._windows.last_end(own), side="right")
            count += int(np.maximum(stops - np.searchsorted(ends, lows, side="right"), 0).sum())
        return count

    def next_end(self, above: int) -> int | None:
        slices, valids, _ = self._index.panes()
        first, count = self._windows.due(slices, valids, above, MAX_TIMESTAMP_MS)
        return int(first[count > 0].min()) if count.any() else None

    def purge(self, last_end: int) -> None:
        for store in self._stores:
            store.purge(last_end)

    def _due(self, above: int, upto: int, among: Ints | None = None) -> Iterator[tuple[int, int]]:
        """Yield ranges of ends, in ascending order, of windows that have rows and end after `above`, at
        the latest at `upto`. If `among` is passed, yield only ranges that contain one of these ends."""
        windows = self._windows
        slices, valids, sizes = self._index.panes()
        while True:
            first, count = windows.due(slices, valids, above, upto)
            if not count.any():
                return
            horizon = upto
            if int(count.sum()) > _PAIRS:
                horizon = last_looked_at(windows, slices, valids, above, upto, _PAIRS)
                first, count = windows.due(slices, valids, above, horizon)
            ends, owner = windows.ends(first, count)
            rows = sizes[owner]
            if among is not None:
                wanted = np.isin(ends, among)
                ends, rows = ends[wanted], rows[wanted]
            found, window = np.unique(ends, return_inverse=True)
            weight = np.bincount(window, weights=rows, minlength=len(found))
            chunk = (np.cumsum(weight) - weight) // GATHERED_ROWS
            bounds = np.concatenate([[0], np.flatnonzero(np.diff(chunk)) + 1, [len(found)]])
            for begin, stop in pairwise(bounds):
                if begin < stop:
                    yield int(found[begin]), int(found[stop - 1])
            above = horizon

    def _parts(self, first_end: int, last_end: int, only: pl.DataFrame | None) -> Iterator[Firing]:
        """Yield firings that fit into memory, one range of places at a time."""
        parts = max(store.parts(first_end, last_end) for store in self._stores)
        for places in cut(self._places, parts):
            yield FixedFiring(first_end, last_end, only, places)


def last_looked_at(
    windows: FixedWindows, slices: Ints, valids: Ints, above: int, upto: int, most_pairs: int
) -> int:
    """Return the latest time up to which there are at most `most_pairs` pairs of pane and window; at
    least the earliest due end."""
    first, count = windows.due(slices, valids, above, upto)
    low = int(first[count > 0].min())
    high = min(upto, int(windows.last_end(slices).max()))
    while high - low > 1:
        middle = (low + high) // 2
        if int(windows.due(slices, valids, above, middle)[1].sum()) <= most_pairs:
            low = middle
        else:
            high = middle
    return low
