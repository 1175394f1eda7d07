"""Bidding statistics: how many bids, bidders and auctions of each level of price were there in a day?

The published query gives new figures with every bid; this one gives them when the day is over. The
figures of the day are the same.
"""

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
    days = by_level(market, "bidder", "auction").key_by("day").window(rh.Tumbling("1d"))
    measurements = days.aggregate(**counted("bidder"), **distinct("bidder"), **distinct("auction"))
    return measurements.select(rh.col("*").exclude("window_start", "window_end"))


SQL = f"""
SELECT strftime(date_time, '%Y-%m-%d') AS day, {sql_counted()}, {sql_distinct("bidder")},
    {sql_distinct("auction")}
FROM bid GROUP BY day
"""

QUERY = Query("q15", "bidding statistics", program, SQL)
