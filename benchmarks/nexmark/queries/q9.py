"""Winning bids: of each auction the highest bid, and of equal ones the earliest."""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.queries.winning import VALID, valid_bids
from benchmarks.nexmark.query import Query

AUCTION = (
    "item_name",
    "description",
    "initial_bid",
    "reserve",
    "date_time",
    "expires",
    "seller",
    "category",
)
BID = ("bidder", "price", "extra_bid")


def program(market: Market) -> rh.DataStream:
    bids = valid_bids(market.auctions, market)
    # Bids of one price are ranked by their columns in this order: the earliest comes first.
    ranked = bids.select("id", "date_time_bid", *AUCTION, "extra", *BID)
    return ranked.key_by("id").top_n(1, by="price")


SQL = f"""
SELECT a.id, b.date_time AS date_time_bid, {", ".join(f"a.{name}" for name in AUCTION)}, a.extra,
    bidder, price, b.extra AS extra_bid, 1 AS rank
{VALID}
QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY price DESC, b.date_time) = 1
"""

QUERY = Query("q9", "winning bids", program, SQL, key=("id", "rank"))
