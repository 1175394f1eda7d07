"""Find last bid: of each bidder for each auction."""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query


def program(market: Market) -> rh.DataStream:
    return market.bids.key_by("bidder", "auction").dedup("last")


SQL = """
SELECT * FROM bid QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) = 1
"""

QUERY = Query("q18", "find last bid", program, SQL, key=("bidder", "auction"))
