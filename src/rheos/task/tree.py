"""The operators of one subtask of a chain, joined in place: what one gives, the next has at once.

Every way in is a generator that goes from the rows or the mark through all operators and out on the
edges. It waits (`yield`) only where an output has no room, and is to be driven to its end before the
next one is begun (EX9).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rheos.errors import InternalError, RheosError
from rheos.operators.contract import Operator, Out
from rheos.operators.source import SourceOperator
from rheos.plan.physical import Chain, ToOperator
from rheos.protocol.control import Totals
from rheos.protocol.elements import Batch
from rheos.protocol.ids import CheckpointId, OperatorId
from rheos.protocol.snapshots import Snapshot, SnapshotPart
from rheos.task.in_flight import InFlight
from rheos.task.outputs import Outputs

Work: TypeAlias = Generator[None, None, None]


@dataclass(frozen=True, slots=True)
class Shares:
    """What the operators give at a barrier."""

    snapshots: list[tuple[OperatorId, Snapshot]]
    savepoint: list[tuple[OperatorId, list[SnapshotPart]]]
    """Of a savepoint: the whole state."""


class OperatorTree:
    """`outputs` is where the rows go that no operator of the chain takes."""

    def __init__(self, chain: Chain, operators: Sequence[Operator], outputs: Outputs) -> None:
        self.chain = chain
        self._operators = operators
        self._outputs = outputs
        self._ids = [planned.id for planned in chain.operators]
        self._routes = [planned.routes for planned in chain.operators]
        self._timed = [
            i
            for i, operator in enumerate(operators)
            if type(operator).next_processing_time_ms is not Operator.next_processing_time_ms
        ]
        self._at = 0
        """The operator that has been called last: it is named in errors."""
        self._records_in = [0] * len(operators)
        self._records_out = [0] * len(operators)
        head = operators[0]
        self.source = head if isinstance(head, SourceOperator) else None

    # --- rows -------------------------------------------------------------------------------------

    def batch(self, port: int, batch: Batch) -> Work:
        """Rows for an input of the first operator."""
        return self._push(0, port, batch)

    def polled(self, outs: Iterable[Out]) -> Work:
        """What the source has read."""
        return self._emit(0, outs)

    def in_flight(self, rows: InFlight) -> Work:
        """Rows that were on their way to one of the operators when a checkpoint was taken."""
        index = self._ids.index(rows.operator)
        for batch in rows.batches:
            self._at = index
            self._records_in[index] += batch.num_rows
            yield from self._emit(index, self._operators[index].on_in_flight(rows.port, batch))

    def _push(self, index: int, port: int, batch: Batch) -> Work:
        self._at = index
        self._records_in[index] += batch.num_rows
        return self._emit(index, self._operators[index].on_batch(port, batch))

    def _emit(self, index: int, outs: Iterable[Out]) -> Work:
        """What the operator gives goes to those behind it."""
        for out in outs:
            self._records_out[index] += out.batch.num_rows
            for route in self._routes[index].get(out.tag, ()):
                if isinstance(route, ToOperator):
                    yield from self._push(route.index, 0, out.batch)
                else:
                    edge = self._outputs.edges[route.edge]
                    while not edge.writable:
                        yield
                    edge.write(out.batch)
            self._at = index

    # --- time and the end -------------------------------------------------------------------------

    def watermark(self, timestamp_ms: int) -> Work:
        for index, operator in enumerate(self._operators):
            self._at = index
            yield from self._emit(index, operator.on_watermark(timestamp_ms))

    def processing_time(self, now_ms: int) -> Work:
        for index in self._timed:
            self._at = index
            yield from self._emit(index, self._operators[index].on_processing_time(now_ms))

    def next_timer_ms(self) -> int | None:
        """When the next timer of processing time is due."""
        if not self._timed:
            return None
        times = (self._operators[index].next_processing_time_ms() for index in self._timed)
        return min((time for time in times if time is not None), default=None)

    def end(self) -> Work:
        """No row will come any more."""
        for index, operator in enumerate(self._operators):
            self._at = index
            yield from self._emit(index, operator.on_end())

    # --- what is asked of all ---------------------------------------------------------------------

    def snapshot(self, checkpoint: CheckpointId, *, savepoint: bool) -> Shares:
        """The synchronous part of a checkpoint; with what a savepoint holds, where it is one."""
        shares = Shares([], [])
        for index, operator in enumerate(self._operators):
            self._at = index
            snapshot = operator.snapshot(checkpoint)
            shares.snapshots.append((self._ids[index], snapshot))
            if savepoint:
                shares.savepoint.append((self._ids[index], operator.savepoint(snapshot)))
        return shares

    def totals(self) -> Totals:
        """What the operators have counted since the attempt began."""
        return Totals(
            dict(zip(self._ids, self._records_in, strict=True)),
            dict(zip(self._ids, self._records_out, strict=True)),
            {
                f"{id}/{name}": count
                for id, operator in zip(self._ids, self._operators, strict=True)
                for name, count in operator.ctx.counters.items()
            },
        )

    def located(self, error: Exception) -> RheosError:
        """The error, with the operator that was called last."""
        at = self.chain.operators[self._at]
        known = error if isinstance(error, RheosError) else InternalError.of(error)
        return known.located(site=at.site, operator=at.name)

    def close(self) -> None:
        """Closes every operator, whatever the others do."""
        failure: Exception | None = None
        for operator in self._operators:
            try:
                operator.close()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
