"""Runs a program once more over taped input, in this thread and one subtask, all operators watched.

It begins with the state of a checkpoint, or with none. What is read goes through all operators before
more is, from the source that is furthest behind in event time, and the watermark rises behind it. What
only the clock would bring, such as timers of processing time, does not come.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from rheos.connectors.wrapped import WrappedReader
from rheos.core.checkpoint.restored_state import RestoredByOperator
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    RowPlaces,
    Split,
    SplitReader,
)
from rheos.core.connectors.rejected import places_of_rejected
from rheos.core.graph.nodes import MAIN, SinkSpec, SourceSpec
from rheos.core.graph.windows import Watermark
from rheos.core.operators.build import build
from rheos.core.operators.contract import Begun, Operator, Out
from rheos.core.operators.event_times import event_times
from rheos.core.operators.source import EndOfInput
from rheos.core.plan.physical import Chain, Edge, PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, SWM, Batch
from rheos.core.protocol.ids import Attempt, ChainId, JobId, OperatorId
from rheos.core.protocol.snapshots import IN_FLIGHT_INPUT, IN_FLIGHT_OUTPUT
from rheos.core.protocol.state_config import StateConfig
from rheos.core.task.contexts import OperatorContexts
from rheos.core.task.in_flight import InFlight, restored_batches, without_in_flight
from rheos.core.task.watermarks import Activity, WatermarkMerger
from rheos.ops.forks.tape import Tape, TapedSource
from rheos.ops.lineage.ledger import Ledger, SplitPlace
from rheos.ops.lineage.tree import Details, TracedTree, nothing_known
from rheos.ops.lineage.watched import WatchedOperator, watched
from rheos.runtimes.host.io import ThreadedIo
from rheos.runtimes.simulated.clock import SimClock

_ROWS = 1024
"""What operators give in one batch."""
_ROWS_AT_ONCE = 16
"""What a source is asked for at a time: so sources keep abreast of each other."""
_THREADS = 4
_MOST_WAIT_US = 1000


class TracedRun:
    """A run, from its making to `run`; then the ledger has all of it. To be closed."""

    def __init__(
        self,
        job: JobId,
        plan: PhysicalPlan,
        tapes: Mapping[OperatorId, Tape],
        restored: RestoredByOperator,
        state: StateConfig,
        folder: str,
    ) -> None:
        """`folder` is an empty one, for state on disk. Raises the RheosError of what cannot be made or
        opened."""
        self.ledger = Ledger()
        self.operators: dict[OperatorId, int] = {}
        """Their places in the ledger."""
        self.watched: list[WatchedOperator] = []
        """By place."""
        self._job = job
        self._plan = plan
        self._restored = restored
        self._state = state
        self._folder = folder
        self._clock = SimClock()
        self._io = ThreadedIo(_THREADS, lambda: None)
        self._edges = {edge.id: edge for edge in plan.edges}
        self._queue: deque[tuple[int, Batch]] = deque()
        self._gates = {chain.id: _Gate(chain, self._edges) for chain in plan.chains}
        self._behind: dict[ChainId, list[Edge]] = {chain.id: [] for chain in plan.chains}
        for edge in plan.edges:
            if not edge.feedback:
                self._behind[edge.source].append(edge)
        self._trees: dict[ChainId, TracedTree] = {}
        self._reads: dict[ChainId, _Read] = {}
        try:
            for chain in plan.chains:
                self._make(chain, tapes)
        except BaseException:
            self.close()
            raise

    def run(self) -> None:
        """Reads all there is. Raises the RheosError of what fails."""
        for chain in self._plan.chains:
            for planned in reversed(chain.operators):
                for rows in self._in_flight(planned):
                    self._drive(self._trees[chain.id], self._trees[chain.id].in_flight(rows))
        reads = {id: tree for id, tree in self._trees.items() if tree.source is not None}
        while reads:
            id = min(reads, key=lambda each: reads[each].times[0].watermark_ms)
            if not self._read(id, reads[id]):
                del reads[id]

    def close(self) -> None:
        for tree in self._trees.values():
            tree.close()
        self._io.close()

    # --- making -----------------------------------------------------------------------------------

    def _make(self, chain: Chain, tapes: Mapping[OperatorId, Tape]) -> None:
        first = len(self.watched)
        details: list[Details] = []
        for planned in chain.operators:
            self.operators[planned.id] = place = len(self.watched)
            made = watched(planned, place, self.ledger, restored=planned.id in self._restored)
            note: Details = nothing_known if made.trace is None else made.trace.details
            if isinstance(made.spec, SourceSpec):
                read = self._reads[chain.id] = _Read(made.spec.watermark)
                source = _NotedSource(made.spec.source, tapes[planned.id], read)
                until_now = not source.bounded
                made = replace(made, spec=replace(made.spec, source=source, until_now=until_now))
                note = read.details
            self.watched.append(made)
            details.append(note)
        tree = TracedTree(
            chain,
            self._operator,
            _Sent(self._queue),
            _wait_for,
            self.ledger,
            first,
            [made.rule.one_by_one for made in self.watched[first:]],
            details,
        )
        self._trees[chain.id] = tree
        for index, made in enumerate(self.watched[first:]):
            if made.trace is not None:
                made.trace.call_of = partial(tree.call_of, index)
        ids = [planned.id for planned in chain.operators]
        tree.open({id: without_in_flight(self._restored[id]) for id in ids if id in self._restored})

    def _operator(self, planned: PlannedOperator) -> Operator:
        spec = self.watched[self.operators[planned.id]].spec
        contexts = OperatorContexts(
            job=self._job,
            attempt=Attempt(1),
            max_parallelism=self._plan.max_parallelism,
            clock=self._clock,
            io=self._io,
            batch_rows=_ROWS,
            state=self._state,
            scratch=self._folder,
            program=self._plan.context,
        )
        ctx = contexts.of(planned)
        if isinstance(spec, SinkSpec):
            return _Sink(ctx)
        splits = spec.source.splits() if isinstance(spec, SourceSpec) else ()
        return build(ctx, spec, splits)

    def _in_flight(self, planned: PlannedOperator) -> Iterator[InFlight]:
        restored = self._restored.get(planned.id, {})
        for prefix in (IN_FLIGHT_INPUT, IN_FLIGHT_OUTPUT):
            for port, batch in restored_batches(planned, restored, prefix, _ROWS):
                yield InFlight.to(planned, port, [batch], sent=prefix == IN_FLIGHT_INPUT)

    # --- rows -------------------------------------------------------------------------------------

    def _read(self, id: ChainId, tree: TracedTree) -> bool:
        """Reads a little; whether there is more."""
        source = tree.source
        assert source is not None
        self._let_splits_fall_idle(tree.chain)
        self._reads[id].has_ended = False
        polled = tree.poll(_ROWS_AT_ONCE)
        if isinstance(polled, EndOfInput):
            self._mark(tree)
            self._end(id)
            return False
        if not isinstance(polled, Pending):
            self._drive(tree, tree.polled(polled))
        self._mark(tree)
        return not (isinstance(polled, Pending) and source.until_now and source.has_caught_up())

    def _let_splits_fall_idle(self, chain: Chain) -> None:
        """A split whose tape is read is idle from then on, as far as the program says so."""
        spec = chain.operators[0].spec
        assert isinstance(spec, SourceSpec)
        if spec.watermark is not None and spec.watermark.idle_after_ms is not None:
            self._clock.advance(spec.watermark.idle_after_ms * 1000)

    def _drive(self, tree: TracedTree, work: Iterable[None]) -> None:
        """To its end, and then what it has sent to other chains, until nothing is left."""
        _exhaust(tree, work)
        while self._queue:
            number, batch = self._queue.popleft()
            edge = self._edges[number]
            merged = self._gates[edge.target].merged(edge, batch)
            self.ledger.follows(batch, merged)
            behind = self._trees[edge.target]
            _exhaust(behind, behind.batch(edge.target_port, merged))
        self.ledger.passed_on()

    # --- time and the end -------------------------------------------------------------------------

    def _mark(self, tree: TracedTree) -> None:
        """Says how far the times of a source have come."""
        for of in tree.times:
            if (idle := of.of.idle()) != of.idle:
                of.idle = idle
                for number in of.edges:
                    self._set_activity(self._edges[number], Activity.IDLE if idle else Activity.ACTIVE)
            if (reached_ms := of.of.watermark()) > of.watermark_ms:
                of.watermark_ms = reached_ms
                self._drive(tree, tree.watermark_of(of.operators, reached_ms))
                for number in of.edges:
                    self._advance(self._edges[number], reached_ms)

    def _advance(self, edge: Edge, watermark_ms: int) -> None:
        self._heard(edge, lambda gate, lane: gate.watermarks.advance(lane, watermark_ms))

    def _set_activity(self, edge: Edge, activity: Activity) -> None:
        self._heard(edge, lambda gate, lane: gate.watermarks.set_activity(lane, activity))

    def _heard(self, edge: Edge, take: Callable[[_Gate, int], bool]) -> None:
        """An input says something of event time; `take`: whether the chain's own has risen by it."""
        gate = self._gates[edge.target]
        if gate.of_loop:
            return
        was_idle = gate.watermarks.idle
        if take(gate, gate.lanes[edge.id]):
            self._rise(edge.target, gate.watermarks.watermark_ms)
        if gate.watermarks.idle != was_idle:
            now = Activity.IDLE if gate.watermarks.idle else Activity.ACTIVE
            for behind in self._behind[edge.target]:
                self._set_activity(behind, now)

    def _rise(self, id: ChainId, watermark_ms: int) -> None:
        tree = self._trees[id]
        self._drive(tree, tree.watermark(watermark_ms))
        for edge in self._behind[id]:
            self._advance(edge, watermark_ms)

    def _end(self, id: ChainId) -> None:
        gate, tree = self._gates[id], self._trees[id]
        if gate.lanes and gate.watermarks.watermark_ms < MAX_TIMESTAMP_MS:
            self._rise(id, MAX_TIMESTAMP_MS)
        self._drive(tree, tree.end())
        for edge in self._behind[id]:
            behind = self._gates[edge.target]
            self._set_activity(edge, Activity.ENDED)
            behind.ended.add(edge.id)
            if behind.ended == behind.lanes.keys():
                self._end(edge.target)


class _Gate:
    """The inputs of a chain, without those that come round a loop."""

    def __init__(self, chain: Chain, edges: Mapping[int, Edge]) -> None:
        numbers = [number for number in chain.inputs if not edges[number].feedback]
        self.lanes = {number: lane for lane, number in enumerate(numbers)}
        self.of_loop = len(numbers) < len(chain.inputs)
        """A loop has no event time."""
        self.ended: set[int] = set()
        ports = chain.operators[0].ports
        untimed = [
            lane
            for number, lane in self.lanes.items()
            if not ports[edges[number].target_port].type.event_time
        ]
        self.watermarks = WatermarkMerger(
            len(self.lanes), untimed if len(untimed) < len(self.lanes) else []
        )

    def merged(self, edge: Edge, batch: Batch) -> Batch:
        """The batch, with what the stream had reached by its rows as all inputs together had."""
        at = batch.schema.get_field_index(SWM)
        if at < 0 or edge.id not in self.lanes:
            return batch
        reached = np.maximum.accumulate(batch.column(at).to_numpy())
        np.clip(reached, None, self.watermarks.others(self.lanes[edge.id]), out=reached)
        np.clip(reached, self.watermarks.watermark_ms, None, out=reached)
        return batch.set_column(at, batch.schema.field(at), pa.array(reached))


@dataclass(frozen=True)
class _Sent:
    """Rows for other chains wait until the call that gave them has ended."""

    queue: deque[tuple[int, Batch]]

    def rows(self, edge: int, batch: Batch) -> Iterable[None]:
        self.queue.append((edge, batch))
        return ()


class _Sink(Operator):
    """Stands for a sink: that rows come is noted."""

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        return iter(())


def _exhaust(tree: TracedTree, work: Iterable[None]) -> None:
    try:
        for _ in work:
            pass
    except Exception as error:
        raise tree.located(error) from error


def _wait_for(begun: Begun) -> None:
    """What is asked of others may be waited for."""
    while not begun.ready():
        time.sleep(min(begun.wake_after_us() or _MOST_WAIT_US, _MOST_WAIT_US) / 1e6)


# --- where a source's rows lie ------------------------------------------------------------------------


class _Read:
    """What the readers of a source have given, in their order, and the operator has not yet; and which
    are at their ends."""

    def __init__(self, watermark: Watermark | None) -> None:
        self._watermark = watermark
        self.rows: deque[tuple[str, RowPlaces | None]] = deque()
        """By batch: its split, and where its rows lie there."""
        self.rejected: deque[tuple[str, RowPlaces]] = deque()
        self._reached_ms: dict[str, int] = {}
        self._at_end: dict[str, int] = {}
        """By split, how far it had come."""
        self.has_ended = False
        """Whether one has, since the operator was asked last."""

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
        """Splits that are read end one at a time, the furthest behind first: a job has read them one
        after the other, and what holds event time is the last. Asked again until it may."""
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
        """Nothing was given yet."""
        self._waits = False
        """To end, until others have."""

    def has_caught_up(self) -> bool:
        return not self._waits and super().has_caught_up()

    def poll(self, max_rows: int) -> Polled:
        polled = self._reader.poll(max_rows)
        if isinstance(polled, EndOfSplit):
            self._waits = not self._read.may_end(self._split)
            return Pending(0) if self._waits else polled
        if isinstance(polled, pa.RecordBatch) and polled.num_rows:
            self._read.given(self._split, polled, self._reader.places(), first=self._first)
            self._first = False
        return polled
