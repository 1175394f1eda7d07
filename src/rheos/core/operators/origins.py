"""Which input rows an operator makes an output row of, as each operator's spec describes it.

`why` traces rows by this description (`ops/lineage`). If an operator cannot show which of several rows
counted, the description names all that may have, and a `doubt` that says so.
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
"""Whether a left and a right row of these times may have made a row of the window, if it has one."""


@dataclass(frozen=True)
class NoRow:
    """The rows come from outside: those of a source."""


@dataclass(frozen=True)
class SameRow:
    """One output row for each input row, in their order."""


@dataclass(frozen=True)
class OneRow:
    """Any number of output rows for each input row."""


@dataclass(frozen=True)
class CallOfFunction:
    """Rows that the function had read, in the call or by the state that the call read."""

    methods: Mapping[str, int]
    """The methods that are called for a row, with the port of the row."""


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
    """The rows that a pattern took, which the columns of its match show."""


Origin: TypeAlias = (
    NoRow | SameRow | OneRow | CallOfFunction | RowsOfKey | RowsOfWindow | PairOfRows | RowsOfMatch
)
