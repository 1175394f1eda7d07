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
_CAMPAIGN_OF_AD = campaign_of_ad()


def views_by_campaign(events: rh.DataStream) -> rh.DataStream:
    """Each campaign's views in each window so far: newer counts come as long as views do."""
    some = events.map_batches(counted, returns=_COUNTS)
    counts = some.key_by("campaign", "window").running(total=rh.agg.sum("views"))
    return counts.map_batches(newest, returns=_COUNTS)


def counted(events: pl.DataFrame) -> pl.DataFrame:
    """Filter, projection, join and the counts of one batch, so that few rows go through the shuffle."""
    views = events.lazy().filter(col("event_type") == "view")
    joined = views.select(
        campaign=col("ad_id").replace_strict(_CAMPAIGN_OF_AD),
        window=col("event_time").cast(pl.Int64) // WINDOW_MS * WINDOW_MS,
    )
    return joined.group_by("campaign", "window").agg(views=pl.len().cast(pl.Int64)).collect()


def newest(counts: pl.DataFrame) -> pl.DataFrame:
    """Redis need not see each of the counts that come together: they only grow."""
    return counts.group_by("campaign", "window").agg(views=col("total").max())


def into_redis(counts: rh.DataStream, url: str) -> None:
    counts.sink_to(rh.redis.sink(url, key=KEY, value=FIELD))
