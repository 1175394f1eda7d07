"""Sources that are checked where they are written, at the user's own line."""

from __future__ import annotations

from typing import Any, TypedDict

from rheos.connectors.spark.dataframe import DataFrameSource, dataframe_source, stream_source
from rheos.connectors.spark.stream import LANES, MAX_UNREAD, StreamSource, stream_settings
from rheos.core.protocol.durations import Duration
from rheos.core.site import call_site, located


def dataframe(df: Any, event_time: str | None = None) -> DataFrameSource:
    """A Spark DataFrame as a bounded source, for `from_source` and `hybrid`; see `from_dataframe`.

    ```python
    env.from_source(rh.dataframe(spark.read.parquet("trips/"), event_time="departed_at"))
    ```
    """
    with located(call_site()):
        return dataframe_source(df, event_time)


class StreamArguments(TypedDict, total=False):
    """The options of `spark_stream`, which says what they are."""

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
    """A streaming Spark DataFrame as a source, for `from_source` and `hybrid`; see `from_stream`.

    ```python
    changes = spark.readStream.format("delta").table("orders")
    env.from_source(rh.hybrid(history, rh.spark_stream(changes)))
    ```

    Args:
        df: what Spark streams: Delta, Iceberg, Kinesis, Auto Loader, a folder, rates.
        trigger: how often Spark is to make a micro-batch at most: `processingTime` of its trigger.
        available_now: what is there when the job begins, and no more: the source ends, and may be read
            in batch. How much of it a batch has is said in the options of `spark.readStream`.
        lanes: how many subtasks can read it side by side. Fixed when the job is first started.
        max_unread: with so many batches staged that are not read yet, Spark waits.
        retain: how long batches are kept that the newest checkpoint has behind it: so long is a
            savepoint good after the job has gone on from it.
    """
    with located(call_site()):
        settings = stream_settings(trigger, available_now, lanes, max_unread, retain)
        return stream_source(df, settings)
