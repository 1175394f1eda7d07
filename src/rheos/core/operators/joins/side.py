"""One side of a join as state: its rows, which of them have had a partner, and the parts of snapshots.

A chain of parts holds what has arrived. What has gone since is known by the watermark of each key
group, which every snapshot writes again (`group_progress`). A side whose rows are given without a
partner, too, gives each row an id, and a row that has found its partner is written once more: of the
rows of one id the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.operators.contract import PortType
from rheos.core.operators.fitting import fitted
from rheos.core.operators.group_progress import GROUP, GroupProgress
from rheos.core.operators.joins.growing import Growing
from rheos.core.operators.joins.numbered import Numbers
from rheos.core.operators.joins.timed_rows import Matches, TimedRows
from rheos.core.operators.keyed_state import columns_shape, keyed_shape
from rheos.core.operators.spill import SpillFolder
from rheos.core.protocol.elements import TS, Batch, visible
from rheos.core.protocol.shapes import Holds, StateShape
from rheos.core.protocol.snapshots import PartMode, SnapshotPart, StateKind
from rheos.core.state.key_groups import key_groups
from rheos.core.state.key_index import KeySlots
from rheos.core.state.parts import DeltaChain
from rheos.core.state.slots import Slots

MATCHED = "__matched"
ROW = "__row"
_MARKS = pa.schema([pa.field(MATCHED, pa.bool_(), False), pa.field(ROW, pa.int64(), False)])
"""Columns of stored rows that may be given without a partner."""

_TABLE_ROWS = 1 << 18
"""Parts are written in tables of at least so many rows, but for the last."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FrozenSegment:
    """Rows of a segment for a part; nothing changes them any more."""

    rows: Batch
    chosen: Mask
    marks: Sequence[npt.NDArray[np.generic]]


class JoinSide:
    """The rows of one port."""

    def __init__(
        self,
        state: str,
        port: PortType,
        *,
        keeps: bool,
        reach_ms: int,
        max_parallelism: int,
        folder: SpillFolder | None,
    ) -> None:
        """`keeps`: whether its rows are given without a partner, too. `reach_ms`: so long after the
        time of a row its last partner comes."""
        self.state = state
        self.keys = port.keys
        self.keyed_at = port.keyed_at
        self.keeps = keeps
        self.reach_ms = reach_ms
        self._max_parallelism = max_parallelism
        self._folder = folder
        self._schema = pa.schema([*visible(port.schema), (TS, pa.int64())])
        self._chain = DeltaChain()
        self.clear()

    def clear(self) -> None:
        """Drops all rows."""
        self.rows = TimedRows(self._schema, self._folder)
        # By number, where rows are kept without a partner:
        self._matched = Growing(np.bool_)
        self._changed = Growing(np.bool_)
        self._ids = Growing(np.int64)
        self._next_id = 0
        self._settled = 0
        """Rows of lower numbers are in the last snapshot."""

    def __len__(self) -> int:
        return self.rows.kept

    # --- rows -----------------------------------------------------------------------------------------

    def add(self, slots: Slots, batch: Batch, matched: Mask) -> None:
        self._add(slots, batch.select(self._schema.names), matched, None)

    def _add(self, slots: Slots, rows: Batch, matched: Mask, ids: Numbers | None) -> None:
        self.rows.add(slots, rows)
        if not self.keeps:
            return
        if ids is None:
            ids = np.arange(self._next_id, self._next_id + rows.num_rows)
            self._next_id += rows.num_rows
        self._ids.add(ids)
        self._matched.add(matched)
        self._changed.add(np.zeros(rows.num_rows, np.bool_))

    def find(self, slots: Slots, low: Numbers, high: Numbers) -> Matches:
        return self.rows.find(slots, low, high)

    def match(self, numbers: Numbers) -> None:
        """These rows have a partner."""
        if self.keeps:
            at = numbers - self._matched.first
            matched = self._matched.all()
            self._changed.all()[at] |= ~matched[at]
            matched[at] = True

    def alone(self, watermark_ms: int) -> Numbers:
        """The rows that have no partner, and will have none once the watermark is there. Each is given
        once."""
        if not self.keeps:
            return np.zeros(0, np.int64)
        due = self.rows.due(watermark_ms - self.reach_ms)
        return due[~self._matched.all()[due - self._matched.first]]

    def drop(self, watermark_ms: int) -> None:
        """Lets go of rows that find no partner any more."""
        self.rows.drop(watermark_ms - self.reach_ms)
        for marks in (self._matched, self._changed, self._ids):
            if self.keeps:
                marks.drop_before(self.rows.first)

    def alive(self, watermark_ms: int) -> int:
        return self.rows.alive(watermark_ms - self.reach_ms)

    def rebuild(self, keys: KeySlots, watermark_ms: int) -> None:
        """Copies the rows that may find a partner, with slots of other keys."""
        until_ms = watermark_ms - self.reach_ms
        old, settled = self.rows, self._settled
        marks = [each.all() for each in (self._matched, self._changed, self._ids)]
        next_id = self._next_id
        self.clear()
        self._next_id = next_id
        for first, rows in old.segments():
            chosen = rows.column(TS).to_numpy() > until_ms
            self._settled += int(np.count_nonzero(chosen[: max(settled - first, 0)]))
            if not chosen.any():
                continue
            left = rows.filter(pa.array(chosen))
            mine = slice(first - old.first, first - old.first + len(chosen)) if self.keeps else slice(0)
            matched, changed, ids = (each[mine][chosen] if self.keeps else each[mine] for each in marks)
            slots = keys.lookup_or_add([left.column(key) for key in self.keys])
            self._add(slots, left, matched, ids)
            if self.keeps:
                self._changed.since(self.rows.next - left.num_rows)[:] = changed

    # --- snapshots ------------------------------------------------------------------------------------

    def shape(self, port: PortType) -> StateShape:
        schema = visible(port.schema)
        if self.keeps:
            schema = pa.schema([*schema, *_MARKS])
        return keyed_shape(port, Holds.ROWS, columns_shape(schema))

    def part(self, watermark_ms: int) -> SnapshotPart:
        """What the next snapshot holds."""
        fresh = self.rows.next - max(self._settled, self.rows.first)
        again = int(np.count_nonzero(self._changed.all())) if self.keeps else 0
        full = self._chain.next_is_full(fresh + again, self.alive(watermark_ms))
        mode = PartMode.FULL if full else PartMode.DELTA
        part = self._part(mode, list(self._frozen(watermark_ms, mode)))
        self._settled = self.rows.next
        self._changed.all()[:] = False
        return part

    def whole(self, watermark_ms: int) -> SnapshotPart:
        """All rows. The next snapshot is what it would have been without."""
        frozen = list(self._frozen(watermark_ms, PartMode.FULL))
        return self._made(PartMode.FULL, frozen)

    def force_full(self) -> None:
        self._chain.force_full()

    def _frozen(self, watermark_ms: int, mode: PartMode) -> Iterator[FrozenSegment]:
        until_ms = watermark_ms - self.reach_ms
        for first, rows in self.rows.segments():
            chosen = rows.column(TS).to_numpy() > until_ms
            place = first - self.rows.first
            mine = slice(place, place + rows.num_rows)
            if mode is PartMode.DELTA:
                wanted = np.arange(first, first + rows.num_rows) >= self._settled
                if self.keeps:
                    wanted |= self._changed.all()[mine]
                chosen &= wanted
            if chosen.any():
                of_marks = (self._matched, self._ids) if self.keeps else ()
                yield FrozenSegment(rows, chosen, [marks.all()[mine][chosen] for marks in of_marks])

    def _part(self, mode: PartMode, frozen: Sequence[FrozenSegment]) -> SnapshotPart:
        self._chain.taken(mode, sum(int(np.count_nonzero(each.chosen)) for each in frozen))
        return self._made(mode, frozen)

    def _made(self, mode: PartMode, frozen: Sequence[FrozenSegment]) -> SnapshotPart:
        schema = pa.schema([*self._schema, *_MARKS]) if self.keeps else self._schema
        return part_of_rows(self.state, mode, frozen, schema, self.keys, self._max_parallelism)

    def restore(self, tables: Iterable[pa.Table], behind: GroupProgress, keys: KeySlots) -> None:
        what = f"rows of the {self.state} side"
        if not self.keeps:
            for table in tables:
                self._restore(fitted(self._waiting(table, behind), self._schema, what), keys)
            return
        schema = pa.schema([*self._schema, *_MARKS])
        found = [self._waiting(table, behind) for table in tables]
        if not found:
            return
        groups = np.concatenate([table.column(GROUP).to_numpy() for table in found])
        rows = pa.concat_tables([fitted(table, schema, what) for table in found])
        self._restore(last_of_ids(rows, groups), keys)

    def _waiting(self, table: pa.Table, behind: GroupProgress) -> pa.Table:
        """The rows that were not done with when the last snapshot was taken."""
        if ROW in table.column_names and table.num_rows:
            # Ids of rows that are gone are not given again: a delta may still name them.
            self._next_id = max(self._next_id, int(np.max(table.column(ROW).to_numpy())) + 1)
        waits = table.column(TS).to_numpy() + self.reach_ms > behind.of_stored(table)
        return table.filter(pa.array(waits))

    def _restore(self, table: pa.Table, keys: KeySlots) -> None:
        for batch in table.combine_chunks().to_batches():
            slots = keys.lookup_or_add([batch.column(key) for key in self.keys])
            rows = batch.select(self._schema.names)
            if self.keeps:
                matched, ids = batch.column(MATCHED).to_numpy(False), batch.column(ROW).to_numpy()
                self._add(slots, rows, matched, ids)
            else:
                self.rows.add(slots, rows)


def part_of_rows(
    state: str,
    mode: PartMode,
    frozen: Sequence[FrozenSegment],
    schema: pa.Schema,
    keys: Sequence[str],
    max_parallelism: int,
) -> SnapshotPart:
    """The part of a snapshot with these rows; `schema` has the columns of their marks, too."""
    write = partial(_tables, frozen, schema, keys, max_parallelism)
    unchanged = mode is PartMode.DELTA and not frozen
    return SnapshotPart(state, StateKind.KEYED, write, mode, unchanged)


def _tables(
    frozen: Sequence[FrozenSegment], schema: pa.Schema, keys: Sequence[str], max_parallelism: int
) -> Iterator[pa.Table]:
    """The rows of a part by key group, in tables of bounded size: their columns, and behind them those
    of their marks."""
    waiting: list[Batch] = [pa.RecordBatch.from_pylist([], schema)]
    rows = 0
    for number, each in enumerate(frozen, 1):
        left = each.rows.filter(pa.array(each.chosen))
        marks = [pa.array(values) for values in each.marks]
        waiting.append(pa.RecordBatch.from_arrays([*left.columns, *marks], schema=schema))
        rows += left.num_rows
        if rows >= _TABLE_ROWS and number < len(frozen):
            yield _by_group(pa.concat_batches(waiting), keys, max_parallelism)
            waiting, rows = [], 0
    yield _by_group(pa.concat_batches(waiting), keys, max_parallelism)


def last_of_ids(rows: pa.Table, groups: npt.NDArray[np.uint16]) -> pa.Table:
    """Of the rows of one id of a key group the one written last, in the order of writing."""
    ids = rows.column(ROW).to_numpy()
    order = np.lexsort((ids, groups))
    last = np.ones(len(order), np.bool_)
    last[:-1] = (ids[order][1:] != ids[order][:-1]) | (groups[order][1:] != groups[order][:-1])
    return rows.take(pa.array(np.sort(order[last])))


def _by_group(rows: Batch, keys: Sequence[str], max_parallelism: int) -> pa.Table:
    groups: npt.NDArray[np.uint16] = np.zeros(0, np.uint16)
    if rows.num_rows:
        groups = key_groups(rows, keys, max_parallelism)
    order = pa.array(np.argsort(groups, kind="stable"))
    table = pa.Table.from_batches([rows.take(order)])
    return table.add_column(0, GROUP, pa.array(groups).take(order))
