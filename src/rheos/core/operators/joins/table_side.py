"""One side of a join of tables as state: the current rows.

The join finds rows by its own key. If the side is a changelog, it also finds them by the primary key of
the table, because a change replaces the current row of that key. A deleted row stays in place until
most rows are deleted. Then the remaining rows are copied. If a table has no key, its rows are found by
all their columns, and equal rows are numbered: a deletion removes the last one.

On an outer side, each row that is emitted without a partner is marked as *padded* with nulls. A row
that was deleted, or whose mark changed, is written to the next snapshot once more, with its id. If
several stored rows have one id, the last one counts. If partners have to fulfil a condition, the number
of partners of each row is a mark, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.operators.change_rows import table_columns
from rheos.core.operators.contract import PortType
from rheos.core.operators.fitting import fitted
from rheos.core.operators.joins.pair_condition import PairCondition
from rheos.core.operators.joins.running_counts import running_counts
from rheos.core.operators.keyed_state import columns_shape, keyed_shape
from rheos.core.protocol.elements import TS, Batch, visible
from rheos.core.protocol.shapes import StatePurpose, StateShape
from rheos.core.protocol.snapshots import SnapshotPart
from rheos.core.state.key_index import KeySlots
from rheos.core.state.key_limit import KeyLimit
from rheos.core.state.marked_rows import ROW, MarkedRows, Mask, last_of_ids
from rheos.core.state.numbered_array import with_room
from rheos.core.state.numbered_rows import Numbers
from rheos.core.state.parts import GROUP
from rheos.core.state.slots import Slots
from rheos.core.state.spill import SpillFolder
from rheos.core.state.timed_rows import Matches

PADDED, GONE = "__padded", "__gone"
_STORED = [pa.field(GONE, pa.bool_(), False), pa.field(ROW, pa.int64(), False)]
_PADDED = pa.field(PADDED, pa.bool_(), False)
"""Columns of stored rows. The last one exists only if rows without a partner are emitted."""
_MARKS = {
    "there": np.bool_,
    "padded": np.bool_,
    "matches": np.int64,
    "changed": np.bool_,
    "slots": np.int32,
    "ids": np.int64,
}

_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max - 1


class TableSide(MarkedRows):
    """Rows of one port. *Slots* belong to the join's keys, *places* to the side's own keys."""

    def __init__(
        self,
        state: str,
        port: PortType,
        own: Sequence[str] | None,
        *,
        keeps: bool,
        where: PairCondition | None,
        ttl_ms: int | None,
        max_parallelism: int,
        folder: SpillFolder | None,
        limit: KeyLimit | None = None,
    ) -> None:
        """Create a side without rows. `own` is the primary key of the table, empty if it has no key, or
        None if the side is append-only. `keeps` is whether the result depends on its rows without a
        partner, and `where` the further condition of partners."""
        self.own = own
        self.columns = visible(port.schema) if own is None else table_columns(port.schema)
        self.keeps = keeps
        self._ttl_ms = ttl_ms
        self._limit = limit
        stored = [*_STORED, _PADDED] if keeps else [*_STORED]
        # The numbers belong to this condition: those of another one are refused.
        self._matches = f"__matches {where.digest()}" if keeps and where is not None else None
        if self._matches is not None:
            stored.append(pa.field(self._matches, pa.int64(), False))
        super().__init__(
            state,
            self.columns.append(pa.field(TS, pa.int64())),
            stored,
            _MARKS,
            keys=port.keys,
            max_parallelism=max_parallelism,
            folder=folder,
        )

    def clear(self) -> None:
        super().clear()
        # Indexed by slot, and by place:
        self._counts: Numbers = np.zeros(1 << 10, np.int64)
        self._places = KeySlots(2 * len(self.own) if self.own else 2)
        self._values = KeySlots(2 * len(self.columns))
        self._copies: Numbers = np.zeros(1 << 10, np.int64)
        self._newest: Numbers = np.full(1 << 10, -1, np.int64)
        self.alive = 0
        """Number of current rows."""

    # --- stored rows ----------------------------------------------------------------------------------

    def counts(self, slots: Slots) -> Numbers:
        """Return the number of rows of each slot."""
        self._counts = _by_slot(self._counts, slots, 0)
        return self._counts[slots]

    def find(self, slots: Slots) -> Matches:
        """Return all rows of each slot, including deleted ones."""
        ends = np.full(len(slots), _EARLIEST), np.full(len(slots), _LATEST)
        return self.rows.find(slots, *ends)

    def exist(self, numbers: Numbers) -> Mask:
        """Return which of these rows exist."""
        there: Mask = self._mark("there")[self._positions_of(numbers)]
        return there

    def slots(self, numbers: Numbers) -> Slots:
        """Return the slots of these rows."""
        slots: Slots = self._mark("slots")[self._positions_of(numbers)]
        return slots

    def padded(self, numbers: Numbers) -> Mask:
        """Return which of these rows were emitted without a partner."""
        padded: Mask = self._mark("padded")[self._positions_of(numbers)]
        return padded

    def places(self, batch: Batch, comes: Mask) -> Slots:
        """Return the places of these rows, which the side's own key determines. In a table without a
        key, a row is inserted after equal rows, or removes the last of them."""
        names = self.own or self.columns.names
        columns = [part for name in names for part in _without_nulls(batch.column(name))]
        if self.own:
            return self._places.lookup_or_add(columns)
        values = self._values.lookup_or_add(columns)
        self._copies = _by_slot(self._copies, values, 0)
        counts = running_counts(values, comes, self._copies[values])
        # After rows have expired, more may be deleted than there are.
        self._copies[values[counts.last]] = np.maximum(counts.after[counts.last], 0)
        numbers = np.where(comes, counts.before, counts.after)
        return self._places.lookup_or_add([pa.array(values), pa.array(numbers)])

    def matches(self, numbers: Numbers) -> Numbers:
        """Return the number of partners of these rows."""
        matches: Numbers = self._mark("matches")[self._positions_of(numbers)]
        return matches

    def at(self, places: Slots) -> Numbers:
        """Return the number of the current row at each place, or -1 if no row exists there."""
        self._newest = _by_slot(self._newest, places, -1)
        numbers = self._newest[places]
        known = numbers >= self.rows.first
        numbers[~known] = -1
        numbers[known] = np.where(self.exist(numbers[known]), numbers[known], -1)
        return numbers

    # --- changes --------------------------------------------------------------------------------------

    def add(
        self,
        slots: Slots,
        rows: Batch,
        stamps: Numbers,
        padded: Mask,
        matches: Numbers,
        places: Slots | None,
    ) -> None:
        """Add these rows; `stamps` are their event times, `matches` their numbers of partners."""
        columns = [*rows.select(self.columns.names).columns, pa.array(stamps)]
        whole = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._add(slots, whole, padded, matches, None, places)

    def _add(
        self,
        slots: Slots,
        rows: Batch,
        padded: Mask,
        matches: Numbers,
        ids: Numbers | None,
        places: Slots | None,
    ) -> None:
        first, count = self.rows.next, rows.num_rows
        if not count:
            return
        there = np.ones(count, np.bool_)
        self._put(slots, rows, ids, there=there, padded=padded, matches=matches, slots=slots)
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
        """Remove these rows, which must exist."""
        self._change(numbers)
        self._forget(numbers)

    def pad(self, numbers: Numbers, padded: Mask) -> None:
        """Set for each of these rows whether it is emitted without a partner from now on."""
        differs = self.padded(numbers) != padded
        numbers, padded = numbers[differs], padded[differs]
        self._change(numbers)
        self._mark("padded")[self._positions_of(numbers)] = padded

    def match(self, numbers: Numbers, matches: Numbers) -> None:
        """Set the number of partners of these rows."""
        self._change(numbers)
        self._mark("matches")[self._positions_of(numbers)] = matches

    def expire(self, reached_ms: int) -> None:
        """Drop the rows whose time to live has ended at this progress of the stream."""
        if self._ttl_ms is None:
            return
        due = self.rows.due(reached_ms - self._ttl_ms)
        self._forget(due[self.exist(due)])
        self._drop(reached_ms - self._ttl_ms)

    def _change(self, numbers: Numbers) -> None:
        self._mark("changed")[self._positions_of(numbers)] = True

    def _forget(self, numbers: Numbers) -> None:
        at = self._positions_of(numbers)
        self._mark("there")[at] = False
        np.subtract.at(self._counts, self._mark("slots")[at], 1)
        self.alive -= len(numbers)

    def rebuild(self, keys: KeySlots) -> None:
        """Copy the current rows, and assign the slots of `keys` to them. The next snapshot is a full
        one, because the rows deleted since the last snapshot are no longer known."""
        segments = list(self._segments())
        names = ("there", "padded", "matches", "ids")
        there, padded, matches, ids = (self._mark(name) for name in names)
        self.clear()
        for _, rows, mine in segments:
            chosen = there[mine]
            left = rows.filter(pa.array(chosen))
            self._restored(left, padded[mine][chosen], matches[mine][chosen], ids[mine][chosen], keys)
        self.force_full()

    def _restored(
        self, rows: Batch, padded: Mask, matches: Numbers, ids: Numbers, keys: KeySlots
    ) -> None:
        if rows.num_rows:
            slots = keys.lookup_or_add([rows.column(key) for key in self.keys])
            all_come = np.ones(rows.num_rows, np.bool_)
            places = None if self.own is None else self.places(rows, all_come)
            self._add(slots, rows, padded, matches, ids, places)

    # --- snapshots ------------------------------------------------------------------------------------

    def shape(self, port: PortType) -> StateShape:
        return keyed_shape(
            port,
            StatePurpose.ROWS,
            columns_shape(self._stored.remove(self._stored.get_field_index(TS))),
        )

    def part(self) -> SnapshotPart:
        """Return the part of the next snapshot."""
        return self._next_part(self.alive)

    def whole(self) -> SnapshotPart:
        """Return a part with all rows. This does not affect the next snapshot."""
        return self._whole()

    def _living(self, rows: Batch, mine: slice) -> Mask:
        living: Mask = self._mark("there")[mine]
        return living

    def _in_delta(self, living: Mask, fresh: Mask, mine: slice) -> Mask:
        return np.where(fresh, living, self._mark("changed")[mine])

    def _stored_marks(self, living: Mask, mine: slice) -> Sequence[npt.NDArray[Any]]:
        names = ["ids", "padded"] if self.keeps else ["ids"]
        names += [] if self._matches is None else ["matches"]
        return [~living, *(self._mark(name)[mine] for name in names)]

    def restore(self, tables: Iterable[pa.Table], keys: KeySlots) -> None:
        found = list(tables)
        if not found:
            return
        groups = np.concatenate([table.column(GROUP).to_numpy() for table in found])
        what = f"rows of the {self.state} side"
        fitting = [fitted(table, self._stored, what) for table in found]
        # Ids of deleted rows are not used again, because a delta may still name them.
        self._next_id = 1 + max(
            int(np.max(each.column(ROW).to_numpy(), initial=-1)) for each in fitting
        )
        rows = last_of_ids(fitting, groups)
        for batch in rows.filter(pc.invert(rows.column(GONE))).combine_chunks().to_batches():
            ids = batch.column(ROW).to_numpy()
            padded, matches = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.int64)
            if self.keeps:
                padded = batch.column(PADDED).to_numpy(zero_copy_only=False)
            if self._matches is not None:
                matches = batch.column(self._matches).to_numpy()
            self._restored(batch.select(self._schema.names), padded, matches, ids, keys)


def _by_slot(values: Numbers, slots: Slots, empty: int) -> Numbers:
    """Return the array, extended to have room for these slots."""
    return with_room(values, int(slots.max(initial=-1)) + 1, empty)


def _without_nulls(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Split a column that may have nulls into two without nulls: its validity and its values."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    there = column.is_valid()
    if column.null_count:
        column = pc.if_else(there, column, any_value(column.type))
    return there, column


def any_value(kind: pa.DataType) -> pa.Scalar:
    """Return the placeholder of a null in a column without nulls."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.scalar("", kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.scalar(b"", kind)
    # A value with all bits zero is valid for every type of fixed width.
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(32))])[0]
