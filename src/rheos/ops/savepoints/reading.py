"""A savepoint's state as DataFrames."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rheos.core.checkpoint.savepoint import verify_savepoint
from rheos.core.protocol.ids import OperatorId
from rheos.core.site import located_at_call
from rheos.ops.savepoints.editing import SavepointEdit
from rheos.ops.savepoints.layouts import layout_of
from rheos.ops.savepoints.savepoint_edits import Base
from rheos.ops.savepoints.savepoint_folder import open_savepoint
from rheos.ops.savepoints.task_frames import quoted, read_frame
from rheos.ops.savepoints.window_layouts import SUMS, TOTALS, TotalsLayout
from rheos.runtimes.state_tables.catalogue import EntryCatalogue, Listing, OperatorInfo, StateInfo
from rheos.runtimes.state_tables.state_layout import StateLayout


class SavepointFrames:
    """One savepoint. Only its manifest is read until a DataFrame is used."""

    def __init__(self, spark: SparkSession, path: str, trusted: bool = False) -> None:
        self._spark = spark
        self._trusted = trusted
        self.path = path
        self._directory, self._store, self._savepoint = open_savepoint(path)
        self._catalogue = EntryCatalogue(self._savepoint.entry, f"the savepoint {path!r}")

    def __repr__(self) -> str:
        savepoint = self._savepoint
        return (
            f"savepoint {savepoint.id} of {savepoint.name!r} in {self.path}, "
            f"by Rheos {savepoint.version}\n\n{self.states()!r}"
        )

    def operators(self) -> Listing[OperatorInfo]:
        """Return the operators that keep state."""
        return self._catalogue.operators()

    def states(self) -> Listing[StateInfo]:
        """Return all states of all operators."""
        return self._catalogue.states()

    @located_at_call
    def state(self, operator: str, state: str) -> DataFrame:
        """Return the rows of one state. `operator` is its uid, or its name if only one operator has it.
        Raise ConfigurationError if there is no such state, and SchemaError if it has columns of a type
        that Spark lacks."""
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
        """Read every file of the savepoint, on the driver. Raise CheckpointError, with the names of
        missing or damaged files."""
        verify_savepoint(self._store, self._savepoint, self.path)

    def edit(self) -> SavepointEdit:
        """Return an edit that derives a new savepoint: declare changes, then `write` it elsewhere."""
        base = Base(self._directory, self._savepoint, self._catalogue)
        return SavepointEdit(self._spark, base)

    def _rows(self, operator: OperatorId, state: str) -> DataFrame:
        return read_frame(self._spark, self._directory, self._savepoint, operator, state, self._trusted)


def _with_sums(
    rows: DataFrame, layout: TotalsLayout, sums: DataFrame, of_sums: StateLayout
) -> DataFrame:
    """Return totals with the sums and means of floats, which a separate state holds by column."""
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
        chosen += [what.alias(column) for column, what in made.items() if column not in rows.columns]
    return joined.select(*chosen)
