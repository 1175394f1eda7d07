"""One side of a join of tables as state: the rows that are there.

They are found by the key of the join and, where the side is changes of a table, by the key that its
rows are known by: a change takes the place of the row that is there. A row that has gone stays where it
lies until most are gone; then those that are left are copied.

Of a side whose rows are given without a partner, too, each row is marked while it is given so (it is
*padded* with nulls). A row that is gone, or whose mark has changed, is written to a snapshot once more,
with its id: of the rows of one id the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.operators.changes import table_columns
from rheos.core.operators.contract import PortType
from rheos.core.operators.fitting import fitted
from rheos.core.operators.group_progress import GROUP
from rheos.core.operators.joins.growing import Growing, with_room
from rheos.core.operators.joins.numbered import Numbers
from rheos.core.operators.joins.side import ROW, FrozenSegment, Mask, last_of_ids, part_of_rows
from rheos.core.operators.joins.timed_rows import Matches, TimedRows
from rheos.core.operators.keyed_state import columns_shape, keyed_shape
from rheos.core.operators.spill import SpillFolder
from rheos.core.protocol.elements import TS, Batch, visible
from rheos.core.protocol.shapes import Holds, StateShape
from rheos.core.protocol.snapshots import PartMode, SnapshotPart
from rheos.core.state.key_index import KeySlots
from rheos.core.state.key_limit import KeyLimit
from rheos.core.state.parts import DeltaChain
from rheos.core.state.slots import Slots

PADDED, GONE = "__padded", "__gone"
_MARKS = [pa.field(GONE, pa.bool_(), False), pa.field(ROW, pa.int64(), False)]
_PADDED = pa.field(PADDED, pa.bool_(), False)
"""Columns of stored rows; the last one where rows are given without a partner."""

_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max - 1


class TableSide:
    """The rows of one port. Slots are those of the join's keys, *places* those of the side's own."""

    def __init__(
        self,
        state: str,
        port: PortType,
        own: Sequence[str] | None,
        *,
        keeps: bool,
        ttl_ms: int | None,
        max_parallelism: int,
        folder: SpillFolder | None,
        limit: KeyLimit | None = None,
    ) -> None:
        """`own`: the columns that its rows are known by; None: they only come, and none goes. `keeps`:
        whether its rows are given without a partner, too."""
        self.state = state
        self.keys = port.keys
        self.own = own
        self._ttl_ms = ttl_ms
        self._max_parallelism = max_parallelism
        self._folder = folder
        self._limit = limit
        self.columns = visible(port.schema) if own is None else table_columns(port.schema)
        self._schema = self.columns.append(pa.field(TS, pa.int64()))
        self.keeps = keeps
        self._marks_stored = [*_MARKS, _PADDED] if keeps else _MARKS
        self._stored = pa.schema([*self._schema, *self._marks_stored])
        self._chain = DeltaChain()
        self.clear()

    def clear(self) -> None:
        """Drops all rows."""
        self.rows = TimedRows(self._schema, self._folder)
        # By number:
        self._there = Growing(np.bool_)
        self._padded = Growing(np.bool_)
        self._changed = Growing(np.bool_)
        self._slots = Growing(np.int32)
        self._ids = Growing(np.int64)
        self._next_id = 0
        self._settled = 0
        """Rows of lower numbers are in the last snapshot."""
        # By slot, and by place:
        self._counts: Numbers = np.zeros(1 << 10, np.int64)
        self._places = KeySlots(2 * len(self.own or ()))
        self._newest: Numbers = np.full(1 << 10, -1, np.int64)
        self.alive = 0
        """How many rows are there."""

    def __len__(self) -> int:
        """Those that are gone, and not cleared away, included."""
        return self.rows.kept

    @property
    def _marks(self) -> tuple[Growing, ...]:
        return self._there, self._padded, self._changed, self._slots, self._ids

    # --- what is there --------------------------------------------------------------------------------

    def counts(self, slots: Slots) -> Numbers:
        """How many rows are there of each slot."""
        self._counts = _by_slot(self._counts, slots, 0)
        return self._counts[slots]

    def find(self, slots: Slots) -> Matches:
        """All rows of each slot, those that are gone included."""
        ends = np.full(len(slots), _EARLIEST), np.full(len(slots), _LATEST)
        return self.rows.find(slots, *ends)

    def there(self, numbers: Numbers) -> Mask:
        """Which of these rows are there."""
        there: Mask = self._there.all()[numbers - self._there.first]
        return there

    def slots(self, numbers: Numbers) -> Slots:
        """The slots of these rows."""
        slots: Slots = self._slots.all()[numbers - self._slots.first]
        return slots

    def padded(self, numbers: Numbers) -> Mask:
        """Which of these rows are given without a partner."""
        padded: Mask = self._padded.all()[numbers - self._padded.first]
        return padded

    def places(self, batch: Batch) -> Slots:
        """By the side's own key."""
        assert self.own is not None
        columns = [part for name in self.own for part in _without_nulls(batch.column(name))]
        return self._places.lookup_or_add(columns)

    def at(self, places: Slots) -> Numbers:
        """The number of the row that is there, -1 where there is none."""
        self._newest = _by_slot(self._newest, places, -1)
        numbers = self._newest[places]
        known = numbers >= self.rows.first
        numbers[~known] = -1
        numbers[known] = np.where(self.there(numbers[known]), numbers[known], -1)
        return numbers

    # --- changes --------------------------------------------------------------------------------------

    def add(
        self, slots: Slots, rows: Batch, stamps: Numbers, padded: Mask, places: Slots | None
    ) -> None:
        """Rows that are there from now on. `stamps`: their event times."""
        columns = [*rows.select(self.columns.names).columns, pa.array(stamps)]
        whole = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        ids = np.arange(self._next_id, self._next_id + rows.num_rows)
        self._next_id += rows.num_rows
        self._add(slots, whole, padded, ids, places)

    def _add(self, slots: Slots, rows: Batch, padded: Mask, ids: Numbers, places: Slots | None) -> None:
        first, count = self.rows.next, rows.num_rows
        if not count:
            return
        self.rows.add(slots, rows)
        none = np.zeros(count, np.bool_)
        values: tuple[Numbers | Mask | Slots, ...] = (~none, padded, none, slots, ids)
        for marks, value in zip(self._marks, values, strict=True):
            marks.add(value)
        self._counts = _by_slot(self._counts, slots, 0)
        np.add.at(self._counts, slots, 1)
        self.alive += count
        if self._limit is not None and self.alive > self._limit.due:
            of_rows = self._counts[slots]
            largest = int(of_rows.argmax())
            if of_rows[largest] > self._limit.due:
                key = [rows.column(name)[largest].as_py() for name in self.keys]
                self._limit.see(int(of_rows[largest]), key)
        if places is not None:
            self._newest = _by_slot(self._newest, places, -1)
            self._newest[places] = np.arange(first, first + count)

    def remove(self, numbers: Numbers) -> None:
        """These rows, which are there, are no more."""
        self._change(numbers)
        self._forget(numbers)

    def pad(self, numbers: Numbers, padded: Mask) -> None:
        """Whether each of these rows is given without a partner from now on."""
        differs = self.padded(numbers) != padded
        numbers, padded = numbers[differs], padded[differs]
        self._change(numbers)
        self._padded.all()[numbers - self._padded.first] = padded

    def expire(self, reached_ms: int) -> None:
        """Forgets the rows whose time to live is over when the stream has come so far."""
        if self._ttl_ms is None:
            return
        due = self.rows.due(reached_ms - self._ttl_ms)
        self._forget(due[self.there(due)])
        self.rows.drop(reached_ms - self._ttl_ms)
        for marks in self._marks:
            marks.drop_before(self.rows.first)

    def _change(self, numbers: Numbers) -> None:
        self._changed.all()[numbers - self._changed.first] = True

    def _forget(self, numbers: Numbers) -> None:
        at = numbers - self._there.first
        self._there.all()[at] = False
        np.subtract.at(self._counts, self._slots.all()[at], 1)
        self.alive -= len(numbers)

    def rebuild(self, keys: KeySlots) -> None:
        """Copies the rows that are there, with slots of other keys. The next snapshot is whole: which
        rows have gone since the last one is not known any more."""
        old = self.rows
        there, padded, _, _, ids = (marks.all() for marks in self._marks)
        next_id = self._next_id
        self.clear()
        self._next_id = next_id
        for first, rows in old.segments():
            mine = slice(first - old.first, first - old.first + rows.num_rows)
            chosen = there[mine]
            left = rows.filter(pa.array(chosen))
            self._restored(left, padded[mine][chosen], ids[mine][chosen], keys)
        self.force_full()

    def _restored(self, rows: Batch, padded: Mask, ids: Numbers, keys: KeySlots) -> None:
        if rows.num_rows:
            slots = keys.lookup_or_add([rows.column(key) for key in self.keys])
            self._add(slots, rows, padded, ids, None if self.own is None else self.places(rows))

    # --- snapshots ------------------------------------------------------------------------------------

    def shape(self, port: PortType) -> StateShape:
        return keyed_shape(
            port, Holds.ROWS, columns_shape(pa.schema([*self.columns, *self._marks_stored]))
        )

    def part(self) -> SnapshotPart:
        """What the next snapshot holds."""
        fresh = self.rows.next - max(self._settled, self.rows.first)
        again = int(np.count_nonzero(self._changed.all()))
        full = self._chain.next_is_full(fresh + again, self.alive)
        mode = PartMode.FULL if full else PartMode.DELTA
        frozen = list(self._frozen(mode))
        self._chain.taken(mode, sum(int(np.count_nonzero(each.chosen)) for each in frozen))
        self._settled = self.rows.next
        self._changed.all()[:] = False
        return self._made(mode, frozen)

    def whole(self) -> SnapshotPart:
        """All rows. The next snapshot is what it would have been without."""
        return self._made(PartMode.FULL, list(self._frozen(PartMode.FULL)))

    def force_full(self) -> None:
        self._chain.force_full()

    def _frozen(self, mode: PartMode) -> Iterator[FrozenSegment]:
        for first, rows in self.rows.segments():
            mine = slice(first - self.rows.first, first - self.rows.first + rows.num_rows)
            there = self._there.all()[mine]
            if mode is PartMode.FULL:
                chosen = there
            else:
                fresh = np.arange(first, first + rows.num_rows) >= self._settled
                chosen = np.where(fresh, there, self._changed.all()[mine])
            if chosen.any():
                marks = [~there, self._ids.all()[mine]]
                if self.keeps:
                    marks.append(self._padded.all()[mine])
                yield FrozenSegment(rows, chosen.copy(), [values[chosen] for values in marks])

    def _made(self, mode: PartMode, frozen: Sequence[FrozenSegment]) -> SnapshotPart:
        return part_of_rows(self.state, mode, frozen, self._stored, self.keys, self._max_parallelism)

    def restore(self, tables: Iterable[pa.Table], keys: KeySlots) -> None:
        found = list(tables)
        if not found:
            return
        groups = np.concatenate([table.column(GROUP).to_numpy() for table in found])
        what = f"rows of the {self.state} side"
        rows = pa.concat_tables([fitted(table, self._stored, what) for table in found])
        if rows.num_rows:
            # Ids of rows that are gone are not given again: a delta may still name them.
            self._next_id = int(np.max(rows.column(ROW).to_numpy())) + 1
            rows = last_of_ids(rows, groups)
        for batch in rows.filter(pc.invert(rows.column(GONE))).combine_chunks().to_batches():
            ids = batch.column(ROW).to_numpy()
            padded = np.zeros(len(ids), np.bool_)
            if self.keeps:
                padded = batch.column(PADDED).to_numpy(zero_copy_only=False)
            self._restored(batch.select(self._schema.names), padded, ids, keys)


def _by_slot(values: Numbers, slots: Slots, empty: int) -> Numbers:
    """The array, with room for these slots."""
    return with_room(values, int(slots.max(initial=-1)) + 1, empty)


def _without_nulls(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """A column that may have nulls as two without any: which values there are, and those."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    there = column.is_valid()
    if column.null_count:
        column = pc.if_else(there, column, _any_value(column.type))
    return there, column


def _any_value(kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.scalar("", kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.scalar(b"", kind)
    # Zero in all bits is a value of every type of fixed width.
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(32))])[0]
