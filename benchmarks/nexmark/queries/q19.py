"""Auction top ten: the ten highest bids of each auction."""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query


def program(market: Market) -> rh.DataStream:
    return market.bids.key_by("auction").top_n(10, by="price")


# Of bids with one price the published query says nothing; Rheos takes them by their columns.
SQL = """
SELECT *, row_number() OVER (
    PARTITION BY auction ORDER BY price DESC, bidder, channel, url, extra, date_time) AS rank
FROM bid QUALIFY rank <= 10
"""

QUERY = Query("q19", "auction top ten", program, SQL, key=("auction", "rank"))
