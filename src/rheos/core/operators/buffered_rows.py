"""Buffered rows: columns of rows that the watermark has not passed, and the snapshot parts that store
them.

Rows with a key are KEYED state. A chain of parts stores the rows that arrived, but not which of them
were delivered. A row was delivered if it is at or before the watermark of its key group. Every snapshot
stores these watermarks anew.

Rows without a key are LIST state, or BROADCAST state if every subtask has them. Every snapshot stores
all that are buffered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.operators.fitting import fitted
from rheos.core.operators.group_progress import WATERMARK, GroupProgress
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, TS, Batch
from rheos.core.protocol.snapshots import PartMode, SnapshotPart, StateKind
from rheos.core.state.parts import DeltaChain, by_group, keyed_part

HELD = "held"
"""Name of the state that holds buffered rows."""

HELD_WATERMARKS = "held behind"
"""Name of the state that holds, for each key group, the watermark up to which rows were delivered."""

_MOST_RUNS = 64


class _Run(NamedTuple):
    """Rows sorted by time."""

    stamps: npt.NDArray[np.int64]
    rows: Batch


class _Runs:
    """Runs of rows, each sorted by time. Rows that the watermark has passed are cut off without a
    search of the others. Small runs are merged."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(len(run.stamps) for run in self._runs)

    def add(self, run: _Run) -> None:
        self._runs.append(run)
        if len(self._runs) > _MOST_RUNS:
            self._runs = self._merged()

    def _merged(self) -> list[_Run]:
        """Merge neighbouring runs only, so that rows of the same time stay in order of arrival. Each
        run is more than twice as large as the next, so there are few runs."""
        groups: list[tuple[int, list[_Run]]] = []
        for run in self._runs:
            size, runs = len(run.stamps), [run]
            while groups and groups[-1][0] <= 2 * size:
                before, earlier = groups.pop()
                size, runs = before + size, earlier + runs
            groups.append((size, runs))
        return [
            runs[0] if len(runs) == 1 else _run(pa.concat_batches([run.rows for run in runs]))
            for _, runs in groups
        ]

    def take(self, until_ms: int) -> list[Batch]:
        due: list[Batch] = []
        rest: list[_Run] = []
        for run in self._runs:
            cut = int(np.searchsorted(run.stamps, until_ms, side="right"))
            if cut:
                due.append(run.rows.slice(0, cut))
            if cut < len(run.stamps):
                rest.append(_Run(run.stamps[cut:], run.rows.slice(cut)))
        self._runs = rest
        return due

    def batches(self) -> list[Batch]:
        return [run.rows for run in self._runs]


class RowBuffer(ABC):
    """Buffered rows of one port of one subtask."""

    @abstractmethod
    def reached(self, rows: Batch, watermark_ms: int) -> int | npt.NDArray[np.int64]:
        """Return the time up to which rows were delivered: `watermark_ms`, or even later before the
        restart. The time is one for all rows, or one for each."""

    def passed(self, rows: Batch, watermark_ms: int) -> npt.NDArray[np.bool_]:
        """Return which rows are too late to be delivered in order."""
        passed: npt.NDArray[np.bool_] = rows.column(TS).to_numpy() <= self.reached(rows, watermark_ms)
        return passed

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def add(self, rows: Batch) -> None: ...

    @abstractmethod
    def take(self, until_ms: int) -> Batch | None:
        """Remove and return the rows at or before `until_ms`, unordered; None if no such row exists."""

    @abstractmethod
    def parts(self, watermark_ms: int) -> list[SnapshotPart]:
        """Return the parts of a snapshot after all rows up to `watermark_ms` were taken."""

    @abstractmethod
    def savepoint(self, watermark_ms: int) -> list[SnapshotPart]:
        """Return `parts` with all buffered rows. This does not affect the next snapshot."""

    @abstractmethod
    def force_full(self) -> None:
        """Store all rows in the next snapshot."""

    @abstractmethod
    def restore(self, rows: Iterable[pa.Table], behind: Iterable[pa.Table]) -> None:
        """Restore the buffer from the tables of its two states."""


class UnkeyedRows(RowBuffer):
    """Buffered rows without a key."""

    def __init__(self, schema: pa.Schema, kind: StateKind, names: tuple[str, str]) -> None:
        """Create an empty buffer. `kind` is LIST, or BROADCAST if every subtask has the rows; `names`
        are the names of its two states."""
        self._state, self._behind = names
        self._schema = schema
        self._kind = kind
        self._held = _Runs()
        self._delivered_ms = MIN_TIMESTAMP_MS
        """Watermark up to which rows were delivered before the restart."""

    def reached(self, rows: Batch, watermark_ms: int) -> int:
        return max(self._delivered_ms, watermark_ms)

    def __len__(self) -> int:
        return len(self._held)

    def add(self, rows: Batch) -> None:
        if rows.num_rows:
            self._held.add(_run(rows))

    def take(self, until_ms: int) -> Batch | None:
        due = self._held.take(until_ms)
        return pa.concat_batches(due) if due else None

    def parts(self, watermark_ms: int) -> list[SnapshotPart]:
        batches, schema = self._held.batches(), self._schema
        behind = pa.table({WATERMARK: pa.array([max(self._delivered_ms, watermark_ms)], pa.int64())})
        return [
            SnapshotPart(self._state, self._kind, lambda: pa.Table.from_batches(batches, schema)),
            # Barriers of these operators are aligned, so all subtasks have the same progress.
            SnapshotPart(self._behind, StateKind.BROADCAST, lambda: behind),
        ]

    def savepoint(self, watermark_ms: int) -> list[SnapshotPart]:
        return self.parts(watermark_ms)

    def force_full(self) -> None:
        pass

    def restore(self, rows: Iterable[pa.Table], behind: Iterable[pa.Table]) -> None:
        for table in behind:
            self._delivered_ms = max(table.column(WATERMARK).to_pylist())
        for table in rows:
            for batch in fitted(table, self._schema, "held rows").to_batches():
                self.add(batch)


class BufferedRows(RowBuffer):
    """Buffered rows with a key."""

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        groups: range,
        max_parallelism: int,
        names: tuple[str, str] = (HELD, HELD_WATERMARKS),
    ) -> None:
        """Create an empty buffer. `names` are the names of its two states."""
        self._state, self._behind = names
        self._schema = schema
        self._keys = keys
        self._max_parallelism = max_parallelism
        self._held = _Runs()
        self._chain = DeltaChain()
        self._delivered = GroupProgress(groups, max_parallelism)
        """Watermark of each key group up to which rows were delivered before the restart."""
        self._arrived: _Runs | None = None
        """Buffered rows that arrived since the last snapshot; None if the next is a full one."""

    def reached(self, rows: Batch, watermark_ms: int) -> int | npt.NDArray[np.int64]:
        return self._delivered.reached(rows, self._keys, watermark_ms)

    def __len__(self) -> int:
        return len(self._held)

    def add(self, rows: Batch) -> None:
        if not rows.num_rows:
            return
        run = _run(rows)
        self._held.add(run)
        if self._arrived is not None:
            self._arrived.add(run)
            if self._chain.next_is_full(len(self._arrived)):
                self._arrived = None

    def take(self, until_ms: int) -> Batch | None:
        due = self._held.take(until_ms)
        if self._arrived is not None:
            self._arrived.take(until_ms)
        return pa.concat_batches(due) if due else None

    def parts(self, watermark_ms: int) -> list[SnapshotPart]:
        if self._arrived is None or self._chain.next_is_full(len(self._arrived), len(self._held)):
            mode, runs = PartMode.FULL, self._held
        else:
            mode, runs = PartMode.DELTA, self._arrived
        self._chain.taken(mode, len(runs))
        self._arrived = _Runs()
        return [self._part(mode, runs.batches()), self._behind_part(watermark_ms)]

    def savepoint(self, watermark_ms: int) -> list[SnapshotPart]:
        return [self._part(PartMode.FULL, self._held.batches()), self._behind_part(watermark_ms)]

    def _behind_part(self, watermark_ms: int) -> SnapshotPart:
        behind = self._delivered.table(watermark_ms)
        return SnapshotPart(self._behind, StateKind.KEYED, lambda: behind)

    def force_full(self) -> None:
        self._chain.force_full()
        self._arrived = None

    def restore(self, rows: Iterable[pa.Table], behind: Iterable[pa.Table]) -> None:
        self._delivered.restore(behind)
        for table in rows:
            waits = table.column(TS).to_numpy() > self._delivered.of_stored(table)
            for batch in fitted(table.filter(pa.array(waits)), self._schema, "held rows").to_batches():
                self.add(batch)

    def _part(self, mode: PartMode, batches: Sequence[Batch]) -> SnapshotPart:
        schema, keys, max_parallelism = self._schema, self._keys, self._max_parallelism

        def write() -> pa.Table:
            rows = pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema)
            return by_group(rows, keys, max_parallelism, rows.column(TS).to_numpy())

        return keyed_part(self._state, mode, len(batches), write)


def _run(rows: Batch) -> _Run:
    stamps = rows.column(TS).to_numpy()
    if bool(np.all(stamps[:-1] <= stamps[1:])):
        return _Run(stamps, rows)
    order = np.argsort(stamps, kind="stable")
    return _Run(stamps[order], rows.take(pa.array(order)))
