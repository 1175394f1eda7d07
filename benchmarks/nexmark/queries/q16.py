"""Channel statistics: query 15 for each channel, with the last minute in which it had a bid."""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.queries.statistics import (
    by_level,
    counted,
    distinct,
    sql_counted,
    sql_distinct,
)
from benchmarks.nexmark.query import Query


def program(market: Market) -> rh.DataStream:
    days = by_level(market, "bidder", "auction").key_by("channel", "day").window(rh.Tumbling("1d"))
    measurements = days.aggregate(
        minute=rh.agg.max("minute"),
        **counted("bidder"),
        **distinct("bidder"),
        **distinct("auction"),
    )
    return measurements.select(rh.col("*").exclude("window_start", "window_end"))


SQL = f"""
SELECT channel, strftime(date_time, '%Y-%m-%d') AS day, max(strftime(date_time, '%H:%M')) AS minute,
    {sql_counted()}, {sql_distinct("bidder")}, {sql_distinct("auction")}
FROM bid GROUP BY channel, day
"""

QUERY = Query("q16", "channel statistics", program, SQL)
