"""The shapes of the state that windows keep, as their snapshots describe it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rheos.core.graph.types import canonical
from rheos.core.operators.contract import PortType
from rheos.core.operators.keyed_state import columns_shape, keyed_shape
from rheos.core.operators.window.aggregate_tables import Tables
from rheos.core.operators.window.contract import Cut, MergingWindows
from rheos.core.operators.window.frames import empty_frame, key_names
from rheos.core.operators.window.kinds import windows_of
from rheos.core.operators.window.late_candidates import STATE as UNDECIDED
from rheos.core.operators.window.process import STATE as WINDOW_ROWS
from rheos.core.operators.window.progress import FIRED
from rheos.core.operators.window.row_tables import KeptTable
from rheos.core.operators.window.table_contract import AggregateTable
from rheos.core.protocol.elements import visible
from rheos.core.protocol.polars_frames import arrow_table
from rheos.core.protocol.shapes import (
    AGGREGATES,
    ROWS_OF_AGGREGATES,
    FieldShape,
    StatePurpose,
    StateShape,
    TypeShape,
)
from rheos.core.protocol.snapshots import StateKind

if TYPE_CHECKING:
    from rheos.core.operators.window.spec import WindowSpec


def window_states(spec: WindowSpec, port: PortType) -> dict[str, StateShape]:
    """Return the shapes of the state of windows: aggregates, or the rows for a function."""
    cut: Cut = {**spec.window.cut, "lateness": spec.lateness_ms}
    fields = [
        FieldShape(
            name=name, type=TypeShape(name="ms" if isinstance(by, int) else "word", label=str(by))
        )
        for name, by in cut.items()
    ]
    by_clock: list[str] = [] if spec.window.time == "event_time" else [spec.window.time]
    windows = TypeShape(name="windows", label=spec.window.kind, fields=fields, members=by_clock)
    states = {FIRED: StateShape(kind=StateKind.UNION, holds=StatePurpose.WINDOWS, value=windows)}
    kind = windows_of(spec.window)
    if isinstance(kind, MergingWindows) and not by_clock:
        states[UNDECIDED] = keyed_shape(
            port, StatePurpose.UNDECIDED, columns_shape(visible(port.schema))
        )
    if spec.fn is not None:
        states[WINDOW_ROWS] = keyed_shape(
            port, StatePurpose.WINDOW_CONTENT, columns_shape(visible(port.schema))
        )
        return states
    tables = Tables(key_names(port.keys), spec.aggregates, port.schema, kind)
    inside = dict(zip(key_names(port.keys), port.keys, strict=True)) | tables.inputs
    nothing = empty_frame(port.schema, inside)
    totals = tables.totals
    for table in (totals, *tables.others):
        states[table.name] = keyed_shape(port, StatePurpose.WINDOW_CONTENT, _stored(table, nothing))
    if totals.has_exact:
        limbs = TypeShape(name="limbs of exact sums")
        states[totals.sums_name] = keyed_shape(port, StatePurpose.WINDOW_CONTENT, limbs, exact=True)
    return states


def _stored(table: AggregateTable, nothing: pl.DataFrame) -> TypeShape:
    """Return the columns that a table of aggregates must have."""
    made = arrow_table(table.partial(nothing, ())).schema
    fields = [
        FieldShape(name=name, type=TypeShape(name=str(canonical(made.field(name).type))))
        for name in table.required
    ]
    label = ROWS_OF_AGGREGATES if isinstance(table, KeptTable) else AGGREGATES
    return TypeShape(name="columns", label=label, fields=fields)
