"""What queries 4, 6 and 9 begin with: each auction with the bids that came while it was open."""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import FOR_GOOD, Market
from rheos import col

VALID = """
FROM auction AS a JOIN bid AS b ON b.auction = a.id AND b.date_time BETWEEN a.date_time AND a.expires
"""


def valid_bids(auctions: rh.DataStream, market: Market) -> rh.DataStream:
    """The auctions' columns, `expires` among them, and those of bids; both with `_bid` where both have
    them."""
    bids = market.bids.select("auction", "bidder", "price", "date_time", "extra")
    pairs = auctions.key_by("id").interval_join(
        bids.key_by("auction"), between=("0s", FOR_GOOD), suffix="_bid"
    )
    return pairs.filter(col("date_time_bid") <= col("expires"))
