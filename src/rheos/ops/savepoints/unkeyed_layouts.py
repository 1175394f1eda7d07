"""The layouts of state without a key: broadcast state, and the lists of operator state."""

from __future__ import annotations

import pyarrow as pa

from rheos.core.protocol.shapes import StateShape
from rheos.core.state.unkeyed import ITEM, VALUE
from rheos.ops.savepoints.state_layout import StateLayout
from rheos.ops.savepoints.values import values_of


class BroadcastLayout(StateLayout):
    """A row for each entry."""

    def __init__(self, state: str, shape: StateShape, trusted: bool) -> None:
        item, value = shape.value.args
        self._items = values_of(state, item, trusted=trusted)
        self._values = values_of(state, value, trusted=trusted)
        self.schema = pa.schema([("map_key", self._items.kind), ("value", self._values.kind)])

    def rows(self, table: pa.Table) -> pa.Table:
        items, values = (table.column(name).to_pylist() for name in (ITEM, VALUE))
        columns = [self._items.decode(items), self._values.decode(values)]
        return pa.Table.from_arrays(columns, schema=self.schema)


class OperatorListLayout(StateLayout):
    """A row for each element."""

    def __init__(self, state: str, shape: StateShape, trusted: bool) -> None:
        self._values = values_of(state, shape.value, trusted=trusted)
        self.schema = pa.schema([("value", self._values.kind)])

    def rows(self, table: pa.Table) -> pa.Table:
        values = self._values.decode(table.column(VALUE).to_pylist())
        return pa.Table.from_arrays([values], schema=self.schema)
