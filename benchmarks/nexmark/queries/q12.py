"""Processing-time windows: how many bids does someone make in ten seconds by the clock?

The rows are different in every run, so there is nothing to compare them with. Windows that are open
when the input ends give none.
"""

from __future__ import annotations

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query


def program(market: Market) -> rh.DataStream:
    bids = market.bids.select("bidder").key_by("bidder")
    return bids.window(rh.Tumbling("10s", time="processing_time")).aggregate(bids=rh.agg.count())


QUERY = Query("q12", "processing-time windows", program, None)
