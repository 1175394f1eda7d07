"""The rows that a query computes after its checkpoint. The query runs on a copy of the checkpoint."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from rheos.connectors.spark import versions
from rheos.connectors.spark.spark_types import arrow_schema
from rheos.connectors.urls import absolute
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.ops.migration import spark_state
from rheos.ops.migration.spark_checkpoint import SparkCheckpoint, read_checkpoint
from rheos.ops.migration.spark_program import SparkQuery
from rheos.ops.savepoints.task_frames import quoted
from rheos.runtimes.host.stores import open_store

WINDOW = ("window_start", "window_end")
"""Columns of a job with the bounds of a window. In a query they are fields of the column `window` or
`session_window`."""
_LOOK_S = 0.2


@dataclass(frozen=True)
class QueryTail:
    """The output of a query after its checkpoint."""

    batches: list[pa.Table]
    """Rows that each batch emits."""
    schema: pa.Schema
    end: SparkCheckpoint
    """Last batch of the copy, with the positions up to which the query has read."""

    @property
    def emitted(self) -> pa.Table:
        """Return the rows of all batches."""
        return pa.concat_tables([self.schema.empty_table(), *self.batches])


def run_tail(query: SparkQuery, checkpoint: str, folder: Path, rows: int | None) -> QueryTail:
    """Run a query from a copy of its checkpoint, over the input that is available now.

    Args:
        query: The query. Its own sink receives nothing.
        checkpoint: Its checkpoint, a path or a URL, which is only read.
        folder: An empty folder for the copy.
        rows: Number of rows after which the query stops; it completes the batches that it has begun.
            None: all rows that are available now.

    Returns:
        Its output, and the positions up to which it has read.

    Raises:
        ConfigurationError: Spark runs on other machines, which cannot read the copy.
        ProgramError: The query fails.
    """
    session = query.rows.sparkSession
    master = session.sparkContext.master
    if not master.startswith("local"):
        raise ConfigurationError(
            f"the copy of the checkpoint is on this machine, but the query runs on {master}",
            site=query.site,
            hint="compare the two with a local master: remove the master from the program, or pass it "
            "local[2]",
        )
    _copy(absolute(checkpoint), folder)
    before = read_checkpoint(str(folder)).batch
    frame = _flat(query.rows)
    collected: dict[int, pa.Table] = {}

    def collect(batch: DataFrame, number: int) -> None:
        collected[number] = versions.arrow_table(batch)

    writer = frame.writeStream.outputMode(query.mode).foreachBatch(collect)
    read: dict[int, int] = {}
    try:
        running = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
        try:
            while not running.awaitTermination(_LOOK_S):
                read |= {each.batchId: each.numInputRows for each in running.recentProgress}
                if rows is not None and sum(read.values()) >= rows:
                    break
        finally:
            running.stop()
    except versions.QUERY_ERRORS as error:
        raise ProgramError(
            f"the query fails on a copy of its checkpoint: {_first_line(error)}",
            site=query.site,
            hint="run the query itself with the checkpoint, and compare the programs",
        ) from error
    end = read_checkpoint(str(folder))
    done = [collected[number] for number in sorted(collected) if before < number <= end.batch]
    schema = done[0].schema if done else arrow_schema(frame.schema)
    return QueryTail(done, schema, end)


def _copy(source: str, folder: Path) -> None:
    """Copy a checkpoint with its hidden files, which contain checksums."""
    url = urlparse(source)
    if url.scheme in ("", "file"):
        shutil.copytree(url.path if url.scheme else source, folder, dirs_exist_ok=True)
        return
    store = open_store(source, make=False)
    for path in store.list(""):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(store.get(path))


def _flat(rows: DataFrame) -> DataFrame:
    """Return the rows with the bounds of their window as columns, as a job has them."""
    bounds_names = ["start", "end"]
    for function in (spark_state.WINDOW, spark_state.SESSION_WINDOW):
        if function not in rows.columns:
            continue
        window = rows.schema[function].dataType
        if isinstance(window, StructType) and window.names == bounds_names:
            bounds = [
                f.col(function).getField(name).alias(column)
                for name, column in zip(bounds_names, WINDOW, strict=True)
            ]
            others = [f.col(quoted(name)) for name in rows.columns if name != function]
            return rows.select(*others, *bounds)
    return rows


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
