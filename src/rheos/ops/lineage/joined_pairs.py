"""Finds the pair of rows from which a join made a row: two rows that have the key and the values, and
that satisfy the join's condition on time. Pairs with the same values may be mistaken for each other,
and each pair is used once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from rheos.core.operators.joins.joined_columns import LEFT, RIGHT
from rheos.core.operators.origins import PairOfRows
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import TS, visible
from rheos.ops.lineage.ledger import CallReason, Ledger, TracedArrival, TracedRow
from rheos.ops.lineage.reasons import Reason, RowRule, window_of

_SIDES = (LEFT, RIGHT)


class PairRule(RowRule):
    """The rule for rows of a join, which describes its pairs as `PairOfRows`."""

    def __init__(self, planned: PlannedOperator, place: int, ledger: Ledger, pair: PairOfRows) -> None:
        super().__init__(planned, place, ledger)
        self._columns = pair.columns
        self._newest = pair.newest
        self._doubt = pair.doubt
        self._matches = pair.matches

    def _reason_for(self, number: int, row: TracedRow) -> Reason:
        key = self._key(row)
        sides = [self._candidates(port, key, number, row) for port in _SIDES]
        window = window_of(row)
        wanted = self._alike_before(number, row)
        for pair in islice(self._pairs(sides, row), wanted, None):
            return Reason([one.row for one in pair], key, window, doubt=self._doubt)
        # The pair is incomplete among the rows that arrived, so only a part of it can be named.
        came = [row.call.row] if row.call.by is CallReason.ROW else []
        return Reason(came, key, window, from_state=True)

    def _key(self, row: TracedRow) -> dict[str, Any]:
        if row.call.by is CallReason.ROW:
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
        """Return the rows of one side that have the values; only None if no row of it contributed."""
        is_call = row.call.by is CallReason.ROW and row.call.port == port
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
                elif self._may_match(rows[left.row], rows[right.row], made):
                    yield [left, right]
                    if self._newest:
                        break

    def _may_match(self, left: TracedRow, right: TracedRow, made: TracedRow) -> bool:
        if self._matches is None:
            return True
        return self._matches(left.value(TS), right.value(TS), window_of(made))

    def _alike_before(self, number: int, row: TracedRow) -> int:
        """Return the number of rows with the same values that the row's call has emitted before it."""
        names = visible(row.batch.schema).names
        values, alike, nth = [row.value(name) for name in names], 0, row.nth
        while nth:
            number -= 1
            other = self.ledger.rows[number]
            if other.call is row.call:
                nth = other.nth
                alike += [other.value(name) for name in names] == values
        return alike
