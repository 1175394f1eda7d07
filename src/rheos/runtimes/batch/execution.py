"""Has Spark run a plan: every DataFrame that several read is computed before they do."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from rheos.plan.physical import PhysicalPlan
from rheos.protocol.ids import JobId
from rheos.runtimes.batch.dataframes import Translation
from rheos.runtimes.batch.layout import NOTE_PORT

_SETTINGS = {
    # Spark merges partitions that turned out small: only then need nobody say how many there are to be.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16MB",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
    "spark.sql.session.timeZone": "UTC",
}


_KEPT = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.", "fs.")
"""How the settings of the user's session begin that change no result, and hold for our plans, too."""


def session_for(session: SparkSession) -> SparkSession:
    """A session of the same Spark, with the settings that a batch job runs under. What the given one
    was told of file systems, and of the size of partitions, holds."""
    ours = session.newSession()
    told = session.conf.getAll.items()
    kept = {name: value for name, value in told if name.startswith(_KEPT)}
    for name, value in (kept | _SETTINGS).items():
        ours.conf.set(name, value)
    return ours


def run(
    session: SparkSession,
    plan: PhysicalPlan,
    *,
    job: JobId,
    first_attempt: int,
    batch_rows: int,
    on_notes: Callable[[list[bytes]], None],
) -> None:
    """Runs the whole plan. `on_notes` is called with the notes of each Spark job that ends. Raises what
    Spark raises."""
    kept: list[DataFrame] = []

    def collect(packed: DataFrame) -> None:
        rows = packed.filter(f.col("port") == NOTE_PORT).select("payload").collect()
        on_notes([bytes(row.payload) for row in rows])

    def keep(frame: DataFrame) -> DataFrame:
        frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
        kept.append(frame)
        collect(frame)
        return frame

    try:
        ends = Translation(session_for(session), plan, job, first_attempt, batch_rows, keep).ends()
        if ends:
            collect(reduce(DataFrame.unionAll, ends))
    finally:
        for frame in kept:
            frame.unpersist()
