"""Runs a program over taped input, and records every row that an operator receives or emits.

The source with the lowest event time reads next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from rheos.connectors.source_wrapper import WrappedReader
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    RowPlaces,
    Split,
    SplitReader,
)
from rheos.core.connectors.rejected_records import places_of_rejected
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.watermark import Watermark
from rheos.core.operators.contract import Operator, Out, StartedWork
from rheos.core.operators.event_times import event_times
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Batch
from rheos.core.protocol.ids import ChainId, JobId, OperatorId
from rheos.core.task.in_flight_rows import InFlight
from rheos.core.task.outputs import Outputs
from rheos.core.task.tree import RowOutputs, Work
from rheos.ops.forks.tape import Beginning, Tape, TapedRun, TapedSource, UntimedTree
from rheos.ops.lineage.ledger import CallReason, FunctionCall, Ledger, SplitPlace, TracedCall
from rheos.ops.lineage.operator_rules import TracedOperator, watched
from rheos.runtimes.host.awaited_calls import wait_for

# --- the operators of a chain, with a record of each row that they receive or emit --------------------


Details = Callable[[Out], Sequence[SplitPlace | FunctionCall | None]]
"""Function that returns details of each row that an operator emits, in addition to its call."""


def nothing_known(out: Out) -> Sequence[None]:
    return [None] * out.batch.num_rows


class TracedTree(UntimedTree):
    def __init__(
        self,
        chain: Chain,
        make: Callable[[PlannedOperator], Operator],
        outputs: RowOutputs[None],
        wait_for: Callable[[StartedWork], None],
        ledger: Ledger,
        first_place: int,
        one_by_one: Sequence[bool],
        details: Sequence[Details],
    ) -> None:
        """Make the tree. `one_by_one`: whether each operator receives rows one by one, as a batch would
        hide the origin of its rows. `details` returns what is known of the rows that each emits."""
        super().__init__(chain, make, outputs, wait_for=wait_for)
        self._ledger = ledger
        self._first_place = first_place
        self._one_by_one = one_by_one
        self._details = details
        self._calls = [TracedCall(CallReason.END)] * len(chain.operators)
        self._given = [0] * len(chain.operators)
        """Number of rows that each operator has emitted in its call."""
        self._reached_ms = [MIN_TIMESTAMP_MS] * len(chain.operators)

    def batch(self, port: int, batch: Batch) -> Work[None]:
        self._ledger.arrives_as(batch)
        return super().batch(port, batch)

    def _push(self, index: int, port: int, batch: Batch) -> Work[None]:
        first = self._ledger.first(batch)
        if not self._one_by_one[index]:
            self._begin(index, TracedCall(CallReason.ROW, port, first))
            yield from super()._push(index, port, batch)
            return
        place, counters = self._first_place + index, self._operators[index].ctx.counters
        for at in range(batch.num_rows):
            self._ledger.came(place, port, first + at, self._reached_ms[index])
            self._begin(index, TracedCall(CallReason.ROW, port, first + at))
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
        self._begin(0, TracedCall(CallReason.READ))
        return super().polled(outs)

    def call_of(self, index: int) -> TracedCall:
        """Return the current call of an operator."""
        return self._calls[index]

    def in_flight(self, rows: InFlight) -> Work[None]:
        self._begin(self._ids.index(rows.operator), TracedCall(CallReason.RESTORED, rows.port))
        return super().in_flight(rows)

    def _rise(self, index: int, timestamp_ms: int) -> Work[None]:
        self._begin(index, TracedCall(CallReason.WATERMARK, at_ms=timestamp_ms))
        self._reached_ms[index] = timestamp_ms
        return super()._rise(index, timestamp_ms)

    def end(self) -> Work[None]:
        for index in range(len(self._operators)):
            self._begin(index, TracedCall(CallReason.END))
        return super().end()


# --- the run ------------------------------------------------------------------------------------------


_ROWS_AT_ONCE = 16
"""Maximum number of rows in one poll of a source: so the sources stay close in event time."""


class TracedRun(TapedRun):
    """One run. When `run` has returned, the ledger holds all of it."""

    def __init__(
        self,
        job: JobId,
        plan: PhysicalPlan,
        tapes: Mapping[OperatorId, Tape],
        beginning: Beginning,
    ) -> None:
        """Make the operators. Raise the RheosError of an operator that cannot be made."""
        self.ledger = Ledger()
        self.operators: dict[OperatorId, int] = {}
        """Place of each operator in the ledger."""
        self.watched: list[TracedOperator] = []
        """Operators by their place."""
        self._tapes = tapes
        self._trees: dict[ChainId, TracedTree] = {}
        self._reads: dict[ChainId, _Read] = {}
        self._times_ms: dict[ChainId, int | None] = {}
        """Event time of each source that the ledger has; None while it is idle."""
        super().__init__(job, plan, beginning, _ROWS_AT_ONCE)

    @property
    def clock_ms(self) -> int:
        """Wall-clock time that functions see at the end of the run."""
        return self._clock.now_ms()

    def run(self) -> None:
        """Read all tapes to their ends; the source with the lowest event time reads next. Raise the
        RheosError of what fails."""
        self.open()
        self.ledger.passed_on()
        reading = sorted(self._reads)
        while reading:
            source = min(reading, key=lambda each: self._trees[each].times[0].watermark_ms)
            if not self.read(source):
                reading.remove(source)

    def read(self, source: ChainId) -> bool:
        self._let_splits_fall_idle(self._trees[source].chain)
        self._reads[source].has_ended = False
        more = super().read(source)
        self.ledger.passed_on()
        self._note_time(source)
        return more

    def _note_time(self, source: ChainId) -> None:
        time = self._trees[source].times[0]
        reached_ms = None if time.idle else time.watermark_ms
        if self._driver.sources[source].ended:
            reached_ms = MAX_TIMESTAMP_MS
        if self._times_ms.get(source, MIN_TIMESTAMP_MS) != reached_ms:
            self._times_ms[source] = reached_ms
            self.ledger.reached(self.operators[self._trees[source].chain.operators[0].id], reached_ms)

    def _delivers(self, batch: Batch) -> None:
        self.ledger.delivers(batch)

    # --- making -----------------------------------------------------------------------------------

    def _make_tree(self, chain: Chain, outputs: Outputs) -> TracedTree:
        first = len(self.watched)
        details: list[Details] = []
        for planned in chain.operators:
            self.operators[planned.id] = place = len(self.watched)
            made = watched(planned, place, self.ledger, restored=planned.id in self._restored)
            note: Details = nothing_known if made.trace is None else made.trace.details
            if isinstance(made.spec, SourceSpec):
                read = self._reads[chain.id] = _Read(made.spec.watermark)
                source = _NotedSource(made.spec.source, self._tapes[planned.id], read)
                until_now = not source.bounded
                made = replace(made, spec=replace(made.spec, source=source, until_now=until_now))
                note = read.details
            self.watched.append(made)
            details.append(note)
        tree = TracedTree(
            chain,
            self._make_operator,
            outputs,
            wait_for,
            self.ledger,
            first,
            [made.rule.one_by_one for made in self.watched[first:]],
            details,
        )
        self._trees[chain.id] = tree
        for index, made in enumerate(self.watched[first:]):
            if made.trace is not None:
                made.trace.call_of = partial(tree.call_of, index)
        return tree

    def _make_operator(self, planned: PlannedOperator) -> Operator:
        spec = self.watched[self.operators[planned.id]].spec
        if isinstance(spec, SinkSpec):
            return _Sink(self._contexts.of(planned))
        return super()._make_operator(replace(planned, spec=spec))

    def _let_splits_fall_idle(self, chain: Chain) -> None:
        """Let splits become idle once their tapes are read, if the program allows that."""
        spec = chain.operators[0].spec
        assert isinstance(spec, SourceSpec)
        if spec.watermark is not None and spec.watermark.idle_after_ms is not None:
            self._clock.advance(spec.watermark.idle_after_ms * 1000)


class _Sink(Operator):
    """An operator that replaces a sink, and does nothing: the tree records the rows."""

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        return iter(())


# --- positions of a source's rows ---------------------------------------------------------------------


class _Read:
    """Rows that the readers of a source have returned and the operator has not emitted yet, in their
    order; and the splits at their ends."""

    def __init__(self, watermark: Watermark | None) -> None:
        self._watermark = watermark
        self.rows: deque[tuple[str, RowPlaces | None]] = deque()
        """The split of each batch, and the positions of its rows."""
        self.rejected: deque[tuple[str, RowPlaces]] = deque()
        self._reached_ms: dict[str, int] = {}
        self._at_end: dict[str, int] = {}
        """Event time that each split at its end has reached."""
        self.has_ended = False
        """Whether a split has ended since the operator was last polled."""

    def details(self, out: Out) -> list[SplitPlace]:
        split, places = (self.rows if out.tag == MAIN else self.rejected).popleft()
        if places is None:
            return [SplitPlace(split, None, None)] * out.batch.num_rows
        return [SplitPlace(split, places.unit, at) for at in places.of_rows]

    def given(self, split: str, batch: Batch, places: RowPlaces | None, *, first: bool) -> None:
        self.rows.append((split, places))
        if self._watermark is not None and self._watermark.on is not None:
            times = event_times(batch, self._watermark, first=first)
            before = self._reached_ms.get(split, MIN_TIMESTAMP_MS)
            self._reached_ms[split] = max(before, int(times.max()))

    def may_end(self, split: str) -> bool:
        """Return whether a split whose tape is read may end. Splits end one at a time, the slowest
        first, because the job has read them one after the other, and the last one holds event time
        back. The reader asks again until it may end."""
        is_known = split in self._at_end
        self._at_end.setdefault(split, self._reached_ms.get(split, MIN_TIMESTAMP_MS))
        is_behind = split == min(self._at_end, key=self._at_end.__getitem__)
        if self.has_ended or not is_known or not is_behind:
            return False
        del self._at_end[split]
        self.has_ended = True
        return True


@dataclass(frozen=True, eq=False)
class _NotedSource(TapedSource):
    read: _Read

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        def reject(batch: Batch) -> None:
            self.read.rejected.append((split.id, places_of_rejected(batch)))
            ctx.reject(batch)

        reader = super().open(split, position, replace(ctx, reject=reject))
        return _NotedReader(reader, split, self.read)


class _NotedReader(WrappedReader):
    def __init__(self, reader: SplitReader, split: Split, read: _Read) -> None:
        super().__init__(reader)
        self._split = split.id
        self._read = read
        self._first = True
        """Whether nothing was emitted yet."""
        self._waits = False
        """Whether the split waits to end until others have."""

    def has_caught_up(self) -> bool:
        return not self._waits and super().has_caught_up()

    def poll(self, max_rows: int) -> Polled:
        polled = self._reader.poll(max_rows)
        if isinstance(polled, EndOfSplit):
            self._waits = not self._read.may_end(self._split)
            return Pending(0) if self._waits else polled
        if isinstance(polled, pa.RecordBatch) and polled.num_rows:
            self._read.given(self._split, polled, capabilities.places(self._reader), first=self._first)
            self._first = False
        return polled
