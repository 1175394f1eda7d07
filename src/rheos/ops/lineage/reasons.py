"""Rules that find the input rows from which an operator made a row, one for each family of operators.

A rule uses the operator's semantics, the rows that had arrived by then, and the call that emitted the
row. It does not run the operator without some rows to compare the results. If a rule cannot tell which
of several rows contributed, it names all candidates and the reason (`doubt`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

import pyarrow as pa

from rheos.core.graph.nodes import MAIN
from rheos.core.operators.late_rows import LATE
from rheos.core.operators.window.pane_columns import END, SLICE, START, VALID
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, TS, WM, visible
from rheos.ops.lineage.ledger import CallReason, FunctionCall, Ledger, TracedArrival, TracedRow

_MS = pa.timestamp("ms", "UTC")


@dataclass(frozen=True)
class Reason:
    """The rows from which one row of an operator was made, and how."""

    rows: Sequence[int] = ()
    """Their numbers in the ledger."""
    key: Mapping[str, Any] = field(default_factory=dict)
    """Key values by the operator's key columns; empty if it has no key, or if the key is unknown."""
    window: tuple[int, int] | None = None
    timer_ms: int | None = None
    from_state: bool | None = False
    """Whether stored state contributed, too. None: it did if the checkpoint has any of that key
    and window."""
    doubt: str | None = None


class RowRule(ABC):
    """A rule that finds the rows from which a row of one operator was made."""

    one_by_one: ClassVar[bool] = True
    """Whether the operator must receive each row by itself."""

    def __init__(self, planned: PlannedOperator, place: int, ledger: Ledger) -> None:
        self.planned = planned
        self.place = place
        self.ledger = ledger
        self._by_key: list[dict[tuple[Any, ...], list[TracedArrival]]] | None = None

    def reason(self, number: int, row: TracedRow) -> Reason:
        """Return the reason of the row with that number in the ledger, which the operator emitted."""
        if row.call.by is CallReason.RESTORED:
            return Reason(from_state=True)
        if row.tag != MAIN and row.detail is None:
            return self._sent_aside(number, row)
        return self._reason_for(number, row)

    @abstractmethod
    def _reason_for(self, number: int, row: TracedRow) -> Reason: ...

    def _sent_aside(self, number: int, row: TracedRow) -> Reason:
        """Return the reason of a row that was emitted unchanged, such as a late one."""
        if row.call.by is CallReason.ROW:
            return Reason([row.call.row])
        names = visible(row.batch.schema).names
        values = _values(row, names)
        for arrival in self._arrived(number):
            came = self.ledger.rows[arrival.row]
            if set(names) <= set(came.batch.schema.names) and _values(came, names) == values:
                return Reason([arrival.row])
        return Reason(from_state=True)

    # --- arrivals ---------------------------------------------------------------------------------

    def _arrived(self, number: int) -> Iterator[TracedArrival]:
        """Yield the arrivals before the row with that number was emitted."""
        return (each for each in self.ledger.arrivals(self.place) if each.before <= number)

    def _of_key(self, port: int, key: Mapping[str, Any], number: int) -> list[TracedArrival]:
        """Return the rows of a key that had arrived at a port, except late ones. The key is by the
        columns of the first port. If the port lacks some, return the rows that match in the others."""
        names = self.planned.ports[0].keys
        if self._by_key is None:
            self._by_key = [{} for _ in self.planned.ports]
            for arrival in self.ledger.arrivals(self.place):
                if (self.place, arrival.row) not in self.ledger.late:
                    found = self._key_of(arrival.port, arrival.row)
                    self._by_key[arrival.port].setdefault(found, []).append(arrival)
        by_key = self._by_key[port]
        if names and all(name in key for name in names):
            came = by_key.get(tuple(key[name] for name in names), [])
        else:
            wanted = {names.index(name): value for name, value in key.items()}
            came = [
                arrival
                for found, arrivals in by_key.items()
                if all(found[at] == value for at, value in wanted.items())
                for arrival in arrivals
            ]
            came.sort(key=lambda arrival: arrival.before)
        return [arrival for arrival in came if arrival.before <= number]

    def _key_of(self, port: int, row: int) -> tuple[Any, ...]:
        traced = self.ledger.rows[row]
        return tuple(traced.value(name) for name in self.planned.ports[port].keys)

    def _named_key(self, row: TracedRow) -> dict[str, Any]:
        """Return the key of an emitted row, from the call, or from the row's own columns."""
        names = self.planned.ports[0].keys
        if isinstance(row.detail, FunctionCall):
            key = row.detail.key if len(names) > 1 else (row.detail.key,)
            return dict(zip(names, key, strict=True)) if names else {}
        if row.call.by is CallReason.ROW and self.planned.ports[row.call.port].keys:
            return dict(zip(names, self._key_of(row.call.port, row.call.row), strict=True))
        return {name: row.value(name) for name in names if name in row.batch.schema.names}


class EachRow(RowRule):
    """A rule for rows that are each made from one row."""

    def _reason_for(self, number: int, row: TracedRow) -> Reason:
        if row.call.by is CallReason.ROW:
            return Reason([row.call.row])
        return Reason(
            doubt=(
                f"it emitted the row when {row.call.by.value}, and the rows that led to it are unknown"
            )
        )


class RowForRow(EachRow):
    """A rule for operators that emit exactly one row per input row, in order."""

    one_by_one = False

    def _reason_for(self, number: int, row: TracedRow) -> Reason:
        if row.call.by is CallReason.ROW:
            return Reason([row.call.row + row.nth])
        return super()._reason_for(number, row)


class OfSource(RowRule):
    """A rule for the rows of a source, which are made from no other rows."""

    one_by_one = False

    def _reason_for(self, number: int, row: TracedRow) -> Reason:
        return Reason()

    def _sent_aside(self, number: int, row: TracedRow) -> Reason:
        return Reason()


class OfFunction(RowRule):
    """A rule that explains a row by everything that the call of its function had seen."""

    def _reason_for(self, number: int, row: TracedRow) -> Reason:
        assert isinstance(row.detail, FunctionCall)
        rows, from_state = self.ledger.linked(row.detail.link)
        key = self._named_key(row)
        return Reason(rows, key, timer_ms=row.detail.timer_ms, from_state=from_state)


class OfKey(RowRule):
    """A rule that names all rows of the key that had arrived by then."""

    def __init__(
        self, planned: PlannedOperator, place: int, ledger: Ledger, doubt: str | None = None
    ) -> None:
        super().__init__(planned, place, ledger)
        self._doubt = doubt

    def _reason_for(self, number: int, row: TracedRow) -> Reason:
        key = self._named_key(row)
        ports = range(len(self.planned.ports))
        rows = [arrival.row for port in ports for arrival in self._of_key(port, key, number)]
        unseen = len(key) < len(self.planned.ports[0].keys)
        doubt = (
            "the key of the row is unknown: the rows of all keys are listed" if unseen else self._doubt
        )
        return Reason(sorted(rows), key, from_state=None, doubt=doubt)


class OfMatch(RowRule):
    """A rule for pattern matches, which list the matched rows by step. Equal rows may be mistaken for
    each other."""

    def _reason_for(self, number: int, row: TracedRow) -> Reason:
        key = self._named_key(row)
        shown = [row.value(name) for name in visible(row.batch.schema).names if name not in key]
        taken = [one for step in shown for one in (step if isinstance(step, list) else [step]) if one]
        came = self._of_key(0, key, number)
        rows: list[int] = []
        for wanted in taken:
            found = (each.row for each in came if each.row not in rows and self._is(each.row, wanted))
            rows += islice(found, 1)
        return Reason(sorted(rows), key, from_state=len(rows) < len(taken))

    def _sent_aside(self, number: int, row: TracedRow) -> Reason:
        return super()._sent_aside(number, row) if row.tag == LATE else self._reason_for(number, row)

    def _is(self, row: int, wanted: Mapping[str, Any]) -> bool:
        traced = self.ledger.rows[row]
        return all(
            value == traced.value(name) or repr(value) == repr(traced.value(name))
            for name, value in wanted.items()
        )


class OfFiredWindow(RowRule):
    """A rule for windows: the key's rows whose time is in the window and that were not late for it. A
    row is not late if `end - 1 + lateness` is beyond its split's watermark, or the operator's."""

    def __init__(
        self,
        planned: PlannedOperator,
        place: int,
        ledger: Ledger,
        lateness_ms: int,
        doubt: str | None = None,
    ) -> None:
        super().__init__(planned, place, ledger)
        self._lateness_ms = lateness_ms
        self._doubt = doubt

    def _reason_for(self, number: int, row: TracedRow) -> Reason:
        key, window = self._named_key(row), window_of(row)
        if window is None:
            return Reason(key=key, doubt="the window of the row is unknown")
        rows = [
            arrival.row
            for port in range(len(self.planned.ports))
            for arrival in self._of_key(port, key, number)
            if self._is_in(window, arrival)
        ]
        return Reason(sorted(rows), key, window, from_state=None, doubt=self._doubt)

    def _is_in(self, window: tuple[int, int], arrival: TracedArrival) -> bool:
        start, end = window
        row = self.ledger.rows[arrival.row]
        names = row.batch.schema.names
        own_ms = row.value(WM) if WM in names else MIN_TIMESTAMP_MS
        is_late = end - 1 + self._lateness_ms <= max(own_ms, arrival.reached_ms)
        return start <= row.value(TS) < end and not is_late


class OfPartials(OfFiredWindow):
    """A rule for the partial aggregates of a window. They belong to panes; an operator upstream has
    already counted late rows."""

    def _is_in(self, window: tuple[int, int], arrival: TracedArrival) -> bool:
        start, end = window
        row = self.ledger.rows[arrival.row]
        return bool(start <= row.value(SLICE) and row.value(VALID) <= end)


def window_of(row: TracedRow) -> tuple[int, int] | None:
    if isinstance(row.detail, FunctionCall):
        return row.detail.window
    if not {START, END} <= set(row.batch.schema.names):
        return None
    start, end = (row.batch.column(name)[row.at].cast(_MS).value for name in (START, END))
    return start, end


def _values(row: TracedRow, names: Sequence[str]) -> list[Any]:
    return [row.value(name) for name in names]
