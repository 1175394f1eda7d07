"""When merging windows fire.

A window is over when the watermark has passed its end, and that is known only together with its
neighbours: a pane that was due may be part of a window that has grown. So the keys of the panes that
are due are looked up, and the windows that all their panes make decide.

    due ──── keys ──── all their panes ──── windows ──┬─ ended: fire
                                                      └─ grown: their rows move behind
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from rheos.operators.window.columns import END, FIRST, MERGING_PANE, OPEN_FROM, OPEN_TO, START
from rheos.operators.window.contract import Ints
from rheos.operators.window.merging import containing, windows_of
from rheos.operators.window.merging_panes import EVER, MergingPanes
from rheos.operators.window.panes import PaneStore
from rheos.operators.window.trigger import Firing, Trigger

_NO_WINDOW = [pl.lit(0, pl.Int64).alias(name) for name in (OPEN_FROM, END, START)]

_PANE_OF = {END: OPEN_TO, OPEN_FROM: OPEN_FROM, START: FIRST}
"""The columns of a window that are those of its rows' panes."""


@dataclass(frozen=True)
class MergingFiring(Firing):
    """These windows of these keys."""

    windows: pl.DataFrame
    keys: Sequence[str]
    places: range | None

    def rows_of(self, store: PaneStore) -> list[pl.DataFrame]:
        assert isinstance(store, MergingPanes)
        keys, windows = self.windows.select(self.keys).unique(), self.windows
        rows = store.of_keys(keys, self.places, int(windows[END].max()))  # type: ignore[arg-type]
        if not rows.height:
            return []
        return [_in_windows(rows, windows, self.keys, {END: END, START: START})]


class MergingTrigger(Trigger):
    """`index` has a row for every key and pane of the `stores`."""

    def __init__(
        self, keys: Sequence[str], index: MergingPanes, stores: Sequence[MergingPanes]
    ) -> None:
        self._keys = list(keys)
        self._index = index
        self._stores = stores
        self._looked_up: tuple[int, pl.DataFrame] | None = None
        """The windows of all keys with panes that end up to here, where they were just looked up."""

    def passed(self, above: int, upto: int, only: pl.DataFrame | None = None) -> Iterator[Firing]:
        self._looked_up = None
        if not self._index.has(above, upto):
            return
        all_due = not self._index.has(EVER, above)
        for places in self._parts():
            windows = self._windows_due([self._index], above, upto, places)
            if places is None and all_due and len(self._stores) == 1:
                self._looked_up = upto, windows
            over = windows.filter((pl.col(END) > above) & (pl.col(END) <= upto))
            if only is not None:
                over = over.join(only, on=self._keys, how="semi")
            if over.height:
                yield MergingFiring(over, self._keys, places)

    def again(self, touched: pl.DataFrame, fired_through: int) -> Iterator[Firing]:
        touched = touched.filter(pl.col(OPEN_TO) <= fired_through)
        if not touched.height:
            return
        windows = self.windows_of(touched.select(self._keys).unique())
        found = containing(touched, windows, self._keys)
        over = windows[pl.Series(found).unique()].filter(pl.col(END) <= fired_through)
        if over.height:
            yield MergingFiring(over, self._keys, None)

    def purge(self, last_end: int) -> None:
        looked_up, self._looked_up = self._looked_up, None
        # A pane may be merged further in one store than in another, and so be due in that one alone.
        stores = [store for store in self._stores if store.has(EVER, last_end)]
        if not stores:
            return
        parts = self._parts()
        if looked_up is not None and looked_up[0] == last_end:
            of_parts = [looked_up[1]]
        else:
            of_parts = [self._windows_due(stores, EVER, last_end, places) for places in parts]
        grown = [windows.filter(pl.col(END) > last_end) for windows in of_parts]
        for store in stores:
            taken = store.take(last_end)
            for places, windows in zip(parts, grown, strict=True):
                if not windows.height:
                    continue
                frames = list(taken.rows(places))
                if frames:
                    rows = _in_windows(pl.concat(frames, how="diagonal"), windows, self._keys, _PANE_OF)
                    store.add(store.merged(rows))

    def windows_of(self, keys: pl.DataFrame, places: range | None = None) -> pl.DataFrame:
        """The windows of these keys: key, OPEN_FROM, END and START."""
        rows = self._index.of_keys(keys, places)
        return windows_of(rows, self._keys) if rows.height else keys.clear().with_columns(_NO_WINDOW)

    def _parts(self) -> list[range | None]:
        return max((store.parts() for store in self._stores), key=len)

    def _windows_due(
        self, stores: Sequence[MergingPanes], above: int, upto: int, places: range | None
    ) -> pl.DataFrame:
        """The windows of all keys that have a pane which ends after `above`, `upto` at the latest, in
        one of the stores."""
        due = [frame for store in stores for frame in store.ending(above, upto, places)]
        keys = pl.concat([frame.select(self._keys) for frame in due] or [self._no_keys()]).unique()
        return self.windows_of(keys, places)

    def _no_keys(self) -> pl.DataFrame:
        return next(iter(self._index)).read(0, 0, ()).select(self._keys)


def _in_windows(
    rows: pl.DataFrame, windows: pl.DataFrame, keys: Sequence[str], named: dict[str, str]
) -> pl.DataFrame:
    """The rows that are in one of the windows, with columns of it (old to new name) for their pane."""
    found: Ints = containing(rows, windows, keys)
    if (found < 0).any():
        there = found >= 0
        rows, found = rows.filter(pl.Series(there)), found[there]
    columns = [name for name in rows.columns if name not in MERGING_PANE]
    return rows[columns].hstack(
        windows[pl.Series(found)].select(pl.col(old).alias(new) for old, new in named.items())
    )
