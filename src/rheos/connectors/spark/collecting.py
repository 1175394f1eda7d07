"""Collecting a Spark result on the driver, completely or not at all.

If the JVM has no memory left to serve the rows, the thread that serves them dies, and
`DataFrame.collect()` returns the rows received so far without an error. Therefore Rheos appends a last
row of its own. Rows arrive in the order of the partitions, through one stream: once the last row has
arrived, all have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from rheos.connectors.spark import versions
from rheos.core.errors import JobFailedError


def reason_of(error: BaseException) -> str:
    """Return the first line, without Java's stack trace."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.toString())
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


_LAST = "__last"
"""Column that is true only in the last row."""


@dataclass(frozen=True)
class CollectedFrame:
    rows: Sequence[Row]
    """Rows ordered by partition; within a partition they keep their order."""
    tasks: int
    """Number of partitions that Spark reports to have computed."""


def collected(frame: DataFrame) -> CollectedFrame:
    """Return all rows of the frame. They must fit into the memory of the JVM and of this process.

    Raises JobFailedError if not all of them arrived, and Spark's errors.
    """
    sent = _with_trailer(frame)
    rows = sent.collect()
    if not rows or not rows[-1][_LAST]:
        raise _cut_off(len(rows))
    return CollectedFrame(rows[:-1], _partitions(sent) - 1)


def collected_table(frame: DataFrame) -> pa.Table:
    """Return all rows as an Arrow table with nullable columns. Raises as `collected` does."""
    try:
        rows = versions.arrow_table(_with_trailer(frame))
    except ConnectionError:
        raise
    except (EOFError, OSError, pa.ArrowInvalid):
        raise _cut_off(0) from None
    if not rows.num_rows or not rows.column(_LAST)[-1].as_py():
        raise _cut_off(rows.num_rows)
    return rows.slice(0, rows.num_rows - 1).drop_columns(_LAST)


def _with_trailer(frame: DataFrame) -> DataFrame:
    trailer = frame.sparkSession.range(0, 1, 1, 1).select(
        *(f.lit(None).cast(field.dataType).alias(field.name) for field in frame.schema),
        f.lit(True).alias(_LAST),
    )
    return frame.withColumn(_LAST, f.lit(False)).unionAll(trailer)


def _partitions(sent: DataFrame) -> int:
    """Return the number of partitions of a collected frame: its plan is final, and nothing runs
    again."""
    query: Any = sent._jdf.queryExecution()
    return int(query.toRdd().getNumPartitions())


def _cut_off(rows: int) -> JobFailedError:
    return JobFailedError(
        f"only {rows} rows of Spark's result reached the driver, and not its end",
        hint="the JVM of Spark's driver has probably run out of memory, see its log: raise "
        "spark.driver.memory, or collect fewer rows",
    )
