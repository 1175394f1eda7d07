"""Selection: the bids for some auctions."""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query
from rheos import col


def program(market: Market) -> rh.DataStream:
    return market.bids.filter(col("auction") % 123 == 0).select("auction", "price")


SQL = "SELECT auction, price FROM bid WHERE auction % 123 = 0"

QUERY = Query("q2", "selection", program, SQL)
