"""The Yahoo streaming benchmark as a user of Rheos writes it: views by campaign and window."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

import rheos as rh
from benchmarks.paper.ads import WINDOW_MS, campaign_of_ad
from rheos import col

KEY = "views:{campaign}:{window}"
FIELD = "views"
"""In Redis, a hash of one field for each campaign and window."""

_COUNTS = pa.schema([("campaign", pa.string()), ("window", pa.int64()), ("views", pa.int64())])


def views_by_campaign(events: rh.DataStream) -> rh.DataStream:
    """Each campaign's views in each window so far: newer counts come as long as views do."""
    views = events.filter(col("event_type") == "view").select("ad_id", "event_time")
    joined = views.select(
        campaign=col("ad_id").replace_strict(campaign_of_ad()),
        window=col("event_time").cast(pl.Int64) // WINDOW_MS * WINDOW_MS,
    )
    counts = joined.key_by("campaign", "window").running(views=rh.agg.count())
    return counts.map_batches(newest, returns=_COUNTS)


def newest(counts: pl.DataFrame) -> pl.DataFrame:
    """Redis need not see each of the counts that come together: they only grow."""
    return counts.group_by("campaign", "window").agg(pl.col("views").max())


def into_redis(counts: rh.DataStream, url: str) -> None:
    counts.sink_to(rh.redis.sink(url, key=KEY, value=FIELD))
