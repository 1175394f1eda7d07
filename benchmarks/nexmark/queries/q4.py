"""Average price for a category: of the winning bids of its auctions.

Both steps are tables that change: the highest bid of an auction, and the average over these, which
takes back what an auction's highest bid was before.
"""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.queries.winning import VALID, valid_bids
from benchmarks.nexmark.query import Query


def program(market: Market) -> rh.DataStream:
    auctions = market.auctions.select("id", "category", "date_time", "expires")
    highest = valid_bids(auctions, market).key_by("id", "category").table(final=rh.agg.max("price"))
    return highest.retractions().key_by("category").table(average=rh.agg.mean("final"))


SQL = f"""
SELECT category, avg(final) AS average
FROM (SELECT a.id, category, max(price) AS final {VALID} GROUP BY a.id, category)
GROUP BY category
"""

QUERY = Query("q4", "average price for a category", program, SQL, key=("category",))
