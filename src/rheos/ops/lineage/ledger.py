"""The record of a run: every row, and the call of an operator that emitted it.

Only this is recorded while the program runs. The rows from which a row was made are found later, for
the few rows that are explained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shown_rows import value_of

FROM_STATE = -1
"""Link to the state with which the program began."""


class CallReason(Enum):
    """The reason of a call of an operator."""

    ROW = "a row"
    READ = "rows were read"
    WATERMARK = "the watermark rose"
    CLOCK = "the clock"
    END = "the input has ended"
    RESTORED = "a row that was in flight when the checkpoint was taken"


@dataclass(frozen=True, slots=True)
class TracedCall:
    by: CallReason
    port: int = 0
    row: int = 0
    """Number of the row; for a batch, that of the first row."""
    at_ms: int | None = None
    """The watermark, or the processing time."""


@dataclass(frozen=True, slots=True)
class SplitPlace:
    """The place of a source's row."""

    split: str
    unit: str | None
    at: int | str | None
    """Position as in `RowPlaces`. Both fields are None if the source does not report it."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """The call of a user's function that emitted a row."""

    link: int
    """Link to everything that the call had seen when it emitted the row."""
    key: Any = None
    window: tuple[int, int] | None = None
    timer_ms: int | None = None
    watermark_ms: int | None = None
    """Watermark at which the timer was due."""


@dataclass(slots=True)
class TracedRow:
    """A row that an operator has emitted."""

    place: int
    """Number of the operator in the plan."""
    tag: str
    batch: Batch
    at: int
    """Number of the row in its batch, which includes hidden columns."""
    call: TracedCall
    nth: int
    """Number of the row among those of its call."""
    detail: SplitPlace | FunctionCall | None

    def value(self, column: str) -> Any:
        return value_of(self.batch.column(column), self.at)


@dataclass(frozen=True, slots=True)
class TracedArrival:
    """A row that arrived at an operator."""

    row: int
    port: int
    before: int
    """Number of the first row that any operator emitted after this arrival."""
    reached_ms: int
    """Watermark of the operator at the arrival."""


@dataclass(frozen=True, slots=True)
class SourceTime:
    """The event time that a source has reached."""

    before: int
    """Number of the first row that any operator emitted after this."""
    place: int
    watermark_ms: int | None
    """Watermark of the source; None while it is idle."""


class Ledger:
    def __init__(self) -> None:
        self.rows: list[TracedRow] = []
        self.times: list[SourceTime] = []
        """Changes of the sources' event time, in order."""
        self._arrivals: dict[int, list[TracedArrival]] = {}
        self.late: set[tuple[int, int]] = set()
        """Pairs of an operator and a row that was late for it."""
        self._at_hand: dict[int, tuple[Batch, int]] = {}
        """Batches in transit, with the number of their first row."""
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
        """Return the number of the first row of a batch that was just emitted."""
        return self._at_hand[id(batch)][1]

    def delivers(self, batch: Batch) -> None:
        """Note the batch that the next chain processes."""
        self._delivered = batch

    def arrives_as(self, batch: Batch) -> None:
        """Note that the delivered batch arrives as another one, which has its rows."""
        self._at_hand[id(batch)] = (batch, self.first(self._delivered))

    def passed_on(self) -> None:
        """Note that no batch is in transit any more."""
        self._at_hand.clear()

    def came(self, place: int, port: int, row: int, reached_ms: int) -> None:
        """Record the arrival of a row at an operator."""
        arrival = TracedArrival(row, port, len(self.rows), reached_ms)
        self._arrivals.setdefault(place, []).append(arrival)

    def reached(self, place: int, watermark_ms: int | None) -> None:
        """Record the event time of a source after it was polled."""
        self.times.append(SourceTime(len(self.rows), place, watermark_ms))

    def arrivals(self, place: int) -> Sequence[TracedArrival]:
        """Return the arrivals at an operator, in their order."""
        return self._arrivals.get(place, ())

    # --- links ------------------------------------------------------------------------------------

    def link(self, to: Sequence[int]) -> int:
        """Return one link for all of these rows and links, at a cost that does not depend on their
        number."""
        self._links.append(to)
        return -1 - len(self._links)

    def linked(self, link: int) -> tuple[list[int], bool]:
        """Return the rows to which a link leads, in order, and whether it also leads to stored
        state."""
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
