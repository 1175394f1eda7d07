"""Windows in two phases: the sender aggregates its rows, and the shuffle carries state instead of rows.

The sender's task runs the window operator itself over its rows, with the lowest possible watermark. So
no window fires, and each row's own `__wm` decides whether it is late, as in other runtimes. At the end
the operator has its state, in the form of a savepoint. Spark's shuffle moves this state, divided into
ranges of key groups. The receiver opens the operator from the state of all senders, and all windows
fire.

    rows ─ windows ─ state ═ shuffle ═ state ─ windows ─ results

Merging needs no code of its own: to the operator, this is a restore from many savepoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from rheos.core.formats.arrow_bytes import table_bytes
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.window.base import WindowOperator
from rheos.core.operators.window.operator import WindowAggregateOperator
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.snapshots import SnapshotPart, StateKind
from rheos.core.protocol.state_config import MIB
from rheos.runtimes.batch import task_notes
from rheos.runtimes.batch.keyed_input import ROWS_AT_ONCE, BatchBuffer
from rheos.runtimes.batch.layout import KEY_GROUP, NOTE_STATE, combined_row, payloads, unpack
from rheos.runtimes.batch.outlets import Outlet, Rows

BUDGET_BYTES = 64 * MIB
"""Size in bytes of the state that a sender combines before it sends it and starts again."""

_BUCKETS = 128
"""Maximum number of ranges of key groups into which state is divided."""


class CombiningOutlet(Outlet):
    """An outlet that aggregates the rows of an edge in windows, and outputs their state."""

    def __init__(
        self,
        make: Callable[[], WindowAggregateOperator],
        ctx: OperatorContext,
        budget_bytes: int = BUDGET_BYTES,
        rows_at_once: int = ROWS_AT_ONCE,
    ) -> None:
        self._make = make
        self._ctx = ctx
        self._budget_bytes = budget_bytes
        self._records = 0
        self._gathered = BatchBuffer(rows_at_once)
        self._windows = self._begin_windows()

    def _begin_windows(self) -> WindowAggregateOperator:
        windows = self._make()
        windows.open({})
        return windows

    def rows(self, edge: int, batch: Batch) -> Rows:
        self._records += batch.num_rows
        if not self._gathered.add(batch):
            return
        self._absorb()
        if self._windows.state_bytes > self._budget_bytes:
            yield from self._state()
            self._windows.close()
            self._windows = self._begin_windows()

    def _absorb(self) -> None:
        gathered = self._gathered.take()
        if gathered:
            for _ in self._windows.on_batch(0, pa.concat_batches(gathered)):
                raise AssertionError("nothing fires before the watermark, and nobody reads late rows")

    def note(self, note: bytes) -> Rows:
        yield combined_row(0, NOTE_STATE, note)

    def finish(self) -> Rows:
        self._absorb()
        yield from self._state()
        self._windows.close()
        counted = task_notes.Counted(
            operator=self._ctx.operator,
            records_in=self._records,
            records_out=0,
            counters=self._ctx.counters,
        )
        yield from self.note(task_notes.encode(counted))

    def _state(self) -> Rows:
        numbers = {name: number for number, name in enumerate(self._windows.states())}
        for part in self._windows.unordered_state():
            if part.kind is StateKind.UNION:
                continue  # It contains the time up to which windows have fired, and none have.
            for table in _tables(part):
                for bucket, rows in _cut(table, self._ctx.max_parallelism):
                    yield combined_row(bucket, numbers[part.state], table_bytes(rows))


def _tables(part: SnapshotPart) -> Iterator[pa.Table]:
    written = part.write()
    yield from [written] if isinstance(written, pa.Table) else written


def _cut(table: pa.Table, max_parallelism: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each bucket that has any. The table is sorted by key group."""
    groups = table.column(KEY_GROUP).to_numpy().astype(np.int64)
    buckets, starts = np.unique(
        groups * min(_BUCKETS, max_parallelism) // max_parallelism, return_index=True
    )
    lengths = np.diff(starts, append=len(groups))
    for bucket, start, length in zip(buckets.tolist(), starts.tolist(), lengths.tolist(), strict=True):
        yield bucket, table.slice(start, length).combine_chunks().to_batches()[0]


class CombinedState(Mapping[str, Iterable[pa.Table]]):
    """The combined state from which a window operator is opened, sorted by the number of the state. The
    operator must read the states in the order of its `states()`."""

    def __init__(self, windows: WindowOperator, inbox: Iterable[pa.RecordBatch]) -> None:
        self._numbers = {name: number for number, name in enumerate(windows.states())}
        # This state belongs to no row. It is equal in all senders, as nothing has fired anywhere.
        self._nothing = {
            part.state: list(_tables(part))
            for part in windows.unordered_state()
            if part.kind is StateKind.UNION
        }
        self._inbox = (row for rows in inbox for row in payloads(rows, "state"))
        self._next = next(self._inbox, None)

    def notes(self) -> Iterator[bytes]:
        """Yield the notes. They must be read first."""
        while self._next is not None and self._next[0] == NOTE_STATE:
            yield self._next[1].to_pybytes()
            self._next = next(self._inbox, None)

    def __getitem__(self, state: str) -> Iterable[pa.Table]:
        if state in self._nothing:
            return self._nothing[state]
        return self._read(self._numbers[state])

    def __iter__(self) -> Iterator[str]:
        return iter((*self._nothing, *self._numbers))

    def __len__(self) -> int:
        return len(self._nothing) + len(self._numbers)

    def _read(self, number: int) -> Iterator[pa.Table]:
        gathered = BatchBuffer()
        while self._next is not None and self._next[0] == number:
            enough = gathered.add(unpack(self._next[1]))
            self._next = next(self._inbox, None)
            if enough:
                yield pa.Table.from_batches(gathered.take())
        rest = gathered.take()
        if rest:
            yield pa.Table.from_batches(rest)

    def check_read(self) -> None:
        """Check that the operator has read all of it."""
        assert self._next is None, "an operator reads its states in the order in which it declares them"
