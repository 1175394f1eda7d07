"""Of which pair of rows a join made a row: of two that have the key, the values, and lie as the join
asks. Pairs of the same values may stand for one another, and each is taken once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

from rheos.core.operators.joins.columns import LEFT, RIGHT, JoinedColumns
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import TS, visible
from rheos.ops.lineage.ledger import Called, Ledger, TracedArrival, TracedRow
from rheos.ops.lineage.reasons import Reason, RowRule, window_of

Lies: TypeAlias = Callable[[TracedRow, TracedRow, TracedRow], bool]
"""Whether a left and a right row lie so that they may have made a row, which comes third."""

_SIDES = (LEFT, RIGHT)


def apart(lower_ms: int, upper_ms: int) -> Lies:
    """The right one's time is so far from the left one's."""

    def lies(left: TracedRow, right: TracedRow, made: TracedRow) -> bool:
        return bool(lower_ms <= right.value(TS) - left.value(TS) <= upper_ms)

    return lies


def not_after(left: TracedRow, right: TracedRow, made: TracedRow) -> bool:
    """The right one is there at the left one's time."""
    return bool(right.value(TS) <= left.value(TS))


def in_its_window(left: TracedRow, right: TracedRow, made: TracedRow) -> bool:
    return _in_window(left, made) and _in_window(right, made)


def anyhow(left: TracedRow, right: TracedRow, made: TracedRow) -> bool:
    return True


def _in_window(row: TracedRow, made: TracedRow) -> bool:
    window = window_of(made)
    return window is None or window[0] <= row.value(TS) < window[1]


class OfPair(RowRule):
    def __init__(
        self,
        planned: PlannedOperator,
        place: int,
        ledger: Ledger,
        columns: JoinedColumns,
        lies: Lies,
        *,
        newest: bool = False,
        doubt: str | None = None,
    ) -> None:
        """`newest`: of several right rows it is the one of the latest time."""
        super().__init__(planned, place, ledger)
        self._columns = columns
        self._lies = lies
        self._newest = newest
        self._doubt = doubt

    def _made(self, number: int, row: TracedRow) -> Reason:
        key = self._key(row)
        sides = [self._candidates(port, key, number, row) for port in _SIDES]
        window = window_of(row)
        wanted = self._alike_before(number, row)
        for pair in islice(self._pairs(sides, row), wanted, None):
            return Reason([one.row for one in pair], key, window, doubt=self._doubt)
        # What is left of the pair that is not among the rows that came.
        came = [row.call.row] if row.call.by is Called.ROW else []
        return Reason(came, key, window, from_state=True)

    def _key(self, row: TracedRow) -> dict[str, Any]:
        if row.call.by is Called.ROW:
            return self._named_key(row)
        names = self.planned.ports[LEFT].keys, self.planned.ports[RIGHT].keys
        found = {}
        for column in self._columns.columns:
            for port, of_side in zip(_SIDES, (column.left, column.right), strict=True):
                value = row.value(column.name)
                if of_side in names[port] and value is not None:
                    found[names[LEFT][names[port].index(of_side)]] = value
        return found

    def _candidates(
        self, port: int, key: dict[str, Any], number: int, row: TracedRow
    ) -> Sequence[TracedArrival | None]:
        """The rows of one side that have the values; only None where it has no part in the row."""
        is_call = row.call.by is Called.ROW and row.call.port == port
        wanted = {
            column.name: of_side
            for column in self._columns.columns
            for of_side, other in [(column.left, column.right)[:: 1 if port == LEFT else -1]]
            if of_side is not None
        }
        own = [
            column.name
            for column in self._columns.columns
            if column.name in wanted and (column.left is None or column.right is None)
        ]
        values = {name: row.value(name) for name in wanted}
        found = [
            arrival
            for arrival in self._of_key(port, key, number)
            if (not is_call or arrival.row == row.call.row)
            and all(self._equal(arrival, wanted[name], value) for name, value in values.items())
        ]
        if self._newest and port == RIGHT:
            found.sort(key=lambda arrival: self.ledger.rows[arrival.row].value(TS), reverse=True)
        alone = not is_call and bool(own) and all(values[name] is None for name in own)
        return found or ([None] if alone else [])

    def _equal(self, arrival: TracedArrival, column: str, value: Any) -> bool:
        came = self.ledger.rows[arrival.row].value(column)
        return bool(came == value) or repr(came) == repr(value)

    def _pairs(
        self, sides: Sequence[Sequence[TracedArrival | None]], made: TracedRow
    ) -> Iterator[list[TracedArrival]]:
        rows = self.ledger.rows
        for left in sides[LEFT]:
            for right in sides[RIGHT]:
                if left is None or right is None:
                    yield [one for one in (left, right) if one is not None]
                elif self._lies(rows[left.row], rows[right.row], made):
                    yield [left, right]
                    if self._newest:
                        break

    def _alike_before(self, number: int, row: TracedRow) -> int:
        """How many rows of the same values the call gave before."""
        names = visible(row.batch.schema).names
        values, alike, nth = [row.value(name) for name in names], 0, row.nth
        while nth:
            number -= 1
            other = self.ledger.rows[number]
            if other.call is row.call:
                nth = other.nth
                alike += [other.value(name) for name in names] == values
        return alike
