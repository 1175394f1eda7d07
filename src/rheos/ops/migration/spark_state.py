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
from rheos.ops.savepoints.task_frames import quoted

WINDOW_KEY = "spark.timeWindow"
"""Metadata with which Spark marks the key column of a window."""


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
    has_window: bool
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


def state_rows(
    spark: SparkSession, checkpoint: SparkCheckpoint, operator: StateOperator
) -> OperatorRows:
    """Return the state of an operator after the last committed batch. Raise CheckpointError if Spark
    cannot read it."""
    try:
        read = state_reader(spark, checkpoint, operator).load(checkpoint.folder)
    except Exception as error:
        raise _unreadable(checkpoint, error) from error
    key, value = read.schema["key"].dataType, read.schema["value"].dataType
    assert isinstance(key, StructType)
    assert isinstance(value, StructType)
    windows = [field for field in key if _is_window(field)]
    keys = [field.name for field in key if field not in windows]
    # Fields of buffers may have equal names, so they are numbered.
    names = [f"buffer {at}" for at in range(len(value))]
    numbered = StructType(
        [StructField(name, field.dataType) for name, field in zip(names, value, strict=True)]
    )
    columns = [f.col("key").getField(name).alias(name) for name in keys]
    for window in windows[:1]:
        of = f.col("key").getField(window.name)
        columns += [f.unix_millis(of["start"]).alias(START), f.unix_millis(of["end"]).alias(END)]
    columns.append(f.col("value").cast(numbered).alias("__value"))
    flat = read.select(*columns)
    kept = [quoted(name) for name in flat.columns if name != "__value"]
    frame = flat.select(*kept, *(f.col(f"__value.{quoted(name)}") for name in names))
    fields = [(field.name, name) for field, name in zip(value, names, strict=True)]
    return OperatorRows(frame, keys, bool(windows), fields)


def _is_window(field: StructField) -> bool:
    kind = field.dataType
    if not isinstance(kind, StructType) or kind.names != ["start", "end"]:
        return False
    of_times = all(isinstance(part.dataType, TimestampType) for part in kind)
    return of_times and (WINDOW_KEY in (field.metadata or {}) or field.name == "window")


def _unreadable(checkpoint: SparkCheckpoint, error: Exception) -> CheckpointError:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return CheckpointError(
        f"Spark cannot read the state of {checkpoint.folder}: {first}",
        hint="use the Spark version of the query or a later one; the state of a query that still runs "
        "may be deleted while it is read, so stop the query first",
    )
