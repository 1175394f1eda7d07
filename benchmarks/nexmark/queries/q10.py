"""Log to files: all bids, with the day and minute that they belong to.

The published query writes a folder for each minute. The sink of files here has no such folders, so day
and minute are columns of what is written.
"""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query
from rheos import col


def program(market: Market) -> rh.DataStream:
    bids = market.bids.select("auction", "bidder", "price", "date_time", "extra")
    return bids.with_columns(
        dt=col("date_time").dt.strftime("%Y-%m-%d"), hm=col("date_time").dt.strftime("%H:%M")
    )


SQL = """
SELECT auction, bidder, price, date_time, extra, strftime(date_time, '%Y-%m-%d') AS dt,
    strftime(date_time, '%H:%M') AS hm
FROM bid
"""

QUERY = Query("q10", "log to files", program, SQL, writes_files=True)
