"""Expand bid with auction: bids with the auction that they are for, of category 10."""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import FOR_GOOD, Market
from benchmarks.nexmark.query import Query
from rheos import col


def program(market: Market) -> rh.DataStream:
    auctions = market.auctions.filter(col("category") == 10)
    return market.bids.key_by("auction").interval_join(
        auctions.key_by("id"), between=(f"-{FOR_GOOD}", FOR_GOOD), suffix="_auction"
    )


SQL = """
SELECT b.*, a.id, item_name, description, initial_bid, reserve, expires, seller, category,
    a.date_time AS date_time_auction, a.extra AS extra_auction
FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE category = 10
"""

QUERY = Query("q20", "expand bid with auction", program, SQL)
