"""Sources that are checked where they are written, at the user's own line."""

from __future__ import annotations

from typing import Any

from rheos.connectors.spark.dataframe import DataFrameSource, dataframe_source
from rheos.site import call_site, located


def dataframe(df: Any, event_time: str | None = None) -> DataFrameSource:
    """A Spark DataFrame as a bounded source, for `from_source` and `hybrid`; see `from_dataframe`.

    ```python
    env.from_source(rh.dataframe(spark.read.parquet("trips/"), event_time="departed_at"))
    ```
    """
    with located(call_site()):
        return dataframe_source(df, event_time)
