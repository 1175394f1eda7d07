"""The layouts of keyed state that can be looked up by its key: declared state, timers, aggregates."""

from __future__ import annotations

import pyarrow as pa

from rheos.connectors.spark.spark_types import spark_arrow_type
from rheos.core.aggregates import KINDS, Agg
from rheos.core.errors import SchemaError
from rheos.core.operators.running_state import AGG
from rheos.core.operators.window.frames import KEY
from rheos.core.protocol.shapes import StatePurpose, StateShape
from rheos.runtimes.state_tables.entry_layouts import ListLayout, MapLayout, TimerLayout, ValueLayout
from rheos.runtimes.state_tables.key_columns import KeyColumns, plain_column
from rheos.runtimes.state_tables.state_layout import StateLayout, arrow_type, unique

KEYED = (
    StatePurpose.VALUE,
    StatePurpose.LIST,
    StatePurpose.MAP,
    StatePurpose.TIMERS,
    StatePurpose.RUNNING,
)
"""Purposes of state with a layout here."""


def keyed_layout_of(state: str, shape: StateShape, *, trusted: bool = False) -> StateLayout:
    """Return a new layout of a keyed state.

    Args:
        state: Name of the state, for errors.
        shape: Its shape, with one of the purposes `KEYED`.
        trusted: Whether pickled rows may run code when they are read.

    Raises:
        SchemaError: A column has a type that cannot be shown.
    """
    match shape.holds:
        case StatePurpose.VALUE:
            return ValueLayout(state, shape, trusted)
        case StatePurpose.LIST:
            return ListLayout(state, shape, trusted)
        case StatePurpose.MAP:
            return MapLayout(state, shape, trusted)
        case StatePurpose.TIMERS:
            return TimerLayout(shape)
        case StatePurpose.RUNNING:
            return RunningLayout(shape)
        case _:
            raise AssertionError(f"keyed state has no layout of {shape.holds}")


class RunningLayout(StateLayout):
    """Layout of running aggregates: a column for each."""

    def __init__(self, shape: StateShape) -> None:
        self._keys = KeyColumns(shape.key)
        fields = list(self._keys.shown)
        self._aggregates: list[tuple[str, type[Agg], pa.DataType]] = []
        names = unique(self._keys.names, [field.name for field in shape.value.fields])
        for field in shape.value.fields:
            agg = _kind_of(field.type.label)
            kind = agg.running_type(arrow_type(field.type.name))
            self._aggregates.append((field.name, agg, kind))
            fields.append(pa.field(names[field.name], spark_arrow_type(kind, field.name)))
        self.schema = pa.schema(fields)

    def rows(self, table: pa.Table) -> pa.Table:
        columns = [_aggregate(table, *aggregate) for aggregate in self._aggregates]
        return pa.table([*self._keys.of_table(table, KEY), *columns], names=self.schema.names)


def _kind_of(label: str) -> type[Agg]:
    """Return the kind of an aggregate, which is stored as "kind(column)"."""
    kind = KINDS.get(label.partition("(")[0])
    if kind is None or not kind.can_run():
        raise SchemaError(
            f"the state contains {label}, a running aggregate that this version of Rheos does not know",
            hint="use the version that wrote it, or a later one",
        )
    return kind


def _aggregate(table: pa.Table, name: str, agg: type[Agg], kind: pa.DataType) -> pa.Array:
    """Return the value of a running aggregate, from the parts of its cell."""
    prefix = f"{AGG}{name}."
    parts = {
        column.removeprefix(prefix): plain_column(table, column)
        for column in table.column_names
        if column.startswith(prefix) and "." not in column.removeprefix(prefix)
    }
    return agg.running_value(parts, kind) if parts else pa.nulls(table.num_rows, kind)
