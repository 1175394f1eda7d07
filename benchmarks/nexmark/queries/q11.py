"""User sessions: how many bids did someone make in each session?"""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query


def program(market: Market) -> rh.DataStream:
    sessions = market.bids.select("bidder").key_by("bidder").window(rh.Session("10s"))
    return sessions.aggregate(bids=rh.agg.count())


SQL = """
WITH marked AS (
    SELECT bidder, date_time, date_time - lag(date_time) OVER by_time > INTERVAL 10 SECOND AS begins
    FROM bid WINDOW by_time AS (PARTITION BY bidder ORDER BY date_time)
), numbered AS (
    SELECT bidder, date_time, count(*) FILTER (begins) OVER (
        PARTITION BY bidder ORDER BY date_time RANGE UNBOUNDED PRECEDING) AS session
    FROM marked
)
SELECT bidder, min(date_time) AS window_start, max(date_time) + INTERVAL 10 SECOND AS window_end,
    count(*) AS bids
FROM numbered GROUP BY bidder, session
"""

QUERY = Query("q11", "user sessions", program, SQL)
