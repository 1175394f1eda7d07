"""The kinds of operators that continue an aggregation or a deduplication of a query.

Each writes the rows of Spark's state into a new savepoint. An operator of the job corresponds to one of
the query by its kind, then by its key columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from rheos.connectors.spark.spark_types import arrow_schema
from rheos.core.aggregates.contract import Agg
from rheos.core.errors import ConfigurationError, SchemaError
from rheos.core.graph.windows import Sliding, Tumbling
from rheos.core.operators.changelog.dedup import FORGOTTEN, DedupSpec
from rheos.core.operators.contract import OperatorSpec
from rheos.core.operators.group_progress import WATERMARK
from rheos.core.operators.running import STATE, RunningSpec
from rheos.core.operators.running_state import AGG, KeptAggregates
from rheos.core.operators.window.contract import FixedWindows
from rheos.core.operators.window.kinds import windows_of
from rheos.core.operators.window.late_candidates import STATE as UNDECIDED
from rheos.core.operators.window.progress import FIRED, stored_name
from rheos.core.operators.window.sessions import SessionWindows
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.operators.window.totals_table import TotalsTable
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.shapes import StateShape
from rheos.core.state.parts import GROUP
from rheos.ops.migration.buffers import match_buffers
from rheos.ops.migration.running_encoder import DedupEncoder, RunningEncoder
from rheos.ops.migration.spark_checkpoint import SparkCheckpoint
from rheos.ops.migration.spark_state import SESSION_WINDOW, SESSIONS, WINDOW, OperatorRows
from rheos.ops.migration.window_encoder import WindowEncoder, check_movable
from rheos.ops.savepoints.bootstrap import NewSavepoint
from rheos.runtimes.state_tables.key_columns import KeyColumns

_AGGREGATION = "stateStoreSave"
_DEDUP = ("dedupe", "dedupeWithinWatermark")

KINDS = (_AGGREGATION, SESSIONS, *_DEDUP)
"""Spark's names of the operators whose state has a form here."""

S = TypeVar("S", bound=OperatorSpec)


@dataclass(frozen=True)
class MatchedOperator(Generic[S]):
    """An operator of the job, with the state that it continues."""

    planned: PlannedOperator
    spec: S
    states: Mapping[str, StateShape]
    """Shapes of the operator's states, by name."""
    rows: OperatorRows
    """State of the query's operator."""
    checkpoint: SparkCheckpoint
    max_parallelism: int

    def kept(self, aggregates: Mapping[str, Agg]) -> KeptAggregates:
        """Return the cells of aggregates of the operator."""
        port = self.planned.ports[0]
        return KeptAggregates(port.schema, port.keys, aggregates)

    def keyed_shape(self, state: str) -> StateShape:
        """Return the shape of a state. Raise SchemaError if the key columns of the rows do not fit."""
        shape = self.states[state]
        keys = KeyColumns(shape.key)
        problems = list(keys.misfits(arrow_schema(self.rows.frame.schema), keys.names))
        if problems:
            raise SchemaError(
                f"the keys do not fit operator {self.planned.id!r}: {'; '.join(problems)}",
                hint="declare the key columns with the types of the query",
            )
        return shape


@dataclass(frozen=True)
class OperatorForm(Generic[S]):
    """A kind of operator of the job to which state is moved."""

    spec: type[S]
    call: str
    """Its call in a program, for messages."""
    add: Callable[[NewSavepoint, MatchedOperator[S]], NewSavepoint]
    """Adds the state of the query's operator to a savepoint."""

    def counterpart(self, rows: OperatorRows, left: Sequence[PlannedOperator]) -> PlannedOperator:
        """Return the only operator of the job that has this form and these key columns. Raise
        ConfigurationError if no operator or several do."""
        keys = ", ".join(map(repr, rows.keys))
        if not rows.keys:
            raise ConfigurationError(
                "it has no key columns besides a window, and state without a key is not moved",
                hint="add a constant key column to the query and to the job, or start it empty",
            )
        found = [
            planned
            for planned in left
            if type(planned.spec) is self.spec and sorted(planned.ports[0].keys) == sorted(rows.keys)
        ]
        if len(found) != 1:
            many = "several operators" if found else "no operator"
            raise ConfigurationError(
                f"the job has {many} of the form key_by({keys}).{self.call}",
                hint="give key columns the names of the query's; move several equal ones one after "
                "another, with a job for each"
                if found
                else f"add key_by({keys}).{self.call}, with the names of the query's columns",
            )
        return found[0]


def form_of(kind: str, rows: OperatorRows) -> OperatorForm[Any]:
    """Return the form for an operator of the query; `kind` is one of `KINDS`."""
    if kind in _DEDUP:
        return _DEDUP_FORM
    return _RUNNING_FORM if rows.window is None else _WINDOW_FORM


def has_form(planned: PlannedOperator) -> bool:
    """Return whether an operator of the job can continue one of the query."""
    return type(planned.spec) in _SPECS


# --- running aggregates -------------------------------------------------------------------------------


def _add_running(new: NewSavepoint, operator: MatchedOperator[RunningSpec]) -> NewSavepoint:
    shape, aggregates = operator.keyed_shape(STATE), operator.spec.aggregates
    kept = operator.kept(aggregates)
    buffers = match_buffers(aggregates, operator.rows.fields)
    encoder = RunningEncoder(shape, kept, buffers, operator.max_parallelism)
    return new.with_columns(operator.planned.id, operator.rows.frame, encoder)


# --- windows ------------------------------------------------------------------------------------------


def _add_windows(new: NewSavepoint, operator: MatchedOperator[WindowSpec]) -> NewSavepoint:
    spec, states = operator.spec, operator.states
    windows = windows_of(spec.window)
    if spec.fn is not None:
        raise ConfigurationError(
            "the windows of the job keep their rows for a function, and Spark keeps only aggregates",
            hint="write key_by(...).window(...).aggregate(...)",
        )
    if spec.window.time != "event_time":
        raise ConfigurationError(
            "the windows of the query end by event time, and those of the job by the clock",
            hint='leave out time="processing_time"',
        )
    fixed = isinstance(windows, FixedWindows) and isinstance(spec.window, Tumbling | Sliding)
    of_job = SESSION_WINDOW if isinstance(windows, SessionWindows) else WINDOW if fixed else None
    if of_job != operator.rows.window:
        raise ConfigurationError(
            f"the query has {operator.rows.window}(...), and the job {spec.window!r}",
            hint="write rh.Tumbling(...) or rh.Sliding(...) for window(...), and rh.Session(...) for "
            "session_window(...)",
        )
    assert isinstance(windows, FixedWindows | SessionWindows)
    id, port, frame = operator.planned.id, operator.planned.ports[0], operator.rows.frame
    shape = operator.keyed_shape(TotalsTable.name)
    check_movable(spec.aggregates, port.schema)
    buffers = match_buffers(spec.aggregates, operator.rows.fields)
    others = sorted(states.keys() - {FIRED, UNDECIDED, TotalsTable.name, TotalsTable.sums_name})
    assert not others, "aggregates with other state were refused"
    encoder = WindowEncoder(
        port,
        spec.aggregates,
        windows,
        shape,
        buffers,
        operator.max_parallelism,
        has_sums=TotalsTable.sums_name in states,
    )
    new = new.with_columns(id, frame, encoder)
    fired = {
        "first_group": pa.array([0], pa.int32()),
        "end_group": pa.array([operator.max_parallelism], pa.int32()),
        "fired_through": pa.array([operator.checkpoint.progress_ms], pa.int64()),
        **{stored_name(name, by): pa.array([by]) for name, by in windows.cut.items()},
        "states": pa.array([[TotalsTable.name]], pa.list_(pa.string())),
        "lateness_ms": pa.array([spec.lateness_ms], pa.int64()),
        "kind": pa.array([windows.kind], pa.string()),
    }
    return new.with_table(id, FIRED, pa.table(fired))


# --- duplicates ---------------------------------------------------------------------------------------

_UNTIL = "__until_ms"


def _add_dedup(new: NewSavepoint, operator: MatchedOperator[DedupSpec]) -> NewSavepoint:
    spec, id, most = operator.spec, operator.planned.id, operator.max_parallelism
    if spec.keep != "first" or spec.order == "event_time":
        raise ConfigurationError(
            'Spark keeps the first row that arrives of each key, and the job has keep="last" or '
            'order="event_time"',
            hint='write dedup() or dedup(within=...), and keep="first"',
        )
    shape = operator.keyed_shape(STATE)
    (name,) = spec.kept
    frame, until = _add_ends(spec, operator.rows)
    kept = operator.kept(spec.kept)
    encoder = DedupEncoder(shape, kept, f"{AGG}{name}.best", until, most)
    new = new.with_columns(id, frame, encoder)
    if FORGOTTEN not in operator.states:
        return new
    progress = {
        GROUP: np.arange(most, dtype=np.uint16),
        WATERMARK: np.full(most, operator.checkpoint.progress_ms, np.int64),
    }
    return new.with_table(id, FORGOTTEN, pa.table(progress))


def _add_ends(spec: DedupSpec, rows: OperatorRows) -> tuple[DataFrame, str | None]:
    """Return the rows with the time until which rows of a key are duplicates, and the name of its
    column. The name is None if they always are."""
    expires = [column for field_name, column in rows.fields if field_name == "expiresAtMicros"]
    if spec.within_ms is None:
        if expires:
            raise ConfigurationError(
                "the query drops duplicates within the watermark, and the job for ever",
                hint="write dedup(within=...) with the delay of the query's watermark",
            )
        return rows.frame, None
    if expires:
        millis = f.floor(f.col(expires[0]) / 1000).cast("long")
        return rows.frame.withColumn(_UNTIL, millis), _UNTIL
    times = [name for name, kind in rows.frame.dtypes if name in rows.keys and kind == "timestamp"]
    if len(times) != 1:
        raise ConfigurationError(
            "the query drops duplicates for ever, and the job only within a time",
            hint="write dedup() without within=",
        )
    ends = f.unix_millis(f.col(times[0])) + f.lit(spec.within_ms)
    return rows.frame.withColumn(_UNTIL, ends), _UNTIL


_RUNNING_FORM = OperatorForm(RunningSpec, "running(...)", _add_running)
_WINDOW_FORM = OperatorForm(WindowSpec, "window(...).aggregate(...)", _add_windows)
_DEDUP_FORM = OperatorForm(DedupSpec, "dedup()", _add_dedup)
_SPECS = {form.spec for form in (_RUNNING_FORM, _WINDOW_FORM, _DEDUP_FORM)}
