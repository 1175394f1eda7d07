"""Runs a program once more over taped input, in this thread and one subtask, all operators watched.

It begins with the state of a checkpoint, or with none. What is read goes through all operators before
more is, from the source that is furthest behind in event time, and the watermark rises behind it. What
only the clock would bring, such as timers of processing time, does not come.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

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
from rheos.core.operators.source import SourceOperator
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, Batch
from rheos.core.protocol.ids import Attempt, ChainId, JobId, OperatorId
from rheos.core.protocol.state_config import StateConfig
from rheos.core.task.contexts import OperatorContexts
from rheos.core.task.outputs import Outputs
from rheos.core.task.plan_driver import PlanDriver
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
        self._tapes = tapes
        self._restored = restored
        self._clock = SimClock()
        self._io = ThreadedIo(_THREADS, lambda: None)
        self._contexts = OperatorContexts(
            job=job,
            attempt=Attempt(1),
            max_parallelism=plan.max_parallelism,
            clock=self._clock,
            io=self._io,
            batch_rows=_ROWS,
            state=state,
            scratch=folder,
            program=plan.context,
        )
        self._trees: dict[ChainId, TracedTree] = {}
        self._reads: dict[ChainId, _Read] = {}
        try:
            self._driver = PlanDriver(
                plan,
                attempt=Attempt(1),
                clock=self._clock,
                make_tree=self._tree,
                batch_rows=_ROWS_AT_ONCE,
                delivers=self.ledger.delivers,
            )
        except BaseException:
            self._io.close()
            raise

    def run(self) -> None:
        """Reads all there is. Raises the RheosError of what fails."""
        self._driver.open(self._restored)
        self.ledger.passed_on()
        reads = set(self._driver.sources)
        while reads:
            id = min(sorted(reads), key=lambda each: self._trees[each].times[0].watermark_ms)
            if not self._read(id):
                reads.remove(id)

    def close(self) -> None:
        """Close the operators and the I/O."""
        self._driver.close()
        self._io.close()

    # --- making -----------------------------------------------------------------------------------

    def _tree(self, chain: Chain, outputs: Outputs) -> TracedTree:
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
            self._operator,
            outputs,
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
        return tree

    def _operator(self, planned: PlannedOperator) -> Operator:
        spec = self.watched[self.operators[planned.id]].spec
        ctx = self._contexts.of(planned)
        if isinstance(spec, SinkSpec):
            return _Sink(ctx)
        splits = spec.source.splits() if isinstance(spec, SourceSpec) else ()
        return build(ctx, spec, splits)

    # --- rows -------------------------------------------------------------------------------------

    def _read(self, id: ChainId) -> bool:
        """Read a little. Return whether there is more."""
        tree = self._trees[id]
        self._let_splits_fall_idle(tree.chain)
        self._reads[id].has_ended = False
        worked = self._driver.poll(id)
        self.ledger.passed_on()
        if self._driver.sources[id].ended:
            return False
        source = tree.operators[tree.chain.operators[0].id]
        assert isinstance(source, SourceOperator)
        return worked or not (source.until_now and source.has_caught_up())

    def _let_splits_fall_idle(self, chain: Chain) -> None:
        """A split whose tape is read is idle from then on, as far as the program says so."""
        spec = chain.operators[0].spec
        assert isinstance(spec, SourceSpec)
        if spec.watermark is not None and spec.watermark.idle_after_ms is not None:
            self._clock.advance(spec.watermark.idle_after_ms * 1000)


class _Sink(Operator):
    """Stands for a sink: that rows come is noted."""

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        return iter(())


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
