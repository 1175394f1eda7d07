"""Firing of windows: the common interface of `fixed_trigger` and `merging_trigger`.

By event time, like Flink's default trigger: a window fires when the watermark passes its end, and again
for keys that receive rows after that.
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
        """The rows of a store that go into these windows, with the columns that name a window in the
        place of the pane."""

    def is_merged(self, store: PaneStore) -> bool:
        """Return whether these are one frame in which each row has a window of its own."""
        return False


class FiringRule(ABC):
    """Fires the windows of a subtask, and lets go of those that are over."""

    @abstractmethod
    def passed(self, above: int, upto: int, only: pl.DataFrame | None = None) -> Iterator[Firing]:
        """The windows that end after `above`, `upto` at the latest; of each key in the order of their
        ends. Where `only` is given, of these keys."""

    @abstractmethod
    def again(self, touched: pl.DataFrame, fired_through: int) -> Iterator[Firing]:
        """The windows that had fired, up to the end `fired_through`, before these keys and panes got
        more rows."""

    @abstractmethod
    def purge(self, last_end: int) -> None:
        """Drop the windows that end at or before `last_end`."""
