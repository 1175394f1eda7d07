"""A savepoint from the checkpoint of a Structured Streaming query.

Each stateful operator of the query is matched with an operator of the job: by its kind, then by its key
columns. What cannot be moved is a finding with the reason, and nothing is written then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rheos.connectors.spark.spark_types import arrow_schema
from rheos.core.errors import ConfigurationError, SchemaError
from rheos.core.graph.windows import Tumbling
from rheos.core.operators.changelog.dedup import FORGOTTEN, DedupSpec
from rheos.core.operators.contract import OperatorSpec
from rheos.core.operators.group_progress import WATERMARK
from rheos.core.operators.running import STATE, RunningSpec
from rheos.core.operators.running_state import AGG, KeptAggregates
from rheos.core.operators.source_split import SPLITS
from rheos.core.operators.window.contract import FixedWindows
from rheos.core.operators.window.kinds import windows_of
from rheos.core.operators.window.progress import FIRED, stored_name
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.operators.window.totals_table import TotalsTable
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.protocol.shapes import StateShape
from rheos.core.site import located_at_call
from rheos.core.state.parts import GROUP
from rheos.ops.migration.buffers import match_buffers
from rheos.ops.migration.positions import split_rows
from rheos.ops.migration.processor_state import PROCESSORS, add_states, find_function, processor_of
from rheos.ops.migration.running_encoder import DedupEncoder, RunningEncoder
from rheos.ops.migration.spark_checkpoint import SparkCheckpoint, read_checkpoint
from rheos.ops.migration.spark_state import OperatorRows, StateOperator, state_operators, state_rows
from rheos.ops.migration.window_encoder import WindowEncoder, check_movable
from rheos.ops.savepoints.bootstrap import NewSavepoint
from rheos.runtimes.state_tables.key_columns import KeyColumns

S = TypeVar("S", bound=OperatorSpec)


class MoveOutcome(StrEnum):
    MOVED = "moved"
    EMPTY = "starts empty"
    REFUSED = "cannot be moved"


@dataclass(frozen=True)
class Move:
    """One part of the checkpoint, and its place in the job."""

    part: str
    """Source or operator of the query."""
    outcome: MoveOutcome
    place: str
    """Operator of the job; empty if no operator corresponds to the part."""
    reason: str
    """Description of what is moved, or the reason why it cannot be."""
    hint: str = ""


@dataclass
class QueryImport:
    """The parts of a checkpoint with their places in the job, and the savepoint of those that are
    moved."""

    checkpoint: SparkCheckpoint
    savepoint: NewSavepoint
    moves: list[Move] = field(default_factory=list)

    @property
    def refused(self) -> list[Move]:
        return [move for move in self.moves if move.outcome is MoveOutcome.REFUSED]

    def write(self, path: str) -> str:
        """Write the savepoint into an empty or new folder, and return its path.

        Raise ConfigurationError if a part cannot be moved, and InputError if a row of the state does
        not match the job; then the folder is left empty.
        """
        if self.refused:
            first = self.refused[0]
            raise ConfigurationError(
                f"{len(self.refused)} parts of the checkpoint cannot be moved, such as {first.part}: "
                f"{first.reason}",
                hint=first.hint or None,
            )
        return self.savepoint.write(path)


@located_at_call
def import_query(spark: SparkSession, path: str, plan: PhysicalPlan) -> QueryImport:
    """Return the savepoint from which a job continues a Structured Streaming query.

    Stop the query first. Its checkpoint is only read.

    Args:
        spark: A session, of the Spark version of the query or a later one.
        path: The query's checkpoint, a path or a URL.
        plan: The plan of the job.

    Returns:
        What is moved, and the savepoint, which is not written yet.

    Raises:
        ConfigurationError: The checkpoint does not exist.
        CheckpointError: The checkpoint is damaged, or Spark cannot read its state.
        InputError: A position does not exist any more.
    """
    checkpoint = read_checkpoint(path)
    made = QueryImport(checkpoint, NewSavepoint(spark, plan))
    _move_sources(made, plan)
    left = [operator for operator in plan.operators() if type(operator.spec) in _MOVABLE]
    for operator in state_operators(spark, checkpoint):
        part = f"operator {operator.id} ({operator.kind})"
        try:
            _move_operator(made, spark, operator, part, left, plan)
        except (ConfigurationError, SchemaError) as error:
            made.moves.append(Move(part, MoveOutcome.REFUSED, "", error.what, error.hint or ""))
    for planned in left:
        reason = "the query has no state for it"
        made.moves.append(Move("", MoveOutcome.EMPTY, _named(planned), reason))
    return made


_AGGREGATION = "stateStoreSave"
_DEDUP = ("dedupe", "dedupeWithinWatermark")


def _named(operator: PlannedOperator) -> str:
    return f"{operator.name} ({operator.id})"


# --- sources ------------------------------------------------------------------------------------------


def _move_sources(made: QueryImport, plan: PhysicalPlan) -> None:
    """Move the positions. Sources of the query and of the job correspond by their order."""
    sources = [operator for operator in plan.operators() if operator.spec.reads_from is not None]
    positions = made.checkpoint.positions
    if len(sources) != len(positions):
        reason = f"the query has {len(positions)} sources, and the job {len(sources)}"
        hint = "read the same sources in the same order"
        made.moves.append(Move("sources", MoveOutcome.REFUSED, "", reason, hint))
        return
    for at, (operator, of) in enumerate(zip(sources, positions, strict=True)):
        part, source = f"source {at}", operator.spec.reads_from
        assert source is not None
        if isinstance(of, str):
            reason = f"its offset {of[:60]} is not one of Kafka or of files"
            hint = "read the data from Kafka or files, or start without the checkpoint"
            made.moves.append(Move(part, MoveOutcome.REFUSED, _named(operator), reason, hint))
            continue
        stamps = operator.spec.stamps
        latest = None
        if stamps is not None and made.checkpoint.watermark_ms > 0:
            latest = made.checkpoint.watermark_ms + stamps.bound_ms
        try:
            table = split_rows(source, of, latest)
        except ConfigurationError as error:
            move = Move(part, MoveOutcome.REFUSED, _named(operator), error.what, error.hint or "")
            made.moves.append(move)
            continue
        made.savepoint = made.savepoint.with_table(operator.id, SPLITS, table)
        made.moves.append(Move(part, MoveOutcome.MOVED, _named(operator), of.describe()))


# --- operators ----------------------------------------------------------------------------------------


def _move_operator(
    made: QueryImport,
    spark: SparkSession,
    operator: StateOperator,
    part: str,
    left: list[PlannedOperator],
    plan: PhysicalPlan,
) -> None:
    max_parallelism = plan.max_parallelism
    if operator.kind in PROCESSORS:
        processor = processor_of(operator)
        planned = find_function(processor, plan.operators())
        made.savepoint = add_states(made.savepoint, spark, made.checkpoint, processor, planned)
        names = ", ".join(sorted(processor.variables))
        timers = "" if processor.domain is None else f", and its {processor.domain}-time timers"
        reason = f"its state {names}{timers}"
        made.moves.append(Move(part, MoveOutcome.MOVED, _named(planned), reason))
        return
    if operator.kind != _AGGREGATION and operator.kind not in _DEDUP:
        raise ConfigurationError(
            f"state of {operator.kind} is not supported",
            hint="write its state yourself, with rh.new_savepoint and with_state; or start it empty",
        )
    rows = state_rows(spark, made.checkpoint, operator)
    form = _form_of(operator, rows)
    planned = _counterpart(form, rows, left)
    left.remove(planned)
    states = dict(planned.spec.states(planned.ports))
    form.move(made, planned, planned.spec, states, rows, max_parallelism)
    keys = ", ".join(rows.keys)
    made.moves.append(Move(part, MoveOutcome.MOVED, _named(planned), f"its state by {keys}"))


@dataclass(frozen=True)
class _Form(Generic[S]):
    """A kind of operator of the job to which state is moved."""

    spec: type[S]
    call: str
    """Its call in a program, for messages."""
    move: Callable[[QueryImport, PlannedOperator, S, Mapping[str, StateShape], OperatorRows, int], None]


def _form_of(operator: StateOperator, rows: OperatorRows) -> _Form[Any]:
    if operator.kind != _AGGREGATION:
        return _DEDUP_FORM
    return _WINDOW_FORM if rows.has_window else _RUNNING_FORM


def _counterpart(
    form: _Form[Any], rows: OperatorRows, left: Sequence[PlannedOperator]
) -> PlannedOperator:
    """Return the only operator of the job of this form and with the same key columns."""
    keys = ", ".join(map(repr, rows.keys))
    if not rows.keys:
        raise ConfigurationError(
            "it has no key columns besides a window, and state without a key is not moved",
            hint="add a constant key column to the query and to the job, or start it empty",
        )
    found = [
        planned
        for planned in left
        if type(planned.spec) is form.spec and sorted(planned.ports[0].keys) == sorted(rows.keys)
    ]
    if len(found) != 1:
        many = "several operators" if found else "no operator"
        raise ConfigurationError(
            f"the job has {many} of the form key_by({keys}).{form.call}",
            hint="give key columns the names of the query's; move several equal ones one after "
            "another, with a job for each"
            if found
            else f"add key_by({keys}).{form.call}, with the names of the query's columns",
        )
    return found[0]


def _check_keys(planned: PlannedOperator, shape: StateShape, rows: OperatorRows) -> None:
    keys = KeyColumns(shape.key)
    problems = list(keys.misfits(arrow_schema(rows.frame.schema), keys.names))
    if problems:
        raise SchemaError(
            f"the keys do not fit operator {planned.id!r}: {'; '.join(problems)}",
            hint="declare the key columns with the types of the query",
        )


def _move_running(
    made: QueryImport,
    planned: PlannedOperator,
    spec: RunningSpec,
    states: Mapping[str, StateShape],
    rows: OperatorRows,
    max_parallelism: int,
) -> None:
    shape = states[STATE]
    _check_keys(planned, shape, rows)
    port = planned.ports[0]
    kept = KeptAggregates(port.schema, port.keys, spec.aggregates)
    buffers = match_buffers(spec.aggregates, rows.fields)
    encoder = RunningEncoder(shape, kept, buffers, max_parallelism)
    made.savepoint = made.savepoint.with_columns(planned.id, STATE, rows.frame, encoder)


def _move_windows(
    made: QueryImport,
    planned: PlannedOperator,
    spec: WindowSpec,
    states: Mapping[str, StateShape],
    rows: OperatorRows,
    max_parallelism: int,
) -> None:
    windows = windows_of(spec.window)
    if (
        spec.fn is not None
        or not isinstance(windows, FixedWindows)
        or not isinstance(spec.window, Tumbling)
    ):
        raise ConfigurationError(
            f"Spark keeps the state of each window, and {spec.window} shares state between windows",
            hint="only tumbling windows with built-in aggregates are moved; let the query finish the "
            "open windows of others",
        )
    shape = states[TotalsTable.name]
    _check_keys(planned, shape, rows)
    port = planned.ports[0]
    check_movable(spec.aggregates, port.schema)
    buffers = match_buffers(spec.aggregates, rows.fields)
    others = sorted(states.keys() - {FIRED, TotalsTable.name, TotalsTable.sums_name})
    assert not others, "aggregates with other state were refused"
    encoder = WindowEncoder(port, spec.aggregates, windows, shape, buffers, max_parallelism)
    made.savepoint = made.savepoint.with_columns(planned.id, TotalsTable.name, rows.frame, encoder)
    if TotalsTable.sums_name in states:
        limbs = WindowEncoder(
            port, spec.aggregates, windows, shape, buffers, max_parallelism, of_limbs=True
        )
        made.savepoint = made.savepoint.with_columns(
            planned.id, TotalsTable.sums_name, rows.frame, limbs
        )
    fired = {
        "first_group": pa.array([0], pa.int32()),
        "end_group": pa.array([max_parallelism], pa.int32()),
        "fired_through": pa.array([_find_progress(made.checkpoint)], pa.int64()),
        **{stored_name(name, by): pa.array([by]) for name, by in windows.cut.items()},
        "states": pa.array([[TotalsTable.name]], pa.list_(pa.string())),
        "lateness_ms": pa.array([spec.lateness_ms], pa.int64()),
        "kind": pa.array([windows.kind], pa.string()),
    }
    made.savepoint = made.savepoint.with_table(planned.id, FIRED, pa.table(fired))


def _find_progress(checkpoint: SparkCheckpoint) -> int:
    """Return the watermark up to which the query has emitted windows. Spark's is their end, which is
    exclusive."""
    return checkpoint.fired_ms - 1 if checkpoint.fired_ms > 0 else MIN_TIMESTAMP_MS


_UNTIL = "__until_ms"


def _move_dedup(
    made: QueryImport,
    planned: PlannedOperator,
    spec: DedupSpec,
    states: Mapping[str, StateShape],
    rows: OperatorRows,
    max_parallelism: int,
) -> None:
    if spec.keep != "first" or spec.order == "event_time":
        raise ConfigurationError(
            'Spark keeps the first row that arrives of each key, and the job has keep="last" or '
            'order="event_time"',
            hint='write dedup() or dedup(within=...), and keep="first"',
        )
    _check_keys(planned, states[STATE], rows)
    (name,) = spec.kept
    frame, until = _add_ends(spec, rows)
    port = planned.ports[0]
    kept = KeptAggregates(port.schema, port.keys, spec.kept)
    part = f"{AGG}{name}.best"
    encoder = DedupEncoder(states[STATE], kept, part, until, max_parallelism)
    made.savepoint = made.savepoint.with_columns(planned.id, STATE, frame, encoder)
    if FORGOTTEN in states:
        table = pa.table(
            {
                GROUP: np.arange(max_parallelism, dtype=np.uint16),
                WATERMARK: np.full(max_parallelism, _find_progress(made.checkpoint), np.int64),
            }
        )
        made.savepoint = made.savepoint.with_table(planned.id, FORGOTTEN, table)


def _add_ends(spec: DedupSpec, rows: OperatorRows) -> tuple[DataFrame, str | None]:
    """Return the rows with the time at which duplicates end, and the name of its column."""
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


_RUNNING_FORM = _Form(RunningSpec, "running(...)", _move_running)
_WINDOW_FORM = _Form(WindowSpec, "window(...).aggregate(...)", _move_windows)
_DEDUP_FORM = _Form(DedupSpec, "dedup()", _move_dedup)
_MOVABLE = {form.spec for form in (_RUNNING_FORM, _WINDOW_FORM, _DEDUP_FORM)}


def explained(made: QueryImport) -> Iterator[str]:
    """Yield what is moved where, as lines."""
    checkpoint = made.checkpoint
    yield f"checkpoint {checkpoint.folder}, after batch {checkpoint.batch}"
    if checkpoint.watermark_ms > 0:
        yield f"watermark {checkpoint.watermark_ms} ms since the epoch"
    for move in made.moves:
        yield f"{move.outcome}: {' -> '.join(filter(None, (move.part, move.place)))}: {move.reason}"
        if move.hint:
            yield f"  what to do: {move.hint}"
