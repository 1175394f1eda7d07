"""Hot items: the auctions with the most bids in the last ten seconds, every two seconds."""

from __future__ import annotations

import polars as pl

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query
from rheos import col


def program(market: Market) -> rh.DataStream:
    windows = market.bids.select("auction").key_by("auction").window(rh.Sliding("10s", every="2s"))
    counts = windows.aggregate(num=rh.agg.count()).select("auction", "num", ends="window_end")
    hottest = pl.struct("auction", "num").filter(col("num") == col("num").max()).implode()
    # Counts have the time of the end of their window: those of one window are in the same two seconds.
    hot = counts.key_by("ends").window(rh.Tumbling("2s")).aggregate(hot=hottest)
    return hot.explode("hot").select("auction", "num")


SQL = """
WITH hops AS (
    SELECT unnest(generate_series(
        time_bucket(INTERVAL 2 SECOND, date_time) - INTERVAL 8 SECOND,
        time_bucket(INTERVAL 2 SECOND, date_time),
        INTERVAL 2 SECOND)) AS hop, auction
    FROM bid
), counts AS (
    SELECT hop, auction, count(*) AS num FROM hops GROUP BY hop, auction
)
SELECT auction, num FROM counts
QUALIFY num = max(num) OVER (PARTITION BY hop)
"""

QUERY = Query("q5", "hot items", program, SQL)
