"""Pass through: every bid as it is."""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query


def program(market: Market) -> rh.DataStream:
    return market.bids.select("auction", "bidder", "price", "date_time", "extra")


SQL = "SELECT auction, bidder, price, date_time, extra FROM bid"

QUERY = Query("q0", "pass through", program, SQL)
