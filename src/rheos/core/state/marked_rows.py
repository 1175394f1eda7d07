"""Rows with marks, found by key and time: the state of a join's sides, and its snapshots.

Each row has a number, in the order of arrival, and each mark is an array indexed by number. A chain of
parts stores the rows that have arrived. A row whose marks have changed is stored once more, with its
id. If several stored rows have one id, the last one is valid.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.protocol.elements import Batch
from rheos.core.protocol.snapshots import PartMode, SnapshotPart
from rheos.core.state.numbered_array import NumberedArray
from rheos.core.state.numbered_rows import Numbers
from rheos.core.state.parts import DeltaChain, by_group, keyed_part
from rheos.core.state.slots import Slots
from rheos.core.state.spill import SpillFolder
from rheos.core.state.timed_rows import TimedRows

ROW = "__row"
"""Column of the ids of stored rows."""

_TABLE_ROWS = 1 << 18
"""Number of rows above which a part is written in several tables."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _FrozenSegment:
    """Rows of a segment for a part, which no longer change."""

    rows: Batch
    chosen: Mask
    marks: Sequence[npt.NDArray[Any]]


class MarkedRows(ABC):
    """The stored rows of one input port of a join, with their marks."""

    def __init__(
        self,
        state: str,
        schema: pa.Schema,
        stored_marks: Sequence[pa.Field],
        marks: Mapping[str, npt.DTypeLike],
        *,
        keys: Sequence[str],
        max_parallelism: int,
        folder: SpillFolder | None,
    ) -> None:
        """Create an empty store.

        Args:
            state: Name of the state in snapshots.
            schema: Columns of the rows.
            stored_marks: Columns of marks that follow these in stored rows.
            marks: Marks of each row by name, with their types. Rows have ids if the marks `ids` and
                `changed` are among them.
        """
        self.state = state
        self.keys = keys
        self._schema = schema
        self._stored = pa.schema([*schema, *stored_marks])
        self._kinds = marks
        self._max_parallelism = max_parallelism
        self._folder = folder
        self._chain = DeltaChain()
        self._next_id = 0
        self.clear()

    def clear(self) -> None:
        """Drop all rows. Later rows get new ids, because a delta may still name the old ones."""
        self.rows = TimedRows(self._schema, self._folder)
        self._marks = {name: NumberedArray(kind) for name, kind in self._kinds.items()}
        self._settled = 0
        """Number of the first row that is not in the last snapshot."""

    def __len__(self) -> int:
        """Return the number of rows, including dropped rows that are still stored."""
        return self.rows.kept

    # --- rows and marks -------------------------------------------------------------------------------

    def _put(
        self, slots: Slots, rows: Batch, ids: Numbers | None, /, **marks: npt.NDArray[Any]
    ) -> None:
        """Add rows with their marks. Rows without `ids` receive new ones."""
        self.rows.add(slots, rows)
        if not self._marks:
            return
        if ids is None:
            ids = np.arange(self._next_id, self._next_id + rows.num_rows)
            self._next_id += rows.num_rows
        marks |= {"ids": ids, "changed": np.zeros(rows.num_rows, np.bool_)}
        for name, values in marks.items():
            self._marks[name].add(values)

    def _mark(self, name: str) -> npt.NDArray[Any]:
        """Return the mark of all rows, from the first existing one on. The caller may write to it."""
        return self._marks[name].all()

    def _positions_of(self, numbers: Numbers) -> Numbers:
        """Return the positions of rows in `_mark`."""
        return numbers - self.rows.first

    def _drop(self, until_ms: int) -> None:
        """Drop the first segments whose rows are all at or before a time."""
        self.rows.drop(until_ms)
        for marks in self._marks.values():
            marks.drop_before(self.rows.first)

    def _segments(self) -> Iterator[tuple[int, Batch, slice]]:
        """Yield all rows: batches, with the number of the first row, and their slice of each mark."""
        for first, rows in self.rows.segments():
            at = first - self.rows.first
            yield first, rows, slice(at, at + rows.num_rows)

    # --- snapshots ------------------------------------------------------------------------------------

    @abstractmethod
    def _living(self, rows: Batch, mine: slice) -> Mask:
        """Return which rows of a segment a full part contains."""

    @abstractmethod
    def _in_delta(self, living: Mask, fresh: Mask, mine: slice) -> Mask:
        """Return which rows of a segment a delta contains. `fresh` marks rows in no snapshot."""

    @abstractmethod
    def _stored_marks(self, living: Mask, mine: slice) -> Sequence[npt.NDArray[Any]]:
        """Return the marks of a segment as they are stored."""

    def _next_part(self, alive: int) -> SnapshotPart:
        """Return the part of the next snapshot. `alive` is the number of living rows."""
        fresh = self.rows.next - max(self._settled, self.rows.first)
        again = int(np.count_nonzero(self._mark("changed"))) if self._marks else 0
        mode = self._chain.next_mode(fresh + again, alive)
        frozen = list(self._frozen(mode))
        self._chain.taken(mode, sum(int(np.count_nonzero(each.chosen)) for each in frozen))
        self._settled = self.rows.next
        if self._marks:
            self._mark("changed")[:] = False
        return self._part(mode, frozen)

    def _whole(self) -> SnapshotPart:
        """Return a part with all rows. This does not affect the next snapshot."""
        return self._part(PartMode.FULL, list(self._frozen(PartMode.FULL)))

    def force_full(self) -> None:
        """Make the next part a full one."""
        self._chain.force_full()

    def _frozen(self, mode: PartMode) -> Iterator[_FrozenSegment]:
        for first, rows, mine in self._segments():
            chosen = living = self._living(rows, mine)
            if mode is PartMode.DELTA:
                fresh = np.arange(first, first + rows.num_rows) >= self._settled
                chosen = self._in_delta(living, fresh, mine)
            if chosen.any():
                marks = self._stored_marks(living, mine)
                yield _FrozenSegment(rows, chosen.copy(), [values[chosen] for values in marks])

    def _part(self, mode: PartMode, frozen: Sequence[_FrozenSegment]) -> SnapshotPart:
        write = partial(_tables, frozen, self._stored, self.keys, self._max_parallelism)
        return keyed_part(self.state, mode, len(frozen), write)


def _tables(
    frozen: Sequence[_FrozenSegment], schema: pa.Schema, keys: Sequence[str], max_parallelism: int
) -> Iterator[pa.Table]:
    """Yield the rows of a part by key group, in tables of bounded size."""
    waiting: list[Batch] = [pa.RecordBatch.from_pylist([], schema)]
    rows = 0
    for number, each in enumerate(frozen, 1):
        left = each.rows.filter(pa.array(each.chosen))
        marks = [pa.array(values) for values in each.marks]
        waiting.append(pa.RecordBatch.from_arrays([*left.columns, *marks], schema=schema))
        rows += left.num_rows
        if rows >= _TABLE_ROWS and number < len(frozen):
            yield by_group(pa.concat_batches(waiting), keys, max_parallelism)
            waiting, rows = [], 0
    yield by_group(pa.concat_batches(waiting), keys, max_parallelism)


def last_of_ids(tables: Iterable[pa.Table], groups: npt.NDArray[np.uint16]) -> pa.Table:
    """Return, for each id of a key group, the row that was written last, in the order of writing."""
    rows = pa.concat_tables(tables)
    ids = rows.column(ROW).to_numpy()
    order = np.lexsort((ids, groups))
    last = np.ones(len(order), np.bool_)
    last[:-1] = (ids[order][1:] != ids[order][:-1]) | (groups[order][1:] != groups[order][:-1])
    return rows.take(pa.array(np.sort(order[last])))
