"""The two families of windows, and the parts of a window operator for each.

| | fixed | merging |
|---|---|---|
| panes | `fixed_panes` | `merging_panes`, by the rule of `merging` |
| which windows fire | `fixed_trigger` | `merging_trigger` |
| a row that its watermark has passed | late at once | buffered in `late_candidates` |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property

import polars as pl

from rheos.core.operators.contract import PortType
from rheos.core.operators.window.contract import FixedWindows, MergingWindows, Windows
from rheos.core.operators.window.fixed_panes import FixedPanes
from rheos.core.operators.window.fixed_trigger import FixedTrigger
from rheos.core.operators.window.late_candidates import DecidedRows, LateCandidates
from rheos.core.operators.window.merging import SPANS, all_meet, joined
from rheos.core.operators.window.merging_panes import MergingPanes
from rheos.core.operators.window.merging_trigger import MergingTrigger
from rheos.core.operators.window.newest_panes import ReduceOf
from rheos.core.operators.window.panes import MemoryBudget, PaneStore
from rheos.core.operators.window.trigger import FiringRule
from rheos.core.protocol.elements import Batch
from rheos.core.state.pane_segments import Merge


class Family(ABC):
    """The parts of one window operator that depend on the family of its windows."""

    @abstractmethod
    def store(self, merge: Merge, reduce_of: ReduceOf | None) -> PaneStore:
        """Create a store of panes. The first one is the index: it has a row for every key and pane.
        `reduce_of` selects the columns that may be stored as arrays; None selects none."""

    @property
    @abstractmethod
    def trigger(self) -> FiringRule:
        """Return the trigger of all stores. Call it after all stores were created."""

    @abstractmethod
    def arranged(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of one batch, arranged by window if they have panes of their own."""

    def spans(self, rows: pl.DataFrame) -> list[pl.Expr]:
        """Return the pane of all rows of a key, if it is certain that the rows of each key in this
        batch share one. Then they need not be arranged. Otherwise return an empty list."""
        return []

    undecided: LateCandidates | None = None

    def decided(self, watermark: int) -> Iterator[DecidedRows]:
        """Yield the rows that were buffered until this watermark, and whether they are late."""
        return iter(())

    def wait(self, batch: Batch, purged_through: int) -> None:
        """Buffer rows whose lateness is not decided yet."""
        raise AssertionError("rows of these windows are either late or not")


class FixedFamily(Family):
    def __init__(self, windows: FixedWindows, keys: Sequence[str], memory: MemoryBudget) -> None:
        self._windows, self._keys, self._memory = windows, keys, memory
        self._stores: list[FixedPanes] = []

    def store(self, merge: Merge, reduce_of: ReduceOf | None) -> FixedPanes:
        self._stores.append(FixedPanes(self._windows, merge, self._keys, self._memory))
        return self._stores[-1]

    @cached_property
    def trigger(self) -> FixedTrigger:
        index, places = self._stores[0], self._memory.places
        return FixedTrigger(self._windows, self._keys, index, self._stores, places)

    def arranged(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows


class MergingFamily(Family):
    def __init__(
        self,
        windows: MergingWindows,
        keys: Sequence[str],
        memory: MemoryBudget,
        port: PortType,
        lateness_ms: int,
    ) -> None:
        self._pane, self._keys, self._memory = windows.pane, keys, memory
        self._stores: list[MergingPanes] = []
        self.undecided: LateCandidates = LateCandidates(windows, port, lateness_ms, memory)

    def store(self, merge: Merge, reduce_of: ReduceOf | None) -> MergingPanes:
        panes = MergingPanes(self._pane, merge, self._keys, self._memory, reduce_of=reduce_of)
        self._stores.append(panes)
        return self._stores[-1]

    @cached_property
    def trigger(self) -> MergingTrigger:
        return MergingTrigger(self._keys, self._stores[0], self._stores)

    def arranged(self, rows: pl.DataFrame) -> pl.DataFrame:
        return joined(rows, self._keys) if self._pane[0] in rows.columns else rows

    def spans(self, rows: pl.DataFrame) -> list[pl.Expr]:
        there = self._pane[0] in rows.columns
        return SPANS if there and all_meet(rows) else []

    def decided(self, watermark: int) -> Iterator[DecidedRows]:
        return self.undecided.decided(watermark, self.trigger)

    def wait(self, batch: Batch, purged_through: int) -> None:
        self.undecided.add(batch, purged_through)


def family_of(
    windows: Windows, keys: Sequence[str], memory: MemoryBudget, port: PortType, lateness_ms: int
) -> Family:
    """Return the parts for a kind of window."""
    match windows:
        case FixedWindows():
            return FixedFamily(windows, keys, memory)
        case MergingWindows():
            return MergingFamily(windows, keys, memory, port, lateness_ms)
        case _:
            raise AssertionError(f"{windows} belong to neither family")
