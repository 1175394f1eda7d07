"""The contract of a table: columns with the state of some aggregates by key and pane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Protocol

import polars as pl


class Grouping(Protocol):
    """Columns by which state and results are grouped, in addition to the key."""

    @property
    def pane(self) -> Sequence[str]:
        """Return the columns that identify a pane."""
        ...

    @property
    def window(self) -> Sequence[str]:
        """Return the columns that identify a window of a key."""
        ...


class AggregateTable(ABC):
    """One state. `keys` are the names of the key columns in its frames, empty if all rows have one key.
    `windows` names the columns that identify a pane and a window."""

    name: str
    """Name of the state in snapshots."""
    keeps_rows: bool = False
    """Whether the state has one row per input row, so that combining rows does not make it smaller."""

    def __init__(self, keys: Sequence[str], windows: Grouping) -> None:
        self.keys = list(keys)
        self.pane = windows.pane
        self.window = windows.window

    @abstractmethod
    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the state of input rows; `by` names the pane columns of `rows`."""

    def combined(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the state of input rows like `partial`, reduced as far as merging could reduce it."""
        return self.partial(rows, by)

    @abstractmethod
    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """Merge frames into one, with one row per key and `by` if the kind of state allows it."""

    @abstractmethod
    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the results, under their names in the output, per key and window. Raise SumTooLarge,
        with the row of `frame`, if a sum does not fit its type."""

    def kinds(self, nothing: pl.DataFrame) -> dict[str, pl.DataType]:
        """Return the types of the columns of key and state, from a frame without rows."""
        made = self.stored(self.partial(nothing, ())).schema
        return {name: made[name] for name in (*self.keys, *self.required, *self.optional)}

    def stored(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the frame with all columns that are stored."""
        return frame

    @property
    @abstractmethod
    def required(self) -> list[str]:
        """Return the columns that the state must have, in addition to those of key and pane."""

    @property
    def optional(self) -> list[str]:
        """Return columns that are also stored, but that restored state may lack."""
        return []

    @abstractmethod
    def needs(self) -> dict[str, list[str]]:
        """Return, by aggregate, the names of the stored parts that its result requires."""

    def stored_of(self, columns: Iterable[str]) -> set[str]:
        """Return the names (as in `needs`) of the parts that state with these columns has."""
        return {self.name}
