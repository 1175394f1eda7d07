"""Bounded side input: bids with what a table that does not change says of their auction."""

from __future__ import annotations

import polars as pl

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query
from rheos import col

SIZE = 10_000


def side() -> rh.connectors.Lookup:
    """What is looked up."""
    keys = pl.Series("key", range(SIZE))
    table = pl.DataFrame({"key": keys, "value": "value " + keys.cast(pl.String)})
    return rh.lookup_table(table, key="key")


def program(market: Market) -> rh.DataStream:
    bids = market.bids.select("auction", "bidder", "price", "date_time", key=col("auction") % SIZE)
    found = bids.lookup(side(), on="key", how="inner")
    return found.select("auction", "bidder", "price", "date_time", "value")


SQL = f"""
SELECT auction, bidder, price, date_time, 'value ' || (auction % {SIZE}) AS value FROM bid
"""

QUERY = Query("q13", "bounded side input", program, SQL)
