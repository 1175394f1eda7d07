"""Highest bid: the bids with the highest price of each ten seconds."""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query

TEN_SECONDS = rh.Tumbling("10s")


def program(market: Market) -> rh.DataStream:
    bids = market.bids.select("auction", "bidder", "price", "date_time", "extra")
    of_auctions = bids.select("auction", "price").key_by("auction").window(TEN_SECONDS)
    highest = of_auctions.aggregate(price=rh.agg.max("price")).window_all(TEN_SECONDS)
    highest_of_all = highest.aggregate(price=rh.agg.max("price")).select("price")
    found = bids.key_by("price").window_join(highest_of_all.key_by("price"), TEN_SECONDS)
    return found.select("auction", "bidder", "price", "date_time", "extra")


SQL = """
SELECT auction, bidder, price, date_time, extra FROM bid
QUALIFY price = max(price) OVER (PARTITION BY time_bucket(INTERVAL 10 SECOND, date_time))
"""

QUERY = Query("q7", "highest bid", program, SQL)
