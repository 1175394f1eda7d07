"""Currency conversion: each price in euros."""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query
from rheos import col


def program(market: Market) -> rh.DataStream:
    return market.bids.select("auction", "bidder", "date_time", "extra", price=col("price") * 0.908)


SQL = "SELECT auction, bidder, date_time, extra, price * 0.908::DOUBLE AS price FROM bid"

QUERY = Query("q1", "currency conversion", program, SQL)
