"""Monitor new users: who has come in the last ten seconds and opened an auction in them?"""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query

TEN_SECONDS = rh.Tumbling("10s")


def program(market: Market) -> rh.DataStream:
    sellers = market.auctions.select("seller").key_by("seller").window(TEN_SECONDS)
    # Once for each seller and window, however many auctions they have opened.
    once = sellers.aggregate(auctions=rh.agg.count()).select("seller")
    persons = market.persons.select("id", "name").key_by("id")
    found = persons.window_join(once.key_by("seller"), TEN_SECONDS)
    return found.select("id", "name", starts="window_start")


SQL = """
SELECT DISTINCT person.id, name, time_bucket(INTERVAL 10 SECOND, person.date_time) AS starts
FROM person JOIN auction ON seller = person.id
    AND time_bucket(INTERVAL 10 SECOND, auction.date_time)
        = time_bucket(INTERVAL 10 SECOND, person.date_time)
"""

QUERY = Query("q8", "monitor new users", program, SQL)
