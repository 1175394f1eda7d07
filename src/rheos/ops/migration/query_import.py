"""A savepoint from the checkpoint of a Structured Streaming query.

Sources of the query and of the job correspond by their order, and operators by their kind and key
columns. A part that cannot be moved is listed with the reason, and then no savepoint is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from rheos.core.errors import ConfigurationError, SchemaError
from rheos.core.operators.source_split import SPLITS
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.ops.migration.join_state import JOIN, add_join
from rheos.ops.migration.moves import Move, MoveOutcome
from rheos.ops.migration.operator_forms import KINDS, MatchedOperator, form_of, has_form
from rheos.ops.migration.positions import split_rows
from rheos.ops.migration.processor_state import PROCESSORS, add_states, find_function, processor_of
from rheos.ops.migration.spark_checkpoint import SparkCheckpoint, read_checkpoint
from rheos.ops.migration.spark_state import StateOperator, state_operators, state_rows
from rheos.ops.savepoints.bootstrap import NewSavepoint


@dataclass
class QueryImport:
    """The parts of a checkpoint with their places in the job, and the savepoint with the parts that are
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


def import_query(spark: SparkSession, path: str, plan: PhysicalPlan) -> QueryImport:
    """Return the savepoint from which a job continues a Structured Streaming query.

    Stop the query first. Its checkpoint is only read.

    Args:
        spark: A session, of the Spark version of the query or a later one.
        path: The query's checkpoint, a path or a URL.
        plan: The plan of the job.

    Returns:
        The parts of the checkpoint, with their places in the job. `QueryImport.write` writes the
        savepoint.

    Raises:
        ConfigurationError: The checkpoint does not exist.
        CheckpointError: The checkpoint is damaged, or Spark cannot read its state.
        InputError: A position does not exist any more.
    """
    checkpoint = read_checkpoint(path)
    made = QueryImport(checkpoint, NewSavepoint(spark, plan))
    _move_sources(made, plan)
    left = [operator for operator in plan.operators() if has_form(operator)]
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


def _named(operator: PlannedOperator) -> str:
    return f"{operator.name} ({operator.id})"


# --- sources ------------------------------------------------------------------------------------------


def _move_sources(made: QueryImport, plan: PhysicalPlan) -> None:
    """Move the positions. Sources of the query and of the job correspond by their order."""
    sources = [operator for operator in plan.operators() if operator.spec.reads_from is not None]
    found = made.checkpoint.positions
    if len(sources) != len(found):
        reason = f"the query has {len(found)} sources, and the job {len(sources)}"
        hint = "read the same sources in the same order"
        made.moves.append(Move("sources", MoveOutcome.REFUSED, "", reason, hint))
        return
    for at, (operator, positions) in enumerate(zip(sources, found, strict=True)):
        part, source = f"source {at}", operator.spec.reads_from
        assert source is not None
        if isinstance(positions, str):
            reason = f"its offset {positions[:60]} is not one of Kafka or of files"
            hint = "read the data from Kafka or files, or start without the checkpoint"
            made.moves.append(Move(part, MoveOutcome.REFUSED, _named(operator), reason, hint))
            continue
        stamps = operator.spec.stamps
        latest = None
        if stamps is not None and made.checkpoint.watermark_ms > 0:
            latest = made.checkpoint.watermark_ms + stamps.bound_ms
        try:
            table = split_rows(source, positions, latest)
        except ConfigurationError as error:
            move = Move(part, MoveOutcome.REFUSED, _named(operator), error.what, error.hint or "")
            made.moves.append(move)
            continue
        made.savepoint = made.savepoint.with_table(operator.id, SPLITS, table)
        made.moves.append(Move(part, MoveOutcome.MOVED, _named(operator), positions.describe()))


# --- operators ----------------------------------------------------------------------------------------


def _move_operator(
    made: QueryImport,
    spark: SparkSession,
    operator: StateOperator,
    part: str,
    left: list[PlannedOperator],
    plan: PhysicalPlan,
) -> None:
    if operator.kind in PROCESSORS:
        processor = processor_of(operator)
        planned = find_function(processor, plan.operators())
        made.savepoint = add_states(made.savepoint, spark, made.checkpoint, processor, planned)
        names = ", ".join(sorted(processor.variables))
        timers = "" if processor.domain is None else f", and its {processor.domain}-time timers"
        reason = f"its state {names}{timers}"
        made.moves.append(Move(part, MoveOutcome.MOVED, _named(planned), reason))
        return
    if operator.kind == JOIN:
        made.savepoint, planned = add_join(
            made.savepoint, spark, made.checkpoint, operator, plan, made.checkpoint.progress_ms
        )
        made.moves.append(Move(part, MoveOutcome.MOVED, _named(planned), "the rows of both sides"))
        return
    if operator.kind not in KINDS:
        raise ConfigurationError(
            f"state of {operator.kind} is not supported",
            hint="write its state yourself, with rh.new_savepoint and with_state; or start it empty",
        )
    rows = state_rows(spark, made.checkpoint, operator)
    form = form_of(operator.kind, rows)
    planned = form.counterpart(rows, left)
    left.remove(planned)
    states = planned.spec.states(planned.ports)
    matched = MatchedOperator(
        planned, planned.spec, states, rows, made.checkpoint, plan.max_parallelism
    )
    made.savepoint = form.add(made.savepoint, matched)
    keys = ", ".join(rows.keys)
    made.moves.append(Move(part, MoveOutcome.MOVED, _named(planned), f"its state by {keys}"))


def explained(made: QueryImport) -> Iterator[str]:
    """Yield a line for each part of the checkpoint, with its place in the job."""
    checkpoint = made.checkpoint
    yield f"checkpoint {checkpoint.folder}, after batch {checkpoint.batch}"
    if checkpoint.watermark_ms > 0:
        yield f"watermark {checkpoint.watermark_ms} ms since the epoch"
    for move in made.moves:
        yield f"{move.outcome}: {' -> '.join(filter(None, (move.part, move.place)))}: {move.reason}"
        if move.hint:
            yield f"  what to do: {move.hint}"
