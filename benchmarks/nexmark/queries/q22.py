"""Get URL directories: the three folders of each URL."""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query
from rheos import col


def program(market: Market) -> rh.DataStream:
    parts = col("url").str.split("/")
    return market.bids.select(
        "auction",
        "bidder",
        "price",
        "channel",
        dir1=parts.list.get(3),
        dir2=parts.list.get(4),
        dir3=parts.list.get(5),
    )


SQL = """
SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1,
    split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
FROM bid
"""

QUERY = Query("q22", "get URL directories", program, SQL)
