"""Descriptions of the input rows from which an operator's output rows are made. Each operator's spec
returns one.

`why` traces rows with them (`ops/lineage`). If an operator cannot tell which of several rows
contributed, its description covers all candidates and has a `doubt` that explains this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rheos.core.operators.joins.joined_columns import JoinedColumns

ALL_OF_KEY = (
    "the rows of the key that led to this one are not tracked individually: all earlier ones are listed"
)
ALL_OF_WINDOW = (
    "the rows that its trigger or evictor kept in the window are not tracked individually: all "
    "rows of the window are listed"
)

Matches: TypeAlias = Callable[[int, int, tuple[int, int] | None], bool]
"""Condition on the times of a left and a right row, and on the output's window if it has one. It is
true if the two rows may have produced an output row."""


@dataclass(frozen=True)
class NoRow:
    """No input row: the rows come from a source."""


@dataclass(frozen=True)
class SameRow:
    """One output row for each input row, in their order."""


@dataclass(frozen=True)
class OneRow:
    """Any number of output rows for each input row."""


@dataclass(frozen=True)
class CallOfFunction:
    """Rows that the function had read, in the call itself or through the state that the call read."""

    methods: Mapping[str, int]
    """Methods of the function that are called for a row, with the row's port."""


@dataclass(frozen=True)
class RowsOfKey:
    """All rows of the key so far; without a key, all rows."""

    doubt: str | None = ALL_OF_KEY
    calls_function: bool = False
    """Whether the spec's `fn` is called with whole windows of rows."""


@dataclass(frozen=True)
class RowsOfWindow:
    """The rows of the key in the window that were not late for it."""

    lateness_ms: int
    doubt: str | None = None
    calls_function: bool = False
    """Whether the spec's `fn` is called with whole windows of rows."""
    of_partials: bool = False
    """Whether its inputs are partial aggregates of panes, which have no late rows."""


@dataclass(frozen=True)
class PairOfRows:
    """A left and a right row with the same key."""

    columns: JoinedColumns
    matches: Matches | None = None
    """Condition on the times of the two rows; None: they may have no event time."""
    newest: bool = False
    """Whether the right row is the newest of several."""
    doubt: str | None = None


@dataclass(frozen=True)
class RowsOfMatch:
    """Rows of a pattern match, as the columns of its output show."""


Origin: TypeAlias = (
    NoRow | SameRow | OneRow | CallOfFunction | RowsOfKey | RowsOfWindow | PairOfRows | RowsOfMatch
)
