"""Auction statistics: how many bids of each level of price an auction has in a day, and what prices."""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.queries.statistics import by_level, counted, sql_counted
from benchmarks.nexmark.query import Query


def program(market: Market) -> rh.DataStream:
    return (
        by_level(market, "auction", "price")
        .key_by("auction", "day")
        .table(
            **counted("price"),
            min_price=rh.agg.min("price"),
            max_price=rh.agg.max("price"),
            avg_price=rh.agg.mean("price"),
            sum_price=rh.agg.sum("price"),
        )
    )


SQL = f"""
SELECT auction, strftime(date_time, '%Y-%m-%d') AS day, {sql_counted()}, min(price) AS min_price,
    max(price) AS max_price, avg(price) AS avg_price, sum(price)::BIGINT AS sum_price
FROM bid GROUP BY auction, day
"""

QUERY = Query("q17", "auction statistics", program, SQL, key=("auction", "day"))
