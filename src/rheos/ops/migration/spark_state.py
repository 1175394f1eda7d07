"""The state of a query's operators, read with Spark's own state reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType, TimestampType

from rheos.core.errors import CheckpointError
from rheos.ops.migration.spark_checkpoint import SparkCheckpoint
from rheos.ops.migration.window_encoder import END, START

WINDOW, SESSION_WINDOW = "window", "session_window"
"""Names of Spark's functions for windows, and of the columns that they add."""

SESSIONS = "sessionWindowStateStoreSaveExec"
"""Spark's name of the operator with the state of session windows."""

_MARKS = {WINDOW: "spark.timeWindow", SESSION_WINDOW: "spark.sessionWindow"}
"""Metadata with which Spark marks the column of a window, by the name of its function."""


@dataclass(frozen=True)
class StateOperator:
    """A stateful operator of the query."""

    id: int
    kind: str
    """Spark's name of the operator, such as "stateStoreSave"."""
    properties: str | None
    """Properties as JSON, of transformWithState only."""


@dataclass(frozen=True)
class OperatorRows:
    """The rows of one operator's state, in plain columns."""

    frame: DataFrame
    keys: Sequence[str]
    """Key columns, without the window."""
    window: str | None
    """Spark's function that made the window of each row: `WINDOW` or `SESSION_WINDOW`. None: the rows
    have no window."""
    fields: Sequence[tuple[str, str]]
    """Name of each field of the value, and of its column in the frame."""


def state_operators(spark: SparkSession, checkpoint: SparkCheckpoint) -> list[StateOperator]:
    """Return the stateful operators of a query, in the order of their ids. Raise CheckpointError if
    Spark cannot read them."""
    if not checkpoint.has_state:
        return []
    try:
        rows = spark.read.format("state-metadata").load(checkpoint.folder).collect()
    except Exception as error:
        raise _unreadable(checkpoint, error) from error
    found = {
        row.operatorId: StateOperator(row.operatorId, row.operatorName, row.operatorProperties)
        for row in rows
    }
    if not found:
        raise CheckpointError(
            f"the state of {checkpoint.folder} has no description of its operators",
            hint="run the query on Spark 4 until it has committed a batch, which writes it; "
            "then stop it, and try again",
        )
    return [found[id] for id in sorted(found)]


def state_reader(
    spark: SparkSession, checkpoint: SparkCheckpoint, operator: StateOperator
) -> DataFrameReader:
    """Return the reader of an operator's state after the last committed batch."""
    reader = spark.read.format("statestore").option("operatorId", operator.id)
    return reader.option("batchId", checkpoint.batch)


def read_state(reader: DataFrameReader, checkpoint: SparkCheckpoint) -> DataFrame:
    """Return the rows that a reader of state returns. Raise CheckpointError if Spark cannot read
    them."""
    try:
        return reader.load(checkpoint.folder)
    except Exception as error:
        raise _unreadable(checkpoint, error) from error


def state_rows(
    spark: SparkSession, checkpoint: SparkCheckpoint, operator: StateOperator
) -> OperatorRows:
    """Return the state of an operator after the last committed batch. Raise CheckpointError if Spark
    cannot read it."""
    read = read_state(state_reader(spark, checkpoint, operator), checkpoint)
    key, value = read.schema["key"].dataType, read.schema["value"].dataType
    assert isinstance(key, StructType)
    assert isinstance(value, StructType)
    # Fields of buffers may have equal names, so they are numbered.
    names = [f"buffer {at}" for at in range(len(value))]
    numbered = StructType(
        [StructField(name, field.dataType) for name, field in zip(names, value, strict=True)]
    )
    flat = read.select("key", f.col("value").cast(numbered).alias("value"))
    first, kind, bounds = 0, None, None
    if operator.kind == SESSIONS:
        # The value begins with the grouping columns. The key has the start instead of the session.
        first, kind = len(key), SESSION_WINDOW
        at = next(at for at, field in enumerate(value) if _is_window(field, SESSION_WINDOW))
        keys, bounds = key.names[:-1], f.col("value").getField(names[at])
    else:
        windows = [field.name for field in key if _is_window(field, WINDOW)]
        keys = [name for name in key.names if name not in windows]
        if windows:
            kind, bounds = WINDOW, f.col("key").getField(windows[0])
    columns = [f.col("key").getField(name).alias(name) for name in keys]
    if bounds is not None:
        ends = {START: bounds["start"], END: bounds["end"]}
        columns += [f.unix_millis(of).alias(name) for name, of in ends.items()]
    columns += [f.col("value").getField(name).alias(name) for name in names[first:]]
    fields = [(field.name, name) for field, name in zip(value, names, strict=True)]
    return OperatorRows(flat.select(*columns), keys, kind, fields[first:])


def _is_window(field: StructField, function: str) -> bool:
    kind = field.dataType
    if not isinstance(kind, StructType) or kind.names != ["start", "end"]:
        return False
    of_times = all(isinstance(part.dataType, TimestampType) for part in kind)
    return of_times and (_MARKS[function] in (field.metadata or {}) or field.name == function)


def _unreadable(checkpoint: SparkCheckpoint, error: Exception) -> CheckpointError:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return CheckpointError(
        f"Spark cannot read the state of {checkpoint.folder}: {first}",
        hint="use the Spark version of the query or a later one; the state of a query that still runs "
        "may be deleted while it is read, so stop the query first",
    )
