"""The execution of a plan by Spark. A DataFrame with several readers is computed before its readers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from rheos.connectors.spark import versions
from rheos.connectors.spark.collecting import collected
from rheos.core.errors import JobFailedError
from rheos.core.plan.physical import Chain, PhysicalPlan
from rheos.core.protocol.ids import JobId, OperatorId
from rheos.core.protocol.state_config import StateConfig
from rheos.runtimes.batch.dataframes import Translation
from rheos.runtimes.batch.layout import NOTE_PORT
from rheos.runtimes.batch.results import Results, handed_over, most_bytes
from rheos.runtimes.batch.shared_reads import with_shared_reads
from rheos.runtimes.batch.task_notes import AnyNote, Ended, Handed, decoder

_SETTINGS = {
    # Spark merges partitions that turned out small, so nobody need configure their number.
    "spark.sql.adaptive.enabled": "true",
    # Also in cached plans.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    # Otherwise chains of one partition each would run one after the other in one task.
    "spark.sql.unionOutputPartitioning": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16MB",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
    "spark.sql.session.timeZone": "UTC",
    # Files have the calendar of today, as by default since Spark 4.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}


_KEPT = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.", "fs.")
"""Prefixes of the settings that our plans inherit from the user's session. They change no result."""


def session_for(session: SparkSession) -> SparkSession:
    """Return a session on the same Spark, with the settings of a batch job. It inherits the given
    session's settings for file systems and for the size of partitions."""
    ours = session.newSession()
    settings = versions.settings(session).items()
    kept = {name: value for name, value in settings if name.startswith(_KEPT)}
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
    limits: StateConfig,
    on_note: Callable[[AnyNote], None],
) -> dict[OperatorId, pa.Table]:
    """Run the whole plan and return the rows that its sinks have collected. `on_note` is called with
    every note when the Spark job that carried it has ended. `limits` bounds the state of one key.

    Raise ConfigurationError if the collected rows exceed the driver's memory, JobFailedError if
    something did not reach the driver, and any error of Spark.
    """
    handed = handed_over(with_shared_reads(plan))
    limit_bytes = most_bytes(session) if handed.sinks else 0
    run = _Run(Results(handed, limit_bytes), on_note)
    try:
        ends = Translation(
            session_for(session),
            handed,
            job,
            first_attempt,
            batch_rows,
            run.keep,
            limit_bytes,
            limits=limits,
        ).ends()
        run.end(ends)
        return run.results()
    finally:
        run.close()


class _Run:
    """The computation of a plan's frames. It receives their tasks' notes and collected rows."""

    def __init__(self, results: Results, on_note: Callable[[AnyNote], None]) -> None:
        self._results = results
        self._on_note = on_note
        self._kept: list[DataFrame] = []
        self._collecting: list[DataFrame] = []

    def keep(self, chain: Chain, frame: DataFrame) -> DataFrame:
        return self._keep([chain], frame)

    def end(self, ends: Sequence[tuple[Chain, DataFrame]]) -> None:
        """Compute the outputs that no chain reads, those of all chains at once."""
        if not ends:
            return
        chains, frames = zip(*ends, strict=True)
        take = self._keep if any(map(self._results.collects, chains)) else self._take_notes
        take(chains, reduce(DataFrame.unionAll, frames))

    def results(self) -> dict[OperatorId, pa.Table]:
        """Return the collected rows. Called after everything has been computed."""
        ports = self._results.ports()
        rows: Sequence[Row] = ()
        if ports:
            handed = [frame.filter(f.col("port").isin(ports)) for frame in self._collecting]
            rows = collected(reduce(DataFrame.unionAll, handed)).rows
        return self._results.tables((row.port, row.payload) for row in rows)

    def close(self) -> None:
        # If the JVM has ended, its error must not hide the first one.
        with contextlib.suppress(Exception):
            for frame in self._kept:
                frame.unpersist()

    def _keep(self, chains: Sequence[Chain], frame: DataFrame) -> DataFrame:
        frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(frame)
        if any(map(self._results.collects, chains)):
            self._collecting.append(frame)
        self._take_notes(chains, frame)
        return frame

    def _take_notes(self, chains: Sequence[Chain], packed: DataFrame) -> None:
        """Take the notes of all tasks that have run these chains, and of those upstream."""
        came = collected(packed.filter(f.col("port") == NOTE_PORT).select("payload"))
        notes = [decoder.decode(row.payload) for row in came.rows]
        heads = {chain.operators[0].id for chain in chains}
        ended = sum(isinstance(note, Ended) and note.operator in heads for note in notes)
        if ended != came.tasks:
            raise JobFailedError(
                f"Spark reports {came.tasks} finished tasks, but only {ended} of them reported "
                "their end",
                hint="nothing was published: run the job again, and report it if it fails again",
            )
        for note in notes:
            if isinstance(note, Handed):
                self._results.promised(note)
            self._on_note(note)
