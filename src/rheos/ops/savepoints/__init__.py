"""State as DataFrames: read a savepoint, derive another from it, or make one from historical data.

    reading   savepoint ─ one task per file ─ keys and values as columns
    editing   rows ─ encoded ─ repartitionById by key group ─ sorted ─ files ─┐
              files that stay ─ copied, without the keys that are deleted ────┴─ handles ─ manifest

A savepoint consists of rows, whatever the state backend. Its manifest describes the contents of its
states. So the program is not needed to read or change one, only to make the first one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rheos.core.site import located_at_call

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rheos.core.plan.physical import PhysicalPlan
    from rheos.ops.savepoints.bootstrap import NewSavepoint, PlannedProgram
    from rheos.ops.savepoints.reading import SavepointFrames


@located_at_call
def savepoint(spark: SparkSession, path: str, *, trusted: bool = False) -> SavepointFrames:
    """Open the savepoint in this folder, a path or a URL.

    `trusted` allows the savepoint to run code here. It is needed only if `reduce` combined records
    without a class that hold more than plain values: such rows are stored as pickles.

    Raise CheckpointError if there is no savepoint, or it is damaged or of a later version.
    """
    from rheos.ops.savepoints.reading import SavepointFrames

    return SavepointFrames(spark, path, trusted)


@located_at_call
def new_savepoint(spark: SparkSession, program: PlannedProgram | PhysicalPlan) -> NewSavepoint:
    """Return a savepoint to be made from DataFrames, for a program that will start from it.

    `program` is its Environment, after its streams and sinks were declared, or its plan.
    """
    from rheos.ops.savepoints.bootstrap import NewSavepoint

    return NewSavepoint(spark, program)
