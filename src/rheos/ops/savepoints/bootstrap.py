"""A savepoint made from historical data, for a program that has never run."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rheos.connectors.spark.spark_types import arrow_schema
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.savepoint import Savepoint
from rheos.core.errors import ConfigurationError
from rheos.core.operators.shapes import state_shapes
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import Attempt, CheckpointId, OperatorId, job_slug
from rheos.core.site import located_at_call
from rheos.core.version import VERSION
from rheos.ops.savepoints.column_writing import ColumnEncoder
from rheos.ops.savepoints.editing import operator_of, put
from rheos.ops.savepoints.savepoint_edits import Base, Put, PutColumns, PutTable
from rheos.ops.savepoints.writing import write_changed
from rheos.runtimes.state_tables.catalogue import EntryCatalogue, Listing, StateInfo


class PlannedProgram(Protocol):
    """An Environment with a program, as far as this module uses it."""

    def plan(self, name: str = "job") -> PhysicalPlan: ...


class NewSavepoint:
    """Initial state for a program. Each `with_state` returns a new object; `write` writes the
    savepoint. Sources start at their beginnings, and all other state is empty. Value, list and map
    state, reduced records and timers can be set."""

    def __init__(self, spark: SparkSession | None, program: PlannedProgram | PhysicalPlan) -> None:
        """Begin a savepoint. Without a session, only tables can be set."""
        plan = program if isinstance(program, PhysicalPlan) else program.plan()
        self._spark = spark
        self._base = _base(plan)
        self._puts: tuple[Put | PutColumns | PutTable, ...] = ()

    def __repr__(self) -> str:
        given = ", ".join("/".join(each) for change in self._puts for each in _states(change))
        given = given or "nothing yet"
        return f"new savepoint with {given}\n\n{self.states()!r}"

    def states(self) -> Listing[StateInfo]:
        """Return the states of the program, by operator and state."""
        return self._base.catalogue.states()

    @located_at_call
    def with_state(self, operator: str, state: str, rows: DataFrame) -> NewSavepoint:
        """Set one state.

        The columns of `rows` are the state's key columns followed by `value`. A list has `position` and
        `value`, a map `map_key` and `value`, and "timers" have `timestamp_ms` and `domain`.

        Raise ConfigurationError if the program has no such state, and SchemaError, with the columns,
        if the rows do not match.
        """
        return self._add_put(put(self._base, (), operator, state, rows, whole=True))

    def with_columns(self, operator: str, rows: DataFrame, encoder: ColumnEncoder) -> NewSavepoint:
        """Set states that are stored in columns. The encoder makes their tables from the rows, which
        are read once."""
        id = operator_of(self._base, (), operator)
        for state in encoder.unique:
            self._base.catalogue.shape(id, state)
        return self._add_put(PutColumns(id, rows, arrow_schema(rows.schema), encoder))

    def with_table(self, operator: str, state: str, table: pa.Table) -> NewSavepoint:
        """Set one small state, such as the positions of a source, as its operator stores it. The
        rows of keyed state must be sorted by key group."""
        id = operator_of(self._base, (), operator)
        shape = self._base.catalogue.shape(id, state)
        return self._add_put(PutTable(id, state, table, shape.kind))

    def _add_put(self, made: Put | PutColumns | PutTable) -> NewSavepoint:
        known = {each for change in self._puts for each in _states(change)}
        for operator, state in known.intersection(_states(made)):
            raise ConfigurationError(
                f"state {state!r} of operator {operator!r} was already specified",
                hint="pass all of its rows at once, as with union",
            )
        new = NewSavepoint.__new__(NewSavepoint)
        new._spark, new._base, new._puts = self._spark, self._base, (*self._puts, made)
        return new

    @located_at_call
    def write(self, path: str) -> str:
        """Write the savepoint into an empty or new folder, and return its path. Raise InputError if a
        row does not match the declared state; then the folder is left empty."""
        return write_changed(self._spark, self._base, self._puts, path)


def _states(change: Put | PutColumns | PutTable) -> list[tuple[OperatorId, str]]:
    """Return the states that a change sets."""
    states = change.encoder.unique if isinstance(change, PutColumns) else [change.state]
    return [(change.operator, state) for state in states]


def _base(plan: PhysicalPlan) -> Base:
    operators = plan.operators()
    entry = CheckpointCompleted(
        attempt=Attempt(0),
        owner="",
        reserved_to=CheckpointId(0),
        checkpoint=CheckpointId(0),
        final=False,
        parallelism=plan.parallelism,
        max_parallelism=plan.max_parallelism,
        operators={operator.id: operator.name for operator in operators},
        handles=[],
        committables=[],
        states=state_shapes(operators),
        widths=plan.widths(),
    )
    savepoint = Savepoint(
        id="",
        job=job_slug(plan.name),
        name=plan.name,
        version=VERSION,
        taken_ms=0,
        entry=entry,
    )
    declared = {
        (operator.id, state): types
        for operator in operators
        for state, types in operator.spec.stored_types().items()
    }
    return Base("", savepoint, EntryCatalogue(entry, f"the program {plan.name!r}"), declared)
