"""Firing of windows: the common interface of `fixed_trigger` and `merging_trigger`.

Windows fire by event time, as with Flink's default trigger: when the watermark passes their end, and
again for keys that receive rows after that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import polars as pl

from rheos.core.operators.window.panes import PaneStore


class Firing(ABC):
    """Windows that fire together."""

    @abstractmethod
    def rows_of(self, store: PaneStore) -> list[pl.DataFrame]:
        """Return the rows of a store that are in these windows. The columns that identify a window
        replace those of the pane."""

    def is_merged(self, store: PaneStore) -> bool:
        """Return whether `rows_of` is one frame in which each row is a complete window."""
        return False


class FiringRule(ABC):
    """Fires the windows of a subtask, and purges expired ones."""

    @abstractmethod
    def passed(self, above: int, upto: int, only: pl.DataFrame | None = None) -> Iterator[Firing]:
        """Yield the windows that end after `above`, and at or before `upto`. Those of each key are in
        the order of their ends. If `only` is passed, yield only windows of these keys."""

    @abstractmethod
    def refire(self, touched: pl.DataFrame, fired_through: int) -> Iterator[Firing]:
        """Yield the windows of these keys and panes, which received further rows, if the windows had
        already fired: those up to the end `fired_through`."""

    @abstractmethod
    def count_windows(self, above: int) -> int:
        """Return the number of windows of all keys that have rows and end after `above`."""

    @abstractmethod
    def next_end(self, above: int) -> int | None:
        """Return the earliest time after `above` at which a pane is due; None if no pane is. A merging
        window may have grown since, and end later."""

    @abstractmethod
    def purge(self, last_end: int) -> None:
        """Drop the windows that end at or before `last_end`."""
