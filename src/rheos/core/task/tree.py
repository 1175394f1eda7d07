"""The operators of one subtask of a chain; each passes rows directly to the next.

Each entry method returns a generator that passes rows or a mark through all operators to the outputs.
It yields what the outputs yield. The caller must run it to its end before it starts the next one (EX9).
In the continuous runtime, an output yields when it has no room, and the caller waits for that; in the
batch runtime, it yields rows for Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar, assert_never

from rheos.core.connectors.contract import Pending
from rheos.core.errors import RheosError, unexpected
from rheos.core.operators.contract import (
    AsyncOperator,
    CommittingOperator,
    HoldingOperator,
    Operator,
    Out,
    Restored,
    StartedWork,
)
from rheos.core.operators.event_time import EventTimeOperator
from rheos.core.operators.runtime_context import read_gauge
from rheos.core.operators.source import EndOfInput, SourceOperator
from rheos.core.plan.physical import Chain, PlannedOperator, ToEdge, ToOperator
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.control import Totals
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Batch
from rheos.core.protocol.ids import CheckpointId, OperatorId
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart
from rheos.core.task.closing import close_each
from rheos.core.task.in_flight_rows import InFlight

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


Work = Generator[T, None, None]


class RowOutputs(Protocol[T_co]):
    """Receives the rows that leave the chain's last operators."""

    def rows(self, edge: int, batch: Batch) -> Iterable[T_co]:
        """Write rows to an edge. They are written once the iterator has been run to its end."""
        ...


@dataclass(frozen=True, slots=True)
class CheckpointShares:
    """The operators' shares of a checkpoint."""

    snapshots: list[tuple[OperatorId, Snapshot]]
    savepoint: list[tuple[OperatorId, list[SnapshotPart]]]
    """Whole state, if the checkpoint is a savepoint."""


@dataclass(frozen=True, slots=True)
class OperatorCounts:
    """Counts of an operator since the attempt began."""

    operator: OperatorId
    records_in: int
    records_out: int
    counters: Mapping[str, int]
    accumulated: Mapping[str, Accumulated]


@dataclass(slots=True)
class TimeOfSource:
    """An operator that generates watermarks in a source's chain, and the operators that use them: those
    after it, up to the next one that assigns a new event time."""

    of: SourceOperator | EventTimeOperator
    operators: list[int]
    edges: list[int]
    watermark_ms: int = MIN_TIMESTAMP_MS
    """Last watermark that these operators received."""
    idle: bool = False

    @property
    def has_news(self) -> bool:
        return self.of.idle() != self.idle or self.of.watermark() > self.watermark_ms


class OperatorTree(Generic[T]):
    """The operators of one chain. The host creates and drives the tree; it is a `ChainRunner`, or a
    task of the batch runtime.

    `make` returns a planned operator, not open yet. The tree calls it for each operator, the head
    first. If one cannot be created, the constructor raises RheosError with the operator's place.
    """

    def __init__(
        self,
        chain: Chain,
        make: Callable[[PlannedOperator], Operator],
        outputs: RowOutputs[T],
        *,
        wait_for: Callable[[StartedWork], None] | None = None,
    ) -> None:
        """Create the operators. `wait_for` waits for the calls of an asynchronous operator, if the host
        may wait. Such an operator may then be anywhere in the chain. Otherwise it is the head, and the
        host uses `begin` and `finish`."""
        self.chain = chain
        self._outputs = outputs
        self._wait_for = wait_for
        self._at = 0
        """Operator that was called last; errors name it."""
        self._operators: list[Operator] = []
        for index, planned in enumerate(chain.operators):
            self._at = index
            try:
                self._operators.append(make(planned))
            except Exception as error:
                raise self.located(error) from error
        self._ids = [planned.id for planned in chain.operators]
        self._routes = [planned.routes for planned in chain.operators]
        self._timed = [
            i
            for i, operator in enumerate(self._operators)
            if type(operator).next_processing_time_ms is not Operator.next_processing_time_ms
        ]
        self._records_in = [0] * len(self._operators)
        self._records_out = [0] * len(self._operators)
        head = self._operators[0]
        self.source = head if isinstance(head, SourceOperator) else None
        self.times = [] if self.source is None else self._times_of(self.source)

    def _times_of(self, source: SourceOperator) -> list[TimeOfSource]:
        """Return the source's own event time, and each event time that is assigned after it, in the
        order of the chain."""
        times = {0: TimeOfSource(source, [0], [])}
        of_operator = {0: times[0]}
        for index, routes in enumerate(self._routes):
            for route in (route for of_tag in routes.values() for route in of_tag):
                match route:
                    case ToOperator(behind):
                        of_operator[behind] = of_operator[index]
                        operator = self._operators[behind]
                        if isinstance(operator, EventTimeOperator):
                            operator.follow(source)
                            of_operator[behind] = times[behind] = TimeOfSource(operator, [], [])
                        of_operator[behind].operators.append(behind)
                    case ToEdge(edge):
                        of_operator[index].edges.append(edge)
                    case _:
                        assert_never(route)
        return list(times.values())

    @property
    def at(self) -> OperatorId:
        """Return the operator that was called last."""
        return self._ids[self._at]

    @property
    def operators(self) -> Mapping[OperatorId, Operator]:
        return dict(zip(self._ids, self._operators, strict=True))

    def open(self, restored: Mapping[OperatorId, Restored]) -> None:
        """Open every operator, with its restored state if there is any. Called once, first. Raise
        RheosError with the operator's place."""
        for index, id in enumerate(self._ids):
            self._at = index
            try:
                self._operators[index].open(restored.get(id, {}))
            except Exception as error:
                raise self.located(error) from error

    # --- rows -------------------------------------------------------------------------------------

    def batch(self, port: int, batch: Batch) -> Work[T]:
        """Process rows for an input of the first operator."""
        return self._push(0, port, batch)

    @property
    def works_ahead(self) -> bool:
        """Return whether the head's rows go through `begin` and `finish` instead of `batch`: the head
        is asynchronous, and the host may not wait."""
        return self._wait_for is None and isinstance(self._operators[0], AsyncOperator)

    @property
    def holder(self) -> HoldingOperator | None:
        """Return the head, if its rows wait in its state for answers."""
        head = self._operators[0]
        return head if isinstance(head, HoldingOperator) else None

    def begin(self, port: int, batch: Batch) -> StartedWork:
        """Start the head's work on rows for one of its inputs, before their turn."""
        head = self._operators[0]
        assert isinstance(head, AsyncOperator)
        self._at = 0
        return head.begin(port, batch)

    def is_ready(self, begun: StartedWork) -> bool:
        """Return whether `finish` may be called."""
        self._at = 0
        return begun.ready()

    def finish(self, begun: StartedWork, batch: Batch) -> Work[T]:
        """Return the work on rows whose calls have completed, when their turn has come."""
        self._at = 0
        self._records_in[0] += batch.num_rows
        return self._emit(0, begun.finish(batch))

    def poll(self, max_rows: int) -> list[Out] | Pending | EndOfInput:
        """Poll the source. The host passes the result to `polled`."""
        assert self.source is not None
        self._at = 0
        return self.source.poll(max_rows)

    def polled(self, outs: Iterable[Out]) -> Work[T]:
        """Return the work on rows that the source has read."""
        return self._emit(0, outs)

    def in_flight(self, rows: InFlight) -> Work[T]:
        """Process rows that were in flight to one of the operators when a checkpoint was taken."""
        index = self._ids.index(rows.operator)
        operator = self._operators[index]
        for batch in rows.batches:
            self._at = index
            self._records_in[index] += batch.num_rows
            if self._wait_for is not None and isinstance(operator, AsyncOperator):
                yield from self._emit(index, _awaited(operator, rows.port, batch, self._wait_for))
            else:
                yield from self._emit(index, operator.on_in_flight(rows.port, batch))

    def _push(self, index: int, port: int, batch: Batch) -> Work[T]:
        self._at = index
        self._records_in[index] += batch.num_rows
        operator = self._operators[index]
        if self._wait_for is not None and isinstance(operator, AsyncOperator):
            return self._emit(index, _awaited(operator, port, batch, self._wait_for))
        time = operator.ctx.own_time
        if time is None:
            return self._emit(index, operator.on_batch(port, batch))
        return self._emit(index, time.measure(lambda: operator.on_batch(port, batch)))

    def _emit(self, index: int, outs: Iterable[Out]) -> Work[T]:
        """Pass the operator's rows to the operators after it."""
        for out in outs:
            rows = out.batch.num_rows
            if not rows:
                continue
            self._records_out[index] += rows
            for route in self._routes[index].get(out.tag, ()):
                match route:
                    case ToOperator(behind):
                        yield from self._push(behind, 0, out.batch)
                    case ToEdge(edge):
                        yield from self._outputs.rows(edge, out.batch)
                    case _:
                        assert_never(route)
            self._at = index

    # --- time and the end -------------------------------------------------------------------------

    def watermark(self, timestamp_ms: int) -> Work[T]:
        """Advance the watermark of all operators, the head first."""
        yield from self._rise(0, timestamp_ms)
        yield from self.watermark_behind_head(self.delayed(timestamp_ms))

    def delayed(self, timestamp_ms: int) -> int:
        """Return the watermark that the head's output has when its input has a given one."""
        if timestamp_ms == MAX_TIMESTAMP_MS:
            return timestamp_ms
        return max(timestamp_ms - self._operators[0].watermark_delay_ms, MIN_TIMESTAMP_MS)

    def watermark_of(self, operators: Iterable[int], timestamp_ms: int) -> Work[T]:
        """Advance the watermark of some operators."""
        for index in operators:
            yield from self._rise(index, timestamp_ms)

    def watermark_of_head(self, timestamp_ms: int) -> Work[T]:
        """Advance the watermark of the head alone: its keys have ended, and others follow."""
        return self._rise(0, timestamp_ms)

    def watermark_behind_head(self, timestamp_ms: int) -> Work[T]:
        """Advance the watermark of all operators except the head, whose keys have ended."""
        for index in range(1, len(self._operators)):
            yield from self._rise(index, timestamp_ms)

    def _rise(self, index: int, timestamp_ms: int) -> Work[T]:
        self._at = index
        operator = self._operators[index]
        time = operator.ctx.own_time
        if time is None:
            return self._emit(index, operator.on_watermark(timestamp_ms))
        return self._emit(index, time.measure(lambda: operator.on_watermark(timestamp_ms)))

    def next_keys(self) -> None:
        """Let the head forget its keys, all of which have ended."""
        self._at = 0
        self._operators[0].next_keys()

    def processing_time(self, now_ms: int) -> Work[T]:
        for index in self._timed:
            self._at = index
            yield from self._emit(index, self._operators[index].on_processing_time(now_ms))

    def next_timer_ms(self) -> int | None:
        """Return when the next processing-time timer is due."""
        if not self._timed:
            return None
        times = (self._operators[index].next_processing_time_ms() for index in self._timed)
        return min((time for time in times if time is not None), default=None)

    def end(self) -> Work[T]:
        """End the input: no row will arrive any more."""
        for index, operator in enumerate(self._operators):
            self._at = index
            yield from self._emit(index, operator.on_end())

    # --- all operators ----------------------------------------------------------------------------

    def snapshot(self, checkpoint: CheckpointId, *, savepoint: bool) -> CheckpointShares:
        """Take the snapshots: a checkpoint's synchronous part; for a savepoint, also the whole
        state."""
        shares = CheckpointShares([], [])
        for index, operator in enumerate(self._operators):
            self._at = index
            snapshot = operator.snapshot(checkpoint)
            shares.snapshots.append((self._ids[index], snapshot))
            if savepoint:
                shares.savepoint.append((self._ids[index], operator.savepoint(snapshot)))
        return shares

    def committables(self, checkpoint: CheckpointId) -> Iterator[tuple[OperatorId, bytes]]:
        """Return only what operators with a second phase have staged, without their snapshots."""
        for index, operator in enumerate(self._operators):
            if isinstance(operator, CommittingOperator):
                self._at = index
                for committable in operator.snapshot(checkpoint).committables:
                    yield self._ids[index], committable

    def counted(self) -> Iterator[OperatorCounts]:
        """Yield the counts by operator, the head first."""
        for index, operator in enumerate(self._operators):
            yield OperatorCounts(
                self._ids[index],
                self._records_in[index],
                self._records_out[index],
                # A function's calls in an event loop may count at the same time.
                operator.ctx.counters.copy(),
                {name: adds.value for name, adds in operator.ctx.accumulators.copy().items()},
            )

    def totals(self) -> Totals:
        """Return the counts of the operators since the attempt began."""
        counted = list(self.counted())
        return Totals(
            {of.operator: of.records_in for of in counted},
            {of.operator: of.records_out for of in counted},
            {f"{of.operator}/{name}": n for of in counted for name, n in of.counters.items()},
            {f"{of.operator}/{name}": n for of in counted for name, n in of.accumulated.items()},
        )

    def gauges(self) -> dict[str, float]:
        """Return the current gauges of the operators' functions, by "operator id/name"."""
        shown: dict[str, float] = {}
        for index, operator in enumerate(self._operators):
            self._at = index
            for name, read in operator.ctx.gauges.copy().items():
                shown[f"{self._ids[index]}/{name}"] = read_gauge(operator.ctx, name, read)
        return shown

    def show(self, name: str, value: Callable[[], float]) -> None:
        """Show a gauge of the head, whose value the host provides."""
        self._operators[0].ctx.gauges[name] = value

    def count(self, name: str, value: int) -> None:
        """Set a counter of the head; the host provides its value."""
        self._operators[0].ctx.counters[name] = value

    def located(self, error: Exception) -> RheosError:
        """Return the error with the place of the operator that was called last. An unexpected exception
        is a defect of Rheos or of a connector, because operators convert the exceptions of users' code.
        """
        at = self.chain.operators[self._at]
        known = error if isinstance(error, RheosError) else unexpected(error)
        return known.located(site=at.site, operator=at.name)

    def close_functions(self) -> None:
        """Close the functions after the input has ended and everything is emitted. Raise the RheosError
        of a function that fails, with the operator's place. Gauges keep their last value."""
        try:
            shown = self.gauges()
            for index, operator in enumerate(self._operators):
                self._at = index
                for name in operator.ctx.gauges:
                    operator.ctx.gauges[name] = partial(float, shown[f"{self._ids[index]}/{name}"])
                operator.close_function()
        except Exception as error:
            raise self.located(error) from error

    def close(self) -> None:
        """Close every operator, even if others fail."""
        close_each(operator.close for operator in self._operators)


def _awaited(
    operator: AsyncOperator, port: int, batch: Batch, wait_for: Callable[[StartedWork], None]
) -> Iterator[Out]:
    """Return the output of an asynchronous operator for a batch, after its calls have completed."""
    begun = operator.begin(port, batch)
    wait_for(begun)
    return begun.finish(batch)
