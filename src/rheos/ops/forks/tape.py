"""A tape: the recorded input of one source between two moments, which can be read any number of times.

So two programs read exactly the same rows, even if the job has read more in the meantime. Each split
has a file of rows (an Arrow IPC stream), and one of rejected rows if there were any.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import assert_never

import msgspec
import pyarrow as pa

from rheos.connectors.source_wrapper import WrappedSource
from rheos.core.checkpoint.checkpoint_copies import CopiedCheckpoint
from rheos.core.checkpoint.restored_state import RestoredByOperator
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    RowPlaces,
    Source,
    Split,
    SplitReader,
    TimeReached,
)
from rheos.core.operators.contract import Operator
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, ChainId, JobId
from rheos.core.protocol.snapshots import PartMode
from rheos.core.protocol.state_config import Backend, StateConfig
from rheos.core.task.contexts import OperatorContexts
from rheos.core.task.outputs import Outputs
from rheos.core.task.plan_driver import PlanDriver
from rheos.core.task.tree import OperatorTree
from rheos.runtimes.host.awaited_calls import wait_for
from rheos.runtimes.host.io import ThreadedIo
from rheos.runtimes.simulated.clock import SimClock

_TIME = b"event_time_ms"
_PLACES = b"places"


class TapeEnd(Enum):
    """The reason why a split's tape ends."""

    READ = "read to its end"
    CUT = "cut at an event time"
    NOW = "read until now"


@dataclass(frozen=True)
class TapedSplit:
    split: Split
    file: str
    rejected: str | None
    end: TapeEnd
    rows: int
    final_ms: int | None = None
    """Event time that the split has reached at the end of its tape, in ms since the epoch. None: that
    of its rows."""


@dataclass(frozen=True)
class Tape:
    """The tape of one source."""

    splits: tuple[TapedSplit, ...]

    @property
    def rows(self) -> int:
        return sum(taped.rows for taped in self.splits)


class SplitTape:
    """A writer of one split's tape."""

    def __init__(self, split: Split, place: Path, schema: pa.Schema) -> None:
        self._split = split
        self._place = place
        self._schema = schema
        self._rows = _writer(place, schema)
        self._rejected: pa.RecordBatchStreamWriter | None = None
        self._count = 0
        self.end = TapeEnd.NOW

    @property
    def _rejected_path(self) -> Path:
        return self._place.with_suffix(".rejected")

    def add(self, batch: Batch, places: RowPlaces | None) -> None:
        """Append the batch. `places` may be longer than the batch; the rest belongs to later rows."""
        self._count += batch.num_rows
        # Batches of readers have the source's columns, but their metadata may differ.
        rows = pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
        self._rows.write_batch(rows, {_PLACES: msgspec.msgpack.encode(places)})

    def reject(self, batch: Batch) -> None:
        if self._rejected is None:
            self._rejected = _writer(self._rejected_path, batch.schema)
        self._rejected.write_batch(batch)

    def reached(self, time: TimeReached) -> None:
        nothing = self._schema.empty_table().to_batches()
        batch = nothing[0] if nothing else pa.RecordBatch.from_pylist([], schema=self._schema)
        self._rows.write_batch(batch, {_TIME: json.dumps(time.event_time_ms).encode()})

    def closed(self) -> TapedSplit:
        """Complete the tape, and return its description."""
        self._rows.close()
        if self._rejected is not None:
            self._rejected.close()
        rejected = None if self._rejected is None else str(self._rejected_path)
        return TapedSplit(self._split, str(self._place), rejected, self.end, self._count)


def _writer(place: Path, schema: pa.Schema) -> pa.RecordBatchStreamWriter:
    return pa.ipc.new_stream(str(place), schema)


@dataclass(frozen=True, eq=False)
class TapedSource(WrappedSource):
    """A program's source, whose rows come from a tape. It ends when all of its splits end. At the end
    of a tape that was cut at a moment, it has caught up."""

    tape: Tape

    def __post_init__(self) -> None:
        super().__post_init__()
        ends = all(taped.end is TapeEnd.READ for taped in self.tape.splits)
        for name, value in (
            ("bounded", self.source.bounded and ends),
            ("discovery_ms", None),
            ("forget_ms", None),
        ):
            object.__setattr__(self, name, value)

    # The tape has none of these capabilities, whatever the source can do.
    staged = released = client = resumed = unpaced = None  # type: ignore[assignment]

    def as_of_now(self) -> Source:
        return self

    def splits(self) -> Sequence[Split]:
        return [taped.split for taped in self.tape.splits]

    def endless(self, split: Split) -> bool:
        return capabilities.is_endless(self.source, split)

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        """Return a reader from the tape's beginning, whatever the position: a tape is never resumed."""
        found = (taped for taped in self.tape.splits if taped.split.id == split.id)
        return _TapeReader(next(found, None), ctx)


class _TapeReader(SplitReader):
    def __init__(self, taped: TapedSplit | None, ctx: ReaderContext) -> None:
        """Read a split. None: the recorded job had read nothing more of it."""
        self._end = TapeEnd.READ if taped is None else taped.end
        self._played = iter(()) if taped is None else _played(taped)
        self._places: RowPlaces | None = None
        """Source coordinates of the rows in the current batch."""
        self._gone = 0
        """Number of rows of the current batch that have been emitted."""
        self._last = 0
        rejected = None if taped is None else taped.rejected
        self._rejected: Iterator[Batch] = iter(()) if rejected is None else iter(_batches(rejected))
        self._reject = ctx.reject
        self._left: Batch | None = None
        self._final_ms = None if taped is None else taped.final_ms
        self._over = False
        self._given = 0

    def poll(self, max_rows: int) -> Polled:
        if (rejected := next(self._rejected, None)) is not None:
            self._reject(rejected)
        if self._left is None:
            played = next(self._played, None)
            if played is None:
                return self._at_end()
            if isinstance(played, TimeReached):
                return played
            self._left, self._places = played
            self._gone = 0
        rows = self._left.slice(0, max_rows)
        rest = self._left.slice(max_rows)
        self._left = rest if rest.num_rows else None
        self._given += rows.num_rows
        self._last = rows.num_rows
        self._gone += rows.num_rows
        return rows

    def _at_end(self) -> Polled:
        if self._final_ms is not None:
            final_ms, self._final_ms = self._final_ms, None
            return TimeReached(final_ms)
        self._over = True
        match self._end:
            case TapeEnd.READ | TapeEnd.CUT:
                return EndOfSplit()
            case TapeEnd.NOW:
                return Pending()
            case _:
                assert_never(self._end)

    def position(self) -> bytes:
        return b"%d" % self._given

    def places(self) -> RowPlaces | None:
        if self._places is None:
            return None
        return RowPlaces(self._places.unit, self._places.of_rows[self._gone - self._last : self._gone])

    def has_caught_up(self) -> bool:
        return self._over


def _played(taped: TapedSplit) -> Iterator[tuple[Batch, RowPlaces | None] | TimeReached]:
    with pa.memory_map(taped.file) as file, pa.ipc.open_stream(file) as stream:
        while True:
            try:
                batch, about = stream.read_next_batch_with_custom_metadata()
            except StopIteration:
                return
            if _TIME in about:
                yield TimeReached(json.loads(about[_TIME]))
            else:
                yield batch, msgspec.msgpack.decode(about[_PLACES], type=RowPlaces | None)


def _batches(place: str) -> Iterator[Batch]:
    with pa.memory_map(place) as file, pa.ipc.open_stream(file) as stream:
        yield from stream


# --- a run over tapes, in this thread and in one subtask of each operator -----------------------------


_ROWS = 1024
"""Maximum number of rows in a batch that an operator emits."""
_THREADS = 4


@dataclass(frozen=True)
class Beginning:
    """The initial state of a run."""

    restored: RestoredByOperator
    state: StateConfig
    folder: str
    """Path of an empty folder, for state on disk."""


def state_backend(checkpoint: CopiedCheckpoint | None) -> StateConfig:
    """Return a state backend that reads the checkpoint. Only a database reads its own files."""
    handles = () if checkpoint is None else checkpoint.savepoint.entry.handles
    in_files = any(handle.mode is PartMode.FILE for handle in handles)
    return StateConfig(Backend.ROCKSDB if in_files else Backend.MEMORY).without_limits()


class TapedRun:
    """One run of a plan whose sources are tapes. The caller closes it."""

    def __init__(self, job: JobId, plan: PhysicalPlan, beginning: Beginning, rows_at_once: int) -> None:
        """Make the operators. A source reads at most `rows_at_once` rows before another has its turn.
        Raise the RheosError of an operator that cannot be made."""
        self._restored = beginning.restored
        self._clock = SimClock()
        self._io = ThreadedIo(_THREADS, lambda: None)
        self._contexts = OperatorContexts(
            job=job,
            attempt=Attempt(1),
            max_parallelism=plan.max_parallelism,
            clock=self._clock,
            io=self._io,
            batch_rows=_ROWS,
            state=beginning.state,
            scratch=beginning.folder,
            program=plan.context,
        )
        try:
            self._driver = PlanDriver(
                plan,
                attempt=Attempt(1),
                clock=self._clock,
                make_tree=self._make_tree,
                batch_rows=rows_at_once,
                delivers=self._delivers,
            )
        except BaseException:
            self._io.close()
            raise

    def _make_tree(self, chain: Chain, outputs: Outputs) -> OperatorTree[None]:
        return UntimedTree(chain, self._make_operator, outputs, wait_for=wait_for)

    def _make_operator(self, planned: PlannedOperator) -> Operator:
        spec = planned.spec
        ctx = self._contexts.of(planned)
        if isinstance(spec, SourceSpec):
            return spec.operator(ctx, list(spec.source.splits()))
        return spec.operator(ctx)

    def _delivers(self, batch: Batch) -> None:
        """Note a batch that another chain is about to process."""

    def open(self) -> None:
        """Open every operator with its restored state. Raise the RheosError of one that fails."""
        self._driver.open(self._restored)

    def read(self, source: ChainId) -> bool:
        """Let a source read a little, and process that. Return whether its tape has more."""
        worked = self._driver.poll(source)
        chain = self._driver.sources[source]
        return not chain.ended and (worked or not chain.has_caught_up())

    def run(self) -> None:
        """Read all tapes to their ends, the sources in turns. Raise the RheosError of a source or
        operator that fails."""
        self.open()
        reading = list(self._driver.sources)
        while reading:
            reading = [source for source in reading if self.read(source)]

    def close(self) -> None:
        """Close the operators and the I/O."""
        self._driver.close()
        self._io.close()


class UntimedTree(OperatorTree[None]):
    """The operators of a chain in a run whose clock does not advance."""

    def next_timer_ms(self) -> None:
        """Return None: no timer of processing time fires."""
        return None
