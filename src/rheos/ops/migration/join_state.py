"""The rows of a stream-stream join, as the state of `interval_join`.

Spark stores the rows of each side by the values of the join key. It stores neither the names of the key
columns nor the bounds of the time condition, so only `--prove` can compare these bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from rheos.core.errors import ConfigurationError, InputError
from rheos.core.operators.contract import PortType
from rheos.core.operators.group_progress import WATERMARK
from rheos.core.operators.joins.interval_join import BEHIND, STATES, IntervalJoinSpec
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import TS, visible
from rheos.core.state.parts import GROUP, by_group
from rheos.ops.migration.spark_checkpoint import SparkCheckpoint
from rheos.ops.migration.spark_state import StateOperator, read_state, state_reader
from rheos.ops.savepoints.bootstrap import NewSavepoint

JOIN = "symmetricHashJoin"
"""Spark's name of the operator."""

_KEY = "join key "
"""Prefix of the columns with the values of the join key, which have no names in Spark's state."""


@dataclass(frozen=True)
class JoinSideEncoder:
    """Encoder of the rows of one side."""

    state: str
    port: PortType
    keys: Sequence[str]
    """Columns with the values of Spark's join key."""
    max_parallelism: int

    @property
    def unique(self) -> dict[str, tuple[str, ...]]:
        return {self.state: ()}

    def tables(self, rows: pa.RecordBatch) -> dict[str, pa.Table]:
        schema = visible(self.port.schema)
        columns = [rows.column(field.name).cast(field.type, safe=False) for field in schema]
        time = self.port.type.time_column
        assert time is not None, "such a join was refused"
        micros = rows.column(time).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        stamps = pa.array(micros.to_numpy() // 1000)
        self._check_keys(rows)
        stored = pa.RecordBatch.from_arrays(
            [*columns, stamps], schema=pa.schema([*schema, (TS, pa.int64())])
        )
        return {self.state: by_group(stored, self.port.keys, self.max_parallelism)}

    def _check_keys(self, rows: pa.RecordBatch) -> None:
        """Raise InputError if a key column of the job is not one of the query."""
        for key in self.port.keys:
            of_job = rows.column(key)
            of_query = [rows.column(name) for name in self.keys]
            if not any(each.type == of_job.type and each.equals(of_job) for each in of_query):
                raise InputError(
                    f"the job joins the {self.state} side by {key!r}, but the values of this column "
                    "are not those of the query's join key",
                    hint="use the columns of the query's equalities as the keys of interval_join",
                )


def add_join(
    new: NewSavepoint,
    spark: SparkSession,
    checkpoint: SparkCheckpoint,
    operator: StateOperator,
    plan: PhysicalPlan,
    progress_ms: int,
) -> tuple[NewSavepoint, PlannedOperator]:
    """Return the savepoint with the rows of both sides of a join, and its operator in the job.

    Args:
        new: The savepoint so far.
        spark: The session that reads the state.
        checkpoint: The checkpoint of the query.
        operator: The join of the query.
        plan: The plan of the job.
        progress_ms: Watermark of the query, in ms since the epoch, inclusive.

    Returns:
        The new savepoint, and the interval join.

    Raises:
        ConfigurationError: The job has no such interval join, or several.
        CheckpointError: Spark cannot read the state.
    """
    frames = [_side(spark, checkpoint, operator, side) for side in STATES]
    planned = _counterpart(plan, frames)
    for state, port, (frame, keys) in zip(STATES, planned.ports, frames, strict=True):
        present = frame.dropna(subset=list(keys))
        encoder = JoinSideEncoder(state, port, keys, plan.max_parallelism)
        new = new.with_columns(planned.id, present, encoder)
    groups = np.arange(plan.max_parallelism, dtype=np.uint16)
    progress = {GROUP: groups, WATERMARK: np.full(len(groups), progress_ms, np.int64)}
    return new.with_table(planned.id, BEHIND, pa.table(progress)), planned


def _side(
    spark: SparkSession, checkpoint: SparkCheckpoint, operator: StateOperator, side: str
) -> tuple[DataFrame, Sequence[str]]:
    """Return the rows of a side, and their columns with the values of the join key."""
    reader = state_reader(spark, checkpoint, operator).option("joinSide", side)
    read = read_state(reader, checkpoint)
    key, value = read.schema["key"].dataType, read.schema["value"].dataType
    assert isinstance(key, StructType)
    assert isinstance(value, StructType)
    keys = [f"{_KEY}{at}" for at in range(len(key))]
    columns = [f.col("value").getField(name).alias(name) for name in value.names]
    columns += [f.col("key").getField(name).alias(to) for name, to in zip(key.names, keys, strict=True)]
    return read.select(*columns), keys


def _counterpart(
    plan: PhysicalPlan, frames: Sequence[tuple[DataFrame, Sequence[str]]]
) -> PlannedOperator:
    """Return the interval join whose sides have these columns. Raise ConfigurationError if there is no
    such join, or several, or if its state has another form."""
    found = [
        (planned, spec)
        for planned in plan.operators()
        if type(spec := planned.spec) is IntervalJoinSpec
        and all(map(_has_columns, planned.ports, frames))
    ]
    if len(found) != 1:
        sides = " and ".join(", ".join(frame.columns[: -len(keys)]) for frame, keys in frames)
        many = "several interval joins" if found else "no interval join"
        raise ConfigurationError(
            f"the job has {many} of rows with the columns {sides}",
            hint="write left.key_by(...).interval_join(right.key_by(...), between=(...)), with the "
            "names and the sides of the query",
        )
    ((planned, spec),) = found
    if spec.how != "inner":
        raise ConfigurationError(
            f'the interval join has how="{spec.how}", and only inner joins are moved',
            hint="let the query finish, and start the job without its state",
        )
    if any(port.type.time_column is None for port in planned.ports):
        raise ConfigurationError(
            "the event time of a side of the interval join is not a column of its rows",
            hint="keep the column of event time in the rows of both sides",
        )
    return planned


def _has_columns(port: PortType, side: tuple[DataFrame, Sequence[str]]) -> bool:
    frame, keys = side
    there = set(frame.columns)
    return len(port.keys) == len(keys) and all(name in there for name in visible(port.schema).names)
