"""Local item suggestion: who sells items of category 10 in three states?"""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import FOR_GOOD, Market
from benchmarks.nexmark.query import Query
from rheos import col


def program(market: Market) -> rh.DataStream:
    items = market.auctions.filter(col("category") == 10).select("id", "seller")
    sellers = market.persons.filter(col("state").is_in(["OR", "ID", "CA"]))
    sold = items.key_by("seller").interval_join(
        sellers.select("name", "city", "state", person="id").key_by("person"),
        between=(f"-{FOR_GOOD}", FOR_GOOD),
    )
    return sold.select("name", "city", "state", "id")


SQL = """
SELECT name, city, state, auction.id
FROM auction JOIN person ON seller = person.id
WHERE category = 10 AND state IN ('OR', 'ID', 'CA')
"""

QUERY = Query("q3", "local item suggestion", program, SQL)
