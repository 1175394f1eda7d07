"""DataFrames that our own Spark tasks make or take, for reading and writing savepoints."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rheos.connectors.spark.spark_types import spark_schema
from rheos.core.checkpoint.savepoint import Savepoint
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.shapes import StatePurpose
from rheos.core.protocol.snapshots import StateHandle, StateKind
from rheos.ops.savepoints.layouts import layout_of
from rheos.ops.savepoints.reading_tasks import ReadState
from rheos.runtimes.host.pickling import pack
from rheos.runtimes.spark.session import single_threaded_workers
from rheos.runtimes.spark.shipping import worker_task

_TASKS = "rheos.ops.savepoints"


def read_frame(
    spark: SparkSession,
    directory: str,
    savepoint: Savepoint,
    operator: OperatorId,
    state: str,
    trusted: bool,
) -> DataFrame:
    """Return the stored rows of one state, file by file."""
    schema = layout_of(state, savepoint.entry.states[operator]).schema
    task = replace(reads(directory, savepoint, operator, state), trusted=trusted)
    return numbered(spark, len(task.shares), "reading_tasks:read_state", task, schema)


def reads(directory: str, savepoint: Savepoint, operator: OperatorId, state: str) -> ReadState:
    """Return the read tasks of a state: one per file. For lists there is one per subtask, as a list may
    continue in the subtask's next file."""
    entry = savepoint.entry
    shapes = entry.states[operator]
    handles = [
        handle for handle in entry.handles if (handle.operator, handle.state) == (operator, state)
    ]
    if shapes[state].kind is StateKind.BROADCAST:
        # All subtasks have the same state.
        handles = [handle for handle in handles if handle.subtask == 0]
    if shapes[state].holds != StatePurpose.LIST:
        return ReadState(directory, state, [[handle] for handle in handles], shapes)
    by_subtask: dict[int, list[StateHandle]] = {}
    for handle in handles:
        by_subtask.setdefault(handle.subtask, []).append(handle)
    return ReadState(directory, state, list(by_subtask.values()), shapes)


def numbered(spark: SparkSession, tasks: int, entry: str, task: object, schema: pa.Schema) -> DataFrame:
    """Return the rows of `tasks` tasks, each of which receives its number."""
    if not tasks:
        return spark.createDataFrame([], spark_schema(schema))
    return over_rows(spark.range(0, tasks, 1, tasks), entry, task, schema)


def over_rows(rows: DataFrame, entry: str, task: object, schema: pa.Schema) -> DataFrame:
    run = worker_task(f"{_TASKS}.{entry}", pack(task), readable=True)
    with single_threaded_workers(rows.sparkSession.sparkContext):
        return rows.mapInArrow(run, spark_schema(schema))


def quoted(name: str) -> str:
    """Return a column's name as Spark parses it."""
    return "`" + name.replace("`", "``") + "`"
