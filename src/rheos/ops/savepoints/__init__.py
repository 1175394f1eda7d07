"""State as DataFrames: read a savepoint, derive another from it, or make one from historical data.

    reading   savepoint ─ one task per file ─ keys and values as columns
    editing   rows ─ encoded ─ repartition_by_id of key groups ─ sorted ─ files ─┐
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
    """Open a savepoint, to read its state as DataFrames.

    ```python
    counts = rh.savepoint(spark, "savepoints/one")
    ```

    Args:
        spark: The session of the DataFrames.
        path: The savepoint's folder, a path or a URL.
        trusted: Whether the savepoint may run code here. This is needed only if `reduce` combined
            records without a class that have other than plain values: such rows are stored as pickles.

    Returns:
        The savepoint.

    Raises:
        CheckpointError: The folder has no savepoint, or it is damaged or of a later version.
    """
    from rheos.ops.savepoints.reading import SavepointFrames

    return SavepointFrames(spark, path, trusted)


@located_at_call
def new_savepoint(spark: SparkSession, program: PlannedProgram | PhysicalPlan) -> NewSavepoint:
    """Begin a savepoint that is made from DataFrames, for a program that starts from it.

    ```python
    new = rh.new_savepoint(spark, env)
    ```

    Args:
        spark: The session of the DataFrames.
        program: The Environment with the program's streams and sinks, or its plan.

    Returns:
        The savepoint, to which state is added.

    Raises:
        ProgramError: The program has no sinks.
    """
    from rheos.ops.savepoints.bootstrap import NewSavepoint

    return NewSavepoint(spark, program)
