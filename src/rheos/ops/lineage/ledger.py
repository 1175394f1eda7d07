"""The record of a run: every row, and the call of an operator that emitted it.

Only this is recorded while the program runs. The rows that a row was made of are found later, for the
few rows that are explained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shown_rows import value_of

FROM_STATE = -1
"""Stands among links for what was in the state that the program began with."""


class Called(Enum):
    """The reason of a call of an operator."""

    ROW = "a row"
    READ = "rows were read"
    WATERMARK = "the watermark rose"
    CLOCK = "the clock"
    END = "the input has ended"
    RESTORED = "a row that was in flight when the checkpoint was taken"


@dataclass(frozen=True, slots=True)
class TracedCall:
    by: Called
    port: int = 0
    row: int = 0
    """Number of the row; of a batch, the first."""
    at_ms: int | None = None
    """The watermark, or the clock."""


@dataclass(frozen=True, slots=True)
class SplitPlace:
    """The place of a source's row."""

    split: str
    unit: str | None
    at: int | str | None
    """As `RowPlaces` has it. None, both, where the source does not say it."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """The call of a user's function that a row was emitted in."""

    link: int
    """A link to everything that the call had seen by then."""
    key: Any = None
    window: tuple[int, int] | None = None
    timer_ms: int | None = None
    watermark_ms: int | None = None
    """At which the timer was found due."""


@dataclass(slots=True)
class TracedRow:
    """A row that an operator has given."""

    place: int
    """The operator's number in the plan."""
    tag: str
    batch: Batch
    at: int
    """Its number in the batch, hidden columns included."""
    call: TracedCall
    nth: int
    """Number of the row among those of its call."""
    detail: SplitPlace | FunctionCall | None

    def value(self, column: str) -> Any:
        return value_of(self.batch.column(column), self.at)


@dataclass(frozen=True, slots=True)
class TracedArrival:
    """A row that an operator was given."""

    row: int
    port: int
    before: int
    """The number of the first row that was given by anyone after it came."""
    reached_ms: int
    """The operator's watermark as it came."""


class Ledger:
    def __init__(self) -> None:
        self.rows: list[TracedRow] = []
        self._arrivals: dict[int, list[TracedArrival]] = {}
        self.late: set[tuple[int, int]] = set()
        """Operators, and rows that came too late for them."""
        self._at_hand: dict[int, tuple[Batch, int]] = {}
        """Batches on their way, and the number of their first row."""
        self._delivered = Batch.from_pylist([])
        self._links: list[Sequence[int]] = []

    # --- rows -------------------------------------------------------------------------------------

    def gave(
        self,
        place: int,
        tag: str,
        batch: Batch,
        call: TracedCall,
        nth: int,
        details: Sequence[SplitPlace | FunctionCall | None],
    ) -> None:
        """Record rows that an operator emits; `nth` is the number of rows that it has emitted before in
        the call."""
        self._at_hand[id(batch)] = (batch, len(self.rows))
        for at, detail in enumerate(details):
            self.rows.append(TracedRow(place, tag, batch, at, call, nth + at, detail))

    def first(self, batch: Batch) -> int:
        """The number of the first row of a batch that was given just now."""
        return self._at_hand[id(batch)][1]

    def delivers(self, batch: Batch) -> None:
        """Note the batch that the next chain processes."""
        self._delivered = batch

    def arrives_as(self, batch: Batch) -> None:
        """Note that the delivered batch arrives as another one, which has its rows."""
        self._at_hand[id(batch)] = (batch, self.first(self._delivered))

    def passed_on(self) -> None:
        """No batch is on its way any more."""
        self._at_hand.clear()

    def came(self, place: int, port: int, row: int, reached_ms: int) -> None:
        """An operator is given a row."""
        arrival = TracedArrival(row, port, len(self.rows), reached_ms)
        self._arrivals.setdefault(place, []).append(arrival)

    def arrivals(self, place: int) -> Sequence[TracedArrival]:
        """In the order in which they came."""
        return self._arrivals.get(place, ())

    # --- links ------------------------------------------------------------------------------------

    def link(self, to: Sequence[int]) -> int:
        """A name for all of these rows and links: it costs the same however many rows they lead to."""
        self._links.append(to)
        return -1 - len(self._links)

    def linked(self, link: int) -> tuple[list[int], bool]:
        """The rows that a link leads to, in their order, and whether it leads to stored state, too."""
        seen, rows, todo = set[int](), set[int](), [link]
        while todo:
            one = todo.pop()
            if one >= 0:
                rows.add(one)
            elif one not in seen:
                seen.add(one)
                if one != FROM_STATE:
                    todo.extend(self._links[-2 - one])
        return sorted(rows), FROM_STATE in seen
