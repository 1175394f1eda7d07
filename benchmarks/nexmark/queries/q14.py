"""Calculation: bids of some prices, with the time of day and how often a letter is in their text."""

from __future__ import annotations

import polars as pl

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query
from rheos import col


def program(market: Market) -> rh.DataStream:
    euros = col("price") * 0.908
    hour = col("date_time").dt.hour()
    of_day = (
        pl.when(hour.is_between(8, 18))
        .then(pl.lit("day"))
        .when((hour <= 6) | (hour >= 20))
        .then(pl.lit("night"))
        .otherwise(pl.lit("other"))
    )
    return market.bids.filter((euros > 1_000_000) & (euros < 50_000_000)).select(
        "auction",
        "bidder",
        "date_time",
        "extra",
        price=euros,
        of_day=of_day,
        c_counts=col("extra").str.count_matches("c", literal=True).cast(pl.Int64),
    )


SQL = """
SELECT auction, bidder, date_time, extra, price * 0.908::DOUBLE AS price,
    CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'day'
         WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'night' ELSE 'other' END AS of_day,
    length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid WHERE price * 0.908::DOUBLE > 1000000 AND price * 0.908::DOUBLE < 50000000
"""

QUERY = Query("q14", "calculation", program, SQL)
