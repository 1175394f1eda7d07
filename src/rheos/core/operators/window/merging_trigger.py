"""The trigger of merging windows.

A window has ended when the watermark has passed its end. The end is known only together with the
neighbours: a pane that is due may belong to a window that has grown. So the trigger looks up all panes
of the keys that have due panes. The windows that these panes form decide what fires.

    due ──── keys ──── all their panes ──── windows ──┬─ ended: fire
                                                      └─ grown: their rows move to the new end
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rheos.core.operators.window.contract import Ints, Mask
from rheos.core.operators.window.merging import containing, windows_of
from rheos.core.operators.window.merging_panes import EVER, MergingPanes
from rheos.core.operators.window.pane_columns import END, FIRST, MERGING_PANE, OPEN_FROM, OPEN_TO, START
from rheos.core.operators.window.panes import PaneStore
from rheos.core.operators.window.trigger import Firing, FiringRule
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS

_WINDOW_OF = {END: END, START: START}
_PANE_OF = {END: OPEN_TO, OPEN_FROM: OPEN_FROM, START: FIRST}
"""The columns of a window that become the pane of its rows."""

_NUMBER = "number"


@dataclass(frozen=True, slots=True)
class FoundWindows:
    """The windows of some keys, and the rows of the index that form them."""

    keys: Sequence[str]
    windows: pl.DataFrame
    """Key, OPEN_FROM, END and START of each window."""
    rows: pl.DataFrame
    owners: Ints
    """For each row, the number of its window."""
    are_merged: bool = False
    """Whether each row is a complete window, with all its state."""

    @classmethod
    def alone(cls, keys: Sequence[str], rows: pl.DataFrame) -> FoundWindows:
        """Return the look-up of rows that are each a window of their own."""
        named = {OPEN_FROM: OPEN_FROM, OPEN_TO: END, FIRST: START}
        windows = rows.select(*keys, *named).rename(named)
        return cls(keys, windows, rows, np.arange(rows.height), are_merged=True)

    @property
    def ends(self) -> Ints:
        return self.windows[END].to_numpy()

    def of_index(
        self, windows: Mask, named: Mapping[str, str], upto: int | None = None
    ) -> pl.DataFrame:
        """Return the rows of some windows, as `_named` does. If `upto` is passed, return only rows of
        panes that end at or before it."""
        there = windows[self.owners]
        if upto is not None:
            there &= self.rows[OPEN_TO].to_numpy() <= upto
        return self._named(self.rows, self.owners, there, named)

    def of_others(self, rows: pl.DataFrame, windows: Mask, named: Mapping[str, str]) -> pl.DataFrame:
        """Return the rows of another store that are in some windows, as `_named` does."""
        owners = containing(rows, self.windows, self.keys)
        return self._named(rows, owners, (owners >= 0) & windows[owners], named)

    def _named(
        self, rows: pl.DataFrame, owners: Ints, there: Mask, named: Mapping[str, str]
    ) -> pl.DataFrame:
        """Return the rows whose mask `there` is True. Columns of their windows (old to new name)
        replace those of the pane."""
        if not there.all():
            rows, owners = rows.filter(pl.Series(there)), owners[there]
        kept = [name for name in rows.columns if name not in MERGING_PANE]
        of_windows = {new: self.windows[old].to_numpy()[owners] for old, new in named.items()}
        return rows[kept].hstack([pl.Series(new, values) for new, values in of_windows.items()])


@dataclass(frozen=True, slots=True)
class MergingFiring(Firing):
    """Some of the windows that were looked up."""

    found: FoundWindows
    windows: Mask
    index: MergingPanes
    places: range | None

    def is_merged(self, store: PaneStore) -> bool:
        return store is self.index and self.found.are_merged

    def rows_of(self, store: PaneStore) -> list[pl.DataFrame]:
        assert isinstance(store, MergingPanes)
        found = self.found
        if store is self.index:
            return [found.of_index(self.windows, _WINDOW_OF)]
        keys = found.windows.filter(pl.Series(self.windows)).select(found.keys).unique()
        rows = store.of_keys(keys, self.places, int(found.ends[self.windows].max()))
        if not rows.height:
            return []
        return [found.of_others(rows, self.windows, _WINDOW_OF)]


class MergingTrigger(FiringRule):
    """Trigger of the merging windows of a subtask. `index` has a row per key and pane of the
    `stores`."""

    def __init__(
        self, keys: Sequence[str], index: MergingPanes, stores: Sequence[MergingPanes]
    ) -> None:
        self._keys = list(keys)
        self._index = index
        self._stores = stores
        self._just_found: tuple[int, FoundWindows] | None = None
        """Result of the last look-up of the windows of all keys with panes that end up to a time."""
        self._passed = EVER
        """Time up to which windows have fired."""

    def passed(self, above: int, upto: int, only: pl.DataFrame | None = None) -> Iterator[Firing]:
        self._just_found = None
        self._passed = upto
        if not self._index.has(above, upto):
            return
        all_due = not self._index.has(EVER, above)
        for places in self._parts():
            found = self._due([self._index], above, upto, places)
            if found is None:
                continue
            if places is None and all_due and len(self._stores) == 1:
                self._just_found = upto, found
            over = (found.ends > above) & (found.ends <= upto)
            if only is not None:
                numbered = found.windows.with_row_index(_NUMBER)
                of_these = np.zeros(len(over), dtype=np.bool_)
                of_these[numbered.join(only, on=self._keys, how="semi")[_NUMBER].to_numpy()] = True
                over &= of_these
            if over.any():
                yield MergingFiring(found, over, self._index, places)

    def refire(self, touched: pl.DataFrame, fired_through: int) -> Iterator[Firing]:
        if int(touched[OPEN_TO].to_numpy().min()) > fired_through:
            return
        touched = touched.filter(pl.col(OPEN_TO) <= fired_through)
        found = self.look_up(touched.select(self._keys).unique())
        assert found is not None, "the index has these keys"
        over = np.zeros(found.windows.height, dtype=np.bool_)
        over[containing(touched, found.windows, self._keys)] = True
        over &= found.ends <= fired_through
        if over.any():
            yield MergingFiring(found, over, self._index, None)

    def count_windows(self, above: int) -> int:
        count = 0
        for places in self._parts():
            found = self._due([self._index], above, MAX_TIMESTAMP_MS, places)
            if found is not None:
                count += int((found.ends > above).sum())
        return count

    def next_end(self, above: int) -> int | None:
        return self._index.next_end(above)

    def purge(self, last_end: int) -> None:
        just_found, self._just_found = self._just_found, None
        # A pane may be merged further in one store than in another, and so be due in that one alone.
        stores = [store for store in self._stores if store.has(EVER, last_end)]
        if stores:
            self._drop(stores, last_end, just_found)
        if self._passed > last_end:
            self._index.settle(self._passed)

    def _drop(
        self, stores: Sequence[MergingPanes], last_end: int, just_found: tuple[int, FoundWindows] | None
    ) -> None:
        if just_found is not None and just_found[0] == last_end:
            found = just_found[1]
            if self._index.one_of_each_key:
                self._index.drop(last_end)
                return
            self._index.take(last_end)
            grown = found.of_index(found.ends > last_end, _PANE_OF, upto=last_end)
            self._index.put_back(grown)
            return
        parts = self._parts()
        of_parts = [self._due(stores, EVER, last_end, places) for places in parts]
        for store in stores:
            taken = store.take(last_end)
            for places, found_there in zip(parts, of_parts, strict=True):
                frames = [] if found_there is None else list(taken.rows(places))
                if found_there is not None and frames:
                    rows = pl.concat(frames, how="diagonal")
                    grown = found_there.of_others(rows, found_there.ends > last_end, _PANE_OF)
                    store.put_back(grown)

    def look_up(self, keys: pl.DataFrame, places: range | None = None) -> FoundWindows | None:
        """Return the windows of these keys, or None if they have no windows."""
        rows = self._index.of_keys(keys, places)
        if not rows.height:
            return None
        windows, owners = windows_of(rows, self._keys)
        return FoundWindows(self._keys, windows, rows, owners)

    def _parts(self) -> list[range | None]:
        return max((store.parts() for store in self._stores), key=len)

    def _due(
        self, stores: Sequence[MergingPanes], above: int, upto: int, places: range | None
    ) -> FoundWindows | None:
        """Return the windows of all keys that have a pane in one of the stores that ends after `above`,
        and at or before `upto`. Return None if no key has one."""
        due = [frame for store in stores for frame in store.ending(above, upto, places)]
        if not due:
            return None
        if stores == [self._index] and self._index.one_of_each_key:
            return FoundWindows.alone(self._keys, due[0])
        return self.look_up(pl.concat([frame.select(self._keys) for frame in due]).unique(), places)
