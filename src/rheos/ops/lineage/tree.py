"""The operators of a chain, watched: every row that goes in or comes out is noted in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from rheos.core.operators.contract import Begun, Operator, Out
from rheos.core.plan.physical import Chain, PlannedOperator
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, Batch
from rheos.core.task.in_flight import InFlight
from rheos.core.task.tree import RowOutputs, Work
from rheos.ops.forks.taped_run import UntimedTree
from rheos.ops.lineage.ledger import Called, FunctionCall, Ledger, SplitPlace, TracedCall

Details = Callable[[Out], Sequence[SplitPlace | FunctionCall | None]]
"""Details of each row that an operator emits, in addition to its call."""


def nothing_known(out: Out) -> Sequence[None]:
    return [None] * out.batch.num_rows


class TracedTree(UntimedTree):
    def __init__(
        self,
        chain: Chain,
        make: Callable[[PlannedOperator], Operator],
        outputs: RowOutputs[None],
        wait_for: Callable[[Begun], None],
        ledger: Ledger,
        first_place: int,
        one_by_one: Sequence[bool],
        details: Sequence[Details],
    ) -> None:
        """By operator: whether it is given each row by itself, as which of several a row was made of
        does not show; and what is known of what it gives."""
        super().__init__(chain, make, outputs, wait_for=wait_for)
        self._ledger = ledger
        self._first_place = first_place
        self._one_by_one = one_by_one
        self._details = details
        self._calls = [TracedCall(Called.END)] * len(chain.operators)
        self._given = [0] * len(chain.operators)
        """Number of rows that each operator has emitted in its call."""
        self._reached_ms = [MIN_TIMESTAMP_MS] * len(chain.operators)

    def batch(self, port: int, batch: Batch) -> Work[None]:
        self._ledger.arrives_as(batch)
        return super().batch(port, batch)

    def _push(self, index: int, port: int, batch: Batch) -> Work[None]:
        first = self._ledger.first(batch)
        if not self._one_by_one[index]:
            self._begin(index, TracedCall(Called.ROW, port, first))
            yield from super()._push(index, port, batch)
            return
        place, counters = self._first_place + index, self._operators[index].ctx.counters
        for at in range(batch.num_rows):
            self._ledger.came(place, port, first + at, self._reached_ms[index])
            self._begin(index, TracedCall(Called.ROW, port, first + at))
            late = counters.get("late", 0)
            yield from super()._push(index, port, batch.slice(at, 1))
            if counters.get("late", 0) != late:
                self._ledger.late.add((place, first + at))

    def _begin(self, index: int, call: TracedCall) -> None:
        self._calls[index] = call
        self._given[index] = 0

    def _emit(self, index: int, outs: Iterable[Out]) -> Work[None]:
        return super()._emit(index, self._noted(index, outs))

    def _noted(self, index: int, outs: Iterable[Out]) -> Iterator[Out]:
        for out in outs:
            if out.batch.num_rows:
                self._ledger.gave(
                    self._first_place + index,
                    out.tag,
                    out.batch,
                    self._calls[index],
                    self._given[index],
                    self._details[index](out),
                )
                self._given[index] += out.batch.num_rows
            yield out

    def polled(self, outs: Iterable[Out]) -> Work[None]:
        self._begin(0, TracedCall(Called.READ))
        return super().polled(outs)

    def call_of(self, index: int) -> TracedCall:
        """Return the call that an operator is in."""
        return self._calls[index]

    def in_flight(self, rows: InFlight) -> Work[None]:
        self._begin(self._ids.index(rows.operator), TracedCall(Called.RESTORED, rows.port))
        return super().in_flight(rows)

    def _rise(self, index: int, timestamp_ms: int) -> Work[None]:
        self._begin(index, TracedCall(Called.WATERMARK, at_ms=timestamp_ms))
        self._reached_ms[index] = timestamp_ms
        return super()._rise(index, timestamp_ms)

    def end(self) -> Work[None]:
        for index in range(len(self._operators)):
            self._begin(index, TracedCall(Called.END))
        return super().end()
