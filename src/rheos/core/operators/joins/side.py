"""One side of a join as state: its rows, and which of them have had a partner.

Expired rows are recognised by the watermark of their key group, which every snapshot stores anew
(`group_progress`). A side that also emits rows without a partner marks those that have had one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.operators.contract import PortType
from rheos.core.operators.fitting import fitted
from rheos.core.operators.group_progress import GroupProgress
from rheos.core.operators.keyed_state import columns_shape, keyed_shape
from rheos.core.protocol.elements import TS, Batch, visible
from rheos.core.protocol.shapes import StatePurpose, StateShape
from rheos.core.protocol.snapshots import SnapshotPart
from rheos.core.state.key_index import KeySlots
from rheos.core.state.marked_rows import ROW, MarkedRows, Mask, last_of_ids
from rheos.core.state.numbered_rows import Numbers
from rheos.core.state.parts import GROUP
from rheos.core.state.slots import Slots
from rheos.core.state.spill import SpillFolder
from rheos.core.state.timed_rows import Matches

MATCHED = "__matched"
_STORED = [pa.field(MATCHED, pa.bool_(), False), pa.field(ROW, pa.int64(), False)]
_MARKS = {"matched": np.bool_, "changed": np.bool_, "ids": np.int64}


class JoinSide(MarkedRows):
    """The stored rows of one input port of a join."""

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
        """Create a side without rows.

        Args:
            state: Name of the state in snapshots.
            port: Input port of the rows.
            keeps: Whether rows without a partner are emitted, too.
            reach_ms: Maximum time in ms from a row to its last possible partner.
            max_parallelism: Number of key groups.
            folder: Folder for rows that exceed the memory limit.
        """
        super().__init__(
            state,
            pa.schema([*visible(port.schema), (TS, pa.int64())]),
            _STORED if keeps else (),
            _MARKS if keeps else {},
            keys=port.keys,
            max_parallelism=max_parallelism,
            folder=folder,
        )
        self.keyed_at = port.keyed_at
        self.keeps = keeps
        self.reach_ms = reach_ms

    # --- rows -----------------------------------------------------------------------------------------

    def add(self, slots: Slots, batch: Batch, matched: Mask) -> None:
        """Add rows; `matched` marks those that have a partner."""
        self._put(slots, batch.select(self._schema.names), None, matched=matched)

    def find(self, slots: Slots, low: Numbers, high: Numbers) -> Matches:
        """Return, for each look-up, the rows of its slot from one time to another."""
        return self.rows.find(slots, low, high)

    def match(self, numbers: Numbers) -> None:
        """Mark rows that have a partner."""
        if self.keeps:
            at, matched = self._positions_of(numbers), self._mark("matched")
            self._mark("changed")[at] |= ~matched[at]
            matched[at] = True

    def alone(self, watermark_ms: int) -> Numbers:
        """Return each row that has no partner and cannot find one after the watermark. A row is
        returned only once."""
        if not self.keeps:
            return np.zeros(0, np.int64)
        due = self.rows.due(watermark_ms - self.reach_ms)
        found: Numbers = due[~self._mark("matched")[self._positions_of(due)]]
        return found

    def drop(self, watermark_ms: int) -> None:
        """Drop rows that can find no further partner."""
        self._drop(watermark_ms - self.reach_ms)

    def alive(self, watermark_ms: int) -> int:
        """Return the number of rows that may find a partner."""
        return self.rows.alive(watermark_ms - self.reach_ms)

    def rebuild(self, keys: KeySlots, watermark_ms: int) -> None:
        """Copy the rows that may find a partner, and assign the slots of `keys` to them."""
        self._until_ms = watermark_ms - self.reach_ms
        segments, settled = list(self._segments()), self._settled
        marks = {name: self._mark(name) for name in self._marks}
        self.clear()
        for first, rows, mine in segments:
            chosen = self._living(rows, mine)
            self._settled += int(np.count_nonzero(chosen[: max(settled - first, 0)]))
            if not chosen.any():
                continue
            left = rows.filter(pa.array(chosen))
            self._add(left, keys, {name: values[mine][chosen] for name, values in marks.items()})

    def _add(self, rows: Batch, keys: KeySlots, marks: dict[str, npt.NDArray[Any]]) -> None:
        slots = keys.lookup_or_add([rows.column(key) for key in self.keys])
        changed, ids = marks.pop("changed", None), marks.pop("ids", None)
        self._put(slots, rows, ids, **marks)
        if changed is not None:
            self._marks["changed"].since(self.rows.next - rows.num_rows)[:] = changed

    # --- snapshots ------------------------------------------------------------------------------------

    def shape(self, port: PortType) -> StateShape:
        """Return the shape of the stored rows."""
        schema = visible(port.schema)
        if self.keeps:
            schema = pa.schema([*schema, *_STORED])
        return keyed_shape(port, StatePurpose.ROWS, columns_shape(schema))

    def part(self, watermark_ms: int) -> SnapshotPart:
        """Return the part of the next snapshot."""
        self._until_ms = watermark_ms - self.reach_ms
        return self._next_part(self.alive(watermark_ms))

    def whole(self, watermark_ms: int) -> SnapshotPart:
        """Return a part with all rows. This does not affect the next snapshot."""
        self._until_ms = watermark_ms - self.reach_ms
        return self._whole()

    def _living(self, rows: Batch, mine: slice) -> Mask:
        living: Mask = rows.column(TS).to_numpy() > self._until_ms
        return living

    def _in_delta(self, living: Mask, fresh: Mask, mine: slice) -> Mask:
        return living & (fresh | self._mark("changed")[mine]) if self.keeps else living & fresh

    def _stored_marks(self, living: Mask, mine: slice) -> Sequence[npt.NDArray[Any]]:
        return [self._mark(name)[mine] for name in ("matched", "ids")] if self.keeps else []

    def restore(self, tables: Iterable[pa.Table], behind: GroupProgress, keys: KeySlots) -> None:
        """Add the rows of all parts. `behind` is the stored progress of their key groups."""
        what = f"rows of the {self.state} side"
        found: Iterable[pa.Table] = (self._waiting(table, behind) for table in tables)
        if self.keeps and (kept := list(found)):
            groups = np.concatenate([table.column(GROUP).to_numpy() for table in kept])
            found = [last_of_ids([fitted(each, self._stored, what) for each in kept], groups)]
        for table in found:
            for batch in fitted(table, self._stored, what).combine_chunks().to_batches():
                marks = {}
                if self.keeps:
                    marks["matched"] = batch.column(MATCHED).to_numpy(False)
                    marks["ids"] = batch.column(ROW).to_numpy()
                self._add(batch.select(self._schema.names), keys, marks)

    def _waiting(self, table: pa.Table, behind: GroupProgress) -> pa.Table:
        """Return the rows that could still find a partner when the last snapshot was taken."""
        if ROW in table.column_names and table.num_rows:
            # Ids of deleted rows are not used again, because a delta may still name them.
            self._next_id = max(self._next_id, int(np.max(table.column(ROW).to_numpy())) + 1)
        waits = table.column(TS).to_numpy() + self.reach_ms > behind.of_stored(table)
        return table.filter(pa.array(waits))
