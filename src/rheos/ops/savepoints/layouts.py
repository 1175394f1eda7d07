"""The layouts of operators' state as DataFrames, and the conversion of its tables to such rows.

| state | columns, after those of the key |
|---|---|
| value, reduced record | `value` |
| list | `position`, `value`: a row for each element |
| map | `map_key`, `value`: a row for each entry |
| broadcast state | `map_key`, `value`: a row for each entry |
| operator list and union state | `value`: a row for each element |
| timers | `timestamp_ms`, `domain` ("event" or "processing") |
| buffered rows | the columns of the stream |
| running aggregates | a column for each |
| open windows of a function | the pane, and the columns of the stream |
| rows that a session may still include | the pane, and the columns of the stream |
| open windows, aggregated | the pane, and the aggregates so far |
| fired windows, progress, source positions | as they are stored |

Values, elements and entries of a map that expire have `expires_ms` after their `value`.

The *pane* of a row of window state is `pane_start`, `pane_end` and `first_window_end`. Every window is
made of whole panes; the pane of a tumbling window is the window itself, and that of a session is the
session so far. `first_window_end` is the end of the first window that includes the row. A sum of
integers that exceeds 64 bits there is null.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import SchemaError
from rheos.core.operators.window.frames import KEY_GROUP
from rheos.core.operators.window.progress import FIRED, stored_name
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.protocol.shapes import StatePurpose, StateShape
from rheos.core.protocol.snapshots import StateKind
from rheos.core.state.unkeyed_state import ITEM, VALUE
from rheos.ops.savepoints.window_layouts import cut_of, window_layout
from rheos.runtimes.state_tables.key_columns import plain_column
from rheos.runtimes.state_tables.keyed_layouts import KEYED, keyed_layout_of
from rheos.runtimes.state_tables.state_layout import StateLayout, column_schema
from rheos.runtimes.state_tables.values import values_of


class BroadcastLayout(StateLayout):
    """Layout of broadcast state: a row for each entry."""

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
    """Layout of operator list and union state: a row for each element."""

    def __init__(self, state: str, shape: StateShape, trusted: bool) -> None:
        self._values = values_of(state, shape.value, trusted=trusted)
        self.schema = pa.schema([("value", self._values.kind)])

    def rows(self, table: pa.Table) -> pa.Table:
        values = self._values.decode(table.column(VALUE).to_pylist())
        return pa.Table.from_arrays([values], schema=self.schema)


def layout_of(state: str, shapes: Mapping[str, StateShape], *, trusted: bool = False) -> StateLayout:
    """Return the layout of a state. `shapes` are those of all states of its operator. `trusted` is
    whether pickled rows may run code when they are read. Raise SchemaError if a column has a type that
    DataFrames lack, or if the state's contents are unknown."""
    shape = shapes[state]
    if shape.kind is StateKind.BROADCAST and shape.holds == StatePurpose.MAP:
        return BroadcastLayout(state, shape, trusted)
    if shape.kind is not StateKind.KEYED and shape.holds == StatePurpose.LIST:
        return OperatorListLayout(state, shape, trusted)
    if shape.holds in KEYED:
        return keyed_layout_of(state, shape, trusted=trusted)
    match shape.holds:
        case StatePurpose.ROWS:
            return _Columns(shape)
        case StatePurpose.WINDOW_CONTENT | StatePurpose.UNDECIDED:
            return window_layout(state, shape, shapes[FIRED])
        case StatePurpose.WINDOWS:
            return _FiredLayout(shape)
        case StatePurpose.PROGRESS:
            return _Progress()
        case StatePurpose.POSITIONS:
            return _Positions()
        case StatePurpose.MATCHES:
            raise SchemaError(
                f"state {state!r} contains partial matches, which cannot be shown as rows",
                hint="read the other states of the operator",
            )
        case _:
            raise SchemaError(
                f"state {state!r} contains {shape.holds!r}, which this version of Rheos does not know",
                hint="use the version that wrote it, or a later one",
            )


class _Columns(StateLayout):
    """Layout of rows of the stream."""

    def __init__(self, shape: StateShape) -> None:
        self.schema = column_schema(shape.value.fields)

    def rows(self, table: pa.Table) -> pa.Table:
        return table.select(self.schema.names)


class _FiredLayout(StateLayout):
    """Layout of the time up to which windows of key groups have fired, and of how they are divided."""

    def __init__(self, shape: StateShape) -> None:
        cut = {
            stored_name(name, by): pa.int64() if isinstance(by, int) else pa.string()
            for name, by in cut_of(shape).items()
        }
        stored = {"first_group": pa.int32(), "end_group": pa.int32(), "fired_through": pa.int64()}
        shown = ("first_key_group", "end_key_group", "fired_through_ms")
        behind = cut | {"lateness_ms": pa.int64()}
        self._stored = stored | behind
        self.schema = pa.schema([*zip(shown, stored.values(), strict=True), *behind.items()])

    def rows(self, table: pa.Table) -> pa.Table:
        columns = [
            plain_column(table, name) if name in table.column_names else pa.nulls(table.num_rows, kind)
            for name, kind in self._stored.items()
        ]
        return pa.table(columns, schema=self.schema)


class _Progress(StateLayout):
    """Layout of the time up to which buffered rows were delivered."""

    schema = pa.schema([(KEY_GROUP, pa.int32()), ("watermark_ms", pa.int64())])

    def rows(self, table: pa.Table) -> pa.Table:
        groups = table.column(KEY_GROUP).cast(pa.int32())
        return pa.table([groups, table.column("watermark")], schema=self.schema)


class _Positions(StateLayout):
    """Layout of a source's positions."""

    schema = pa.schema(
        [
            ("split", pa.string()),
            ("position", pa.string()),
            ("max_timestamp_ms", pa.int64()),
            ("finished", pa.bool_()),
        ]
    )

    def rows(self, table: pa.Table) -> pa.Table:
        latest = table.column("max_ts").combine_chunks()
        none = pc.equal(latest, MIN_TIMESTAMP_MS)
        return pa.table(
            [
                table.column("split"),
                pa.array(map(_readable, table.column("position").to_pylist()), pa.string()),
                pc.if_else(none, pa.scalar(None, pa.int64()), latest),
                table.column("finished"),
            ],
            schema=self.schema,
        )


def _readable(position: bytes | None) -> str | None:
    """Return a position as JSON if it is MessagePack, as in most connectors; else in hexadecimal."""
    if position is None:
        return None
    try:
        return msgspec.json.encode(msgspec.msgpack.decode(position)).decode()
    except (msgspec.MsgspecError, TypeError, ValueError):
        return f"0x{position.hex()}"
