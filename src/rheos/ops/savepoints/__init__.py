"""State as DataFrames: read a savepoint, make another of it, or make one from history.

    reading   savepoint ─ one task per file ─ keys and values as columns
    editing   rows ─ encoded ─ repartitionById by key group ─ sorted ─ files ─┐
              files that stay ─ copied, without the keys that are deleted ────┴─ handles ─ manifest

A savepoint is rows, whatever the state backend; what its states hold, the manifest says. So the
program is not needed to read or change one, and is asked only where there is no savepoint yet.
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

    Raises CheckpointError if there is no savepoint, or it is damaged or of a later version.
    """
    from rheos.ops.savepoints.reading import SavepointFrames

    return SavepointFrames(spark, path, trusted)


@located_at_call
def new_savepoint(spark: SparkSession, program: PlannedProgram | PhysicalPlan) -> NewSavepoint:
    """A savepoint to be made from DataFrames, for a program that is to start from it.

    `program` is its Environment, with the streams and sinks written down, or its plan.
    """
    from rheos.ops.savepoints.bootstrap import NewSavepoint

    return NewSavepoint(spark, program)
