"""A savepoint's state as DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rheos.checkpoint.savepoint import Savepoint, verify_savepoint
from rheos.connectors.spark.types import spark_schema
from rheos.host.pickling import pack
from rheos.protocol.ids import OperatorId
from rheos.protocol.shapes import Holds
from rheos.protocol.snapshots import StateHandle
from rheos.savepoints.catalogue import Catalogue, Listing, OperatorInfo, StateInfo
from rheos.savepoints.layouts import SUMS, TOTALS, Layout, TotalsLayout, layout_of
from rheos.savepoints.reading_tasks import ReadState
from rheos.savepoints.savepoint_folder import open_savepoint
from rheos.site import located_at_call
from rheos.spark.session import single_threaded_workers
from rheos.spark.shipping import arrow_task

if TYPE_CHECKING:
    from rheos.savepoints.editing import SavepointEdit

_TASKS = "rheos.savepoints"


class SavepointFrames:
    """One savepoint. Nothing is read but its manifest, until a DataFrame is used."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self.path = path
        self._directory, self._store, self._savepoint = open_savepoint(path)
        self._catalogue = Catalogue(self._savepoint.entry, f"the savepoint {path!r}")

    def __repr__(self) -> str:
        savepoint = self._savepoint
        return (
            f"savepoint {savepoint.id} of {savepoint.name!r} in {self.path}, "
            f"by Rheos {savepoint.version}\n\n{self.states()!r}"
        )

    def operators(self) -> Listing[OperatorInfo]:
        """The operators that keep state."""
        return self._catalogue.operators()

    def states(self) -> Listing[StateInfo]:
        """All states of all operators."""
        return self._catalogue.states()

    @located_at_call
    def state(self, operator: str, state: str) -> DataFrame:
        """The rows of one state. `operator` is its uid (or its name, where only one has it).

        Raises ConfigurationError where there is no such state, and SchemaError where it has columns of
        a type that Spark does not have.
        """
        id = self._catalogue.operator(operator)
        shape = self._catalogue.shape(id, state)
        rows = self._rows(id, state)
        shapes = self._savepoint.entry.states[id]
        if state == TOTALS and SUMS in shapes and shape.value.fields:
            layout = layout_of(state, shapes)
            if isinstance(layout, TotalsLayout) and layout.exact:
                return _with_sums(rows, layout, self._rows(id, SUMS), layout_of(SUMS, shapes))
        return rows

    @located_at_call
    def verify(self) -> None:
        """Reads every file of the savepoint, here on the driver. Raises CheckpointError, naming those
        that are missing or damaged."""
        verify_savepoint(self._store, self._savepoint, self.path)

    def edit(self) -> SavepointEdit:
        """A new savepoint, made of this one: say what is to change, then `write` it elsewhere."""
        from rheos.savepoints.editing import Base, SavepointEdit

        base = Base(self._directory, self._savepoint, self._catalogue)
        return SavepointEdit(self._spark, base)

    def _rows(self, operator: OperatorId, state: str) -> DataFrame:
        return read_frame(self._spark, self._directory, self._savepoint, operator, state)


def read_frame(
    spark: SparkSession, directory: str, savepoint: Savepoint, operator: OperatorId, state: str
) -> DataFrame:
    """The rows that are stored of one state, file by file."""
    schema = layout_of(state, savepoint.entry.states[operator]).schema
    task = reads(directory, savepoint, operator, state)
    return numbered(spark, len(task.shares), "reading_tasks:read_state", task, schema)


def reads(directory: str, savepoint: Savepoint, operator: OperatorId, state: str) -> ReadState:
    """Who reads what of a state: a task for each file; of lists, one for each subtask's files, as a
    list may go on in the next."""
    entry = savepoint.entry
    shapes = entry.states[operator]
    handles = [
        handle for handle in entry.handles if (handle.operator, handle.state) == (operator, state)
    ]
    if shapes[state].holds != Holds.LIST:
        return ReadState(directory, state, [[handle] for handle in handles], shapes)
    by_subtask: dict[int, list[StateHandle]] = {}
    for handle in handles:
        by_subtask.setdefault(handle.subtask, []).append(handle)
    return ReadState(directory, state, list(by_subtask.values()), shapes)


def numbered(spark: SparkSession, tasks: int, entry: str, task: object, schema: pa.Schema) -> DataFrame:
    """What tasks give that are handed their numbers."""
    if not tasks:
        return spark.createDataFrame([], spark_schema(schema))
    return over_rows(spark.range(0, tasks, 1, tasks), entry, task, schema)


def over_rows(rows: DataFrame, entry: str, task: object, schema: pa.Schema) -> DataFrame:
    run = arrow_task(f"{_TASKS}.{entry}", pack(task), readable=True)
    with single_threaded_workers(rows.sparkSession):
        return rows.mapInArrow(run, spark_schema(schema))


def _with_sums(rows: DataFrame, layout: TotalsLayout, sums: DataFrame, of_sums: Layout) -> DataFrame:
    """Totals with the sums and means of floats, which are stored beside them, column by column."""
    *index, column, value = map(quoted, of_sums.schema.names)
    of = {name: f"{at} exact" for at, name in enumerate(layout.exact)}
    wide = sums.groupBy(*index).agg(
        *(f.max(f.when(f.col(column) == name, f.col(value))).alias(of[name]) for name in layout.exact)
    )
    joined = rows.join(wide, on=[*of_sums.schema.names[:-2]], how="left")
    chosen = []
    for name in rows.columns:
        exact = layout.exact_of(name)
        if exact is None:
            chosen.append(f.col(quoted(name)))
            continue
        count = f.col(quoted(name))
        # A sum of zero has no limbs.
        total = f.when(count > 0, f.coalesce(f.col(quoted(of[exact])), f.lit(0.0)))
        made = {f"sum_{exact}": total, f"mean_{exact}": total / count}
        chosen += [what.alias(told) for told, what in made.items() if told not in rows.columns]
    return joined.select(*chosen)


def quoted(name: str) -> str:
    """A column's name as Spark parses it."""
    return "`" + name.replace("`", "``") + "`"
