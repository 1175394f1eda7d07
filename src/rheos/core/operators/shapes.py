"""What state the operators of a plan keep, made from what the program says of them.

The names are those of the parts that the operators' snapshots give.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, assert_never

import polars as pl
import pyarrow as pa

from rheos.core.errors import RheosError, Site
from rheos.core.graph.nodes import (
    EventTimeSpec,
    ExpressionSpec,
    MapBatchesSpec,
    MapSpec,
    OwnSpec,
    ProcessSpec,
    ReduceSpec,
    RunningSpec,
    SinkSpec,
    SourceSpec,
    Spec,
    UnionSpec,
    WindowSpec,
)
from rheos.core.graph.types import canonical
from rheos.core.graph.windows import Watermark
from rheos.core.operators.ahead_rows import AHEAD
from rheos.core.operators.contract import OperatorSpec, PortType
from rheos.core.operators.event_time import LATEST
from rheos.core.operators.ingestion_time import INGESTED
from rheos.core.operators.keyed import function_shapes
from rheos.core.operators.keyed_state import columns_shape, keyed_shape
from rheos.core.operators.reduce import REDUCED
from rheos.core.operators.rows_by_time import held_shapes
from rheos.core.operators.running import STATE as RUNNING
from rheos.core.operators.running_state import running_shape
from rheos.core.operators.source_split import SPLITS
from rheos.core.operators.watermarks import GENERATORS
from rheos.core.operators.window.contract import Cut, MergingWindows
from rheos.core.operators.window.frames import empty_frame, key_names
from rheos.core.operators.window.kinds import windows_of
from rheos.core.operators.window.process import STATE as WINDOW_ROWS
from rheos.core.operators.window.progress import FIRED
from rheos.core.operators.window.tables import AggregateTable, KeptTable, Tables
from rheos.core.operators.window.undecided import STATE as UNDECIDED
from rheos.core.protocol.elements import visible
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.polars_frames import arrow_table
from rheos.core.protocol.shapes import (
    AGGREGATES,
    ROWS_OF_AGGREGATES,
    FieldShape,
    Holds,
    StateShape,
    TypeShape,
)
from rheos.core.protocol.snapshots import StateKind
from rheos.core.state.describe import type_shape

States = dict[str, StateShape]


class OperatorPlan(Protocol):
    """What is asked of a planned operator."""

    @property
    def id(self) -> OperatorId: ...
    @property
    def name(self) -> str: ...
    @property
    def site(self) -> Site: ...
    @property
    def spec(self) -> Spec: ...
    @property
    def ports(self) -> tuple[PortType, ...]: ...


def state_shapes(operators: Iterable[OperatorPlan]) -> dict[OperatorId, States]:
    """By operator and state; operators without state are not in it.

    Raises SchemaError, with its place, where a declared state cannot be stored.
    """
    found = {}
    for operator in operators:
        try:
            states = _states(operator.spec, operator.ports)
        except RheosError as error:
            raise error.located(site=operator.site, operator=operator.name) from error.__cause__
        if states:
            found[operator.id] = states
    return found


def _reached(watermark: Watermark | None) -> States:
    """What is kept of how far rows say that event time has come."""
    if watermark is None:
        return {}
    ahead: States = {}
    if watermark.max_ahead is not None:
        of_splits = TypeShape(name="latest times of splits")
        ahead[AHEAD] = StateShape(kind=StateKind.UNION, holds=Holds.PROGRESS, value=of_splits)
    if watermark.on is None:
        value = TypeShape(name="ingestion time", label="")
        return {INGESTED: StateShape(kind=StateKind.UNION, holds=Holds.PROGRESS, value=value)}
    if watermark.generated_by is None:
        return ahead
    value = TypeShape(name="generator", label=type(watermark.generated_by).__name__)
    return {**ahead, GENERATORS: StateShape(kind=StateKind.UNION, holds=Holds.PROGRESS, value=value)}


def _states(spec: Spec, ports: Sequence[PortType]) -> States:
    match spec:
        case SourceSpec(source=source):
            value = TypeShape(name="source", label=source.positions())
            positions = StateShape(kind=StateKind.UNION, holds=Holds.POSITIONS, value=value)
            return {SPLITS: positions, **_reached(spec.watermark)}
        case EventTimeSpec(watermark=watermark):
            value = TypeShape(name="event time", label=watermark.read_from)
            latest = StateShape(kind=StateKind.UNION, holds=Holds.PROGRESS, value=value)
            return {LATEST: latest, **_reached(watermark)}
        case ProcessSpec():
            return _process(spec, ports[0])
        case ReduceSpec():
            return {REDUCED: keyed_shape(ports[0], Holds.VALUE, _reduced(spec, ports[0].schema))}
        case RunningSpec():
            return {RUNNING: running_shape(ports[0], spec.aggregates, ports[0].schema)}
        case WindowSpec():
            return window_states(spec, ports[0])
        case OwnSpec():
            assert isinstance(spec, OperatorSpec), f"{spec.kind} cannot be made"
            return spec.states(ports)
        case ExpressionSpec() | MapSpec() | MapBatchesSpec() | UnionSpec() | SinkSpec():
            return {}
        case _:
            assert_never(spec)


# --- process and reduce -----------------------------------------------------------------------------


def _process(spec: ProcessSpec, port: PortType) -> States:
    states = function_shapes(port, spec.fn)
    if spec.order == "event_time":
        states |= held_shapes([port])
    return states


def _reduced(spec: ReduceSpec, schema: pa.Schema) -> TypeShape:
    """Records without a class are pickled as light rows, which know their columns."""
    if spec.record is not None:
        return type_shape(REDUCED, spec.record)
    fields = [
        FieldShape(name=field.name, type=TypeShape(name=str(canonical(field.type))))
        for field in visible(schema)
    ]
    return TypeShape(name="row", fields=fields)


# --- aggregates and windows -------------------------------------------------------------------------


def window_states(spec: WindowSpec, port: PortType) -> States:
    """Of windows with aggregates, or of such as keep their rows for a function."""
    cut: Cut = {**spec.window.cut, "lateness": spec.lateness_ms}
    fields = [
        FieldShape(
            name=name, type=TypeShape(name="ms" if isinstance(by, int) else "word", label=str(by))
        )
        for name, by in cut.items()
    ]
    windows = TypeShape(name="windows", label=spec.window.kind, fields=fields)
    states = {FIRED: StateShape(kind=StateKind.UNION, holds=Holds.WINDOWS, value=windows)}
    kind = windows_of(spec.window)
    if isinstance(kind, MergingWindows):
        states[UNDECIDED] = keyed_shape(port, Holds.UNDECIDED, columns_shape(visible(port.schema)))
    if spec.fn is not None:
        states[WINDOW_ROWS] = keyed_shape(
            port, Holds.WINDOW_CONTENT, columns_shape(visible(port.schema))
        )
        return states
    tables = Tables(key_names(port.keys), spec.aggregates, port.schema, kind)
    inside = dict(zip(key_names(port.keys), port.keys, strict=True)) | tables.inputs
    nothing = empty_frame(port.schema, inside)
    totals = tables.totals
    for table in (totals, *tables.others):
        states[table.name] = keyed_shape(port, Holds.WINDOW_CONTENT, _stored(table, nothing))
    if totals.has_exact:
        limbs = TypeShape(name="limbs of exact sums")
        states[totals.sums_name] = keyed_shape(port, Holds.WINDOW_CONTENT, limbs, exact=True)
    return states


def _stored(table: AggregateTable, nothing: pl.DataFrame) -> TypeShape:
    """The columns that a table of aggregates must have."""
    made = arrow_table(table.partial(nothing, ())).schema
    fields = [
        FieldShape(name=name, type=TypeShape(name=str(canonical(made.field(name).type))))
        for name in table.required
    ]
    label = ROWS_OF_AGGREGATES if isinstance(table, KeptTable) else AGGREGATES
    return TypeShape(name="columns", label=label, fields=fields)
