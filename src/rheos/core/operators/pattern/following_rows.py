"""Columns of following rows. The newest rows of each key are undecided until these rows have arrived.

A row is decided, and reaches the matcher, when as many rows of its key follow as conditions read. The
end of the input decides all rows: there the missing values are null. So the state always has the newest
rows of every key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from rheos.core.graph.patterns import Following
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.fitting import fitted
from rheos.core.protocol.elements import TS, Batch
from rheos.core.protocol.snapshots import PartMode, SnapshotPart
from rheos.core.state.key_index import KeyIndex
from rheos.core.state.keys import KeyCodec
from rheos.core.state.numbered_rows import Numbers
from rheos.core.state.parts import by_group, keyed_part
from rheos.core.state.slots import Slots

UNDECIDED = "undecided"
"""Name of the state that holds undecided rows."""


def following_types(following: Sequence[Following], schema: pa.Schema) -> list[pa.Field]:
    return [pa.field(each.name, schema.field(each.column).type) for each in following]


class FollowingRows:
    """The undecided rows of one subtask, in the order of each key."""

    def __init__(self, ctx: OperatorContext, following: Sequence[Following], schema: pa.Schema) -> None:
        """Create the state without rows. `schema` is that of the rows, with their time."""
        self._following, self._schema = following, schema
        self._most = max(each.ahead for each in following)
        port = ctx.ports[0]
        self._key_names, self._max_parallelism = port.keys, ctx.max_parallelism
        self._key_types = KeyCodec(port.schema, port.keys).types
        self.clear()

    def clear(self) -> None:
        """Forget all rows and keys."""
        self._keys = KeyIndex(self._key_types)
        self._rows: Batch = pa.RecordBatch.from_pylist([], self._schema)
        self._slots: Slots = np.zeros(0, np.int32)

    def decided(self, rows: Batch) -> Batch:
        """Add further rows, which are in order. Return the rows that are now decided, with the columns
        of their following rows."""
        columns = [rows.column(name) for name in self._schema.names]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        slots = self._keys.lookup_or_add(self._keys_of(rows))
        # Rows of other keys remain undecided.
        concerned = np.isin(self._slots, slots)
        idle, idle_slots = self._rows.filter(pa.array(~concerned)), self._slots[~concerned]
        rows = pa.concat_batches([self._rows.filter(pa.array(concerned)), rows])
        slots = np.concatenate([self._slots[concerned], slots])
        known = _places_ahead(slots, self._most) >= 0
        self._rows = pa.concat_batches([idle, rows.filter(pa.array(~known))])
        self._slots = np.concatenate([idle_slots, slots[~known]])
        return self._with_following(rows, slots).filter(pa.array(known))

    def rest(self) -> Batch:
        """Return all undecided rows, after which no row follows, and forget them."""
        rows = self._with_following(self._rows, self._slots)
        self.clear()
        return rows

    def _with_following(self, rows: Batch, slots: Slots) -> Batch:
        wide = rows
        for each in self._following:
            places = _places_ahead(slots, each.ahead)
            values = rows.column(each.column).take(pa.array(places, mask=places < 0))
            wide = wide.append_column(each.name, values)
        return wide

    def _keys_of(self, rows: Batch) -> list[pa.Array]:
        return [rows.column(key) for key in self._key_names]

    def keys_and_times(self) -> tuple[list[pa.Array], Numbers]:
        """Return the keys and times of the undecided rows."""
        return self._keys_of(self._rows), self._rows.column(TS).to_numpy()

    def part(self) -> SnapshotPart:
        """Return all undecided rows as a part of a snapshot."""
        rows, keys, most = self._rows, self._key_names, self._max_parallelism
        return keyed_part(UNDECIDED, PartMode.FULL, len(rows), lambda: by_group(rows, keys, most))

    def restore(self, stored: Iterable[pa.Table]) -> None:
        self.clear()
        for table in stored:
            batches = fitted(table, self._schema, "undecided rows").combine_chunks().to_batches()
            self._rows = pa.concat_batches([self._rows, *batches])
        self._slots = self._keys.lookup_or_add(self._keys_of(self._rows))


def _places_ahead(slots: Slots, ahead: int) -> Numbers:
    """Return the place of the row that follows each row within its key at this distance, or -1."""
    order = np.argsort(slots, kind="stable")
    of_key = slots[order]
    found = np.full(len(slots), -1, np.int64)
    if ahead < len(slots):
        same = of_key[:-ahead] == of_key[ahead:]
        found[order[:-ahead][same]] = order[ahead:][same]
    return found
