"""Which windows fire together, and who has to catch up with the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from rheos.operators.window.assign import Ints, WindowGrid
from rheos.operators.window.frames import KEY_GROUP
from rheos.operators.window.panes import PaneStore


@dataclass(frozen=True)
class Which:
    """Windows that fire together."""

    first_end: int
    last_end: int
    only: pl.DataFrame | None
    """Where it is given, of these keys and window ends alone."""
    places: range | None
    """Where it is given, of the keys there alone."""

    def rows_of(self, store: PaneStore) -> list[pl.DataFrame]:
        """The rows of a store that go into these windows, with END."""
        frames = store.gather(self.first_end, self.last_end, self.places)
        if self.only is not None:
            on = self.only.columns
            frames = [frame.join(self.only, on=on, how="semi") for frame in frames]
        return [frame for frame in frames if frame.height]


class Lagging:
    """The key groups of a restored subtask that have fired less than the others, and their keys."""

    def __init__(self, groups: dict[int, int] | None = None) -> None:
        self.groups = groups or {}
        """Through which watermark each of them has fired."""
        self._keys: dict[int, list[pl.DataFrame]] = {}

    def note(self, table: pl.DataFrame, keys: list[str]) -> None:
        for through in set(self.groups.values()):
            groups = [group for group, fired in self.groups.items() if fired == through]
            found = table.filter(pl.col(KEY_GROUP).is_in(groups)).select(keys).unique()
            if found.height:
                self._keys.setdefault(through, []).append(found)

    def by_watermark(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """The keys that have fired through each watermark, the lowest first."""
        for through in sorted(self._keys):
            yield through, pl.concat(self._keys[through]).unique()


def last_looked_at(
    grid: WindowGrid, slices: Ints, valids: Ints, above: int, upto: int, most_pairs: int
) -> int:
    """The latest end, or the earliest that is due, up to which there are at most so many pairs of pane
    and window."""
    first, count = grid.due(slices, valids, above, upto)
    low = int(first[count > 0].min())
    high = min(upto, int(grid.last_end(slices).max()))
    while high - low > grid.slide:
        middle = (low + high) // 2
        if int(grid.due(slices, valids, above, middle)[1].sum()) <= most_pairs:
            low = middle
        else:
            high = middle
    return low
