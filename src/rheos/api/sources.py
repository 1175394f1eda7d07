"""Sources whose arguments are checked at the user's line."""

from __future__ import annotations

from typing import Any, TypedDict

from rheos.connectors.spark.dataframe import DataFrameSource, dataframe_source, stream_source
from rheos.connectors.spark.stream import LANES, MAX_UNREAD, StreamSource, stream_settings
from rheos.core.protocol.durations import Duration
from rheos.core.site import call_site, located


def dataframe(df: Any, event_time: str | None = None) -> DataFrameSource:
    """Create a bounded source of a Spark DataFrame's rows, for `from_source` and `hybrid`.

    ```python
    env.from_source(rh.dataframe(spark.read.parquet("trips/"), event_time="departed_at"))
    ```

    Args:
        df: The DataFrame. Each of its rows is read once.
        event_time: The column with the event time: a timestamp, a date, or a long of ms since the
            epoch. By default the rows have no event time.

    Returns:
        The source.

    Raises:
        ProgramError: `df` is not a bounded Spark DataFrame, or has no column `event_time`.
    """
    with located(call_site()):
        return dataframe_source(df, event_time)


class StreamArguments(TypedDict, total=False):
    """Options of `spark_stream`, which describes them."""

    trigger: Duration
    available_now: bool
    lanes: int
    max_unread: int
    retain: Duration


def spark_stream(
    df: Any,
    *,
    trigger: Duration = "1s",
    available_now: bool = False,
    lanes: int = LANES,
    max_unread: int = MAX_UNREAD,
    retain: Duration = "1h",
) -> StreamSource:
    """Create a source from a streaming Spark DataFrame, for `from_source` and `hybrid`; see
    `from_stream`.

    ```python
    changes = spark.readStream.format("delta").table("orders")
    env.from_source(rh.hybrid(history, rh.spark_stream(changes)))
    ```

    Args:
        df: the streaming DataFrame: Delta, Iceberg, Kinesis, Auto Loader, a folder, rates.
        trigger: minimum interval between Spark's micro-batches: `processingTime` of its trigger.
        available_now: read only the rows that exist when the job begins: the source is bounded, and may
            be read in batch. Options of `spark.readStream` limit the size of a micro-batch.
        lanes: maximum number of subtasks that read it in parallel. Fixed at the first start of the job.
        max_unread: number of unread staged batches at which Spark pauses.
        retain: how long to keep batches that the newest checkpoint no longer needs: a savepoint can be
            restored for this long after the job has continued from it.

    Returns:
        The source. It is bounded if `available_now` is set.

    Raises:
        ProgramError: `df` is not a streaming DataFrame, or a number or duration is invalid.
    """
    with located(call_site()):
        settings = stream_settings(trigger, available_now, lanes, max_unread, retain)
        return stream_source(df, settings)
