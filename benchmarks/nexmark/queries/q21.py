"""Add channel id: by the name of a large channel, or from the URL."""

from __future__ import annotations

import polars as pl

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.query import Query
from rheos import col

LARGE = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}


def program(market: Market) -> rh.DataStream:
    of_name = col("channel").str.to_lowercase().replace_strict(LARGE, default=None)
    of_url = col("url").str.extract("(&|^)channel_id=([^&]*)", 2)
    bids = market.bids.select(
        "auction", "bidder", "price", "channel", channel_id=pl.coalesce(of_name, of_url)
    )
    return bids.filter(col("channel_id").is_not_null())


SQL = """
SELECT auction, bidder, price, channel,
    CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
        WHEN 'baidu' THEN '3' ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
FROM bid
WHERE lower(channel) IN ('apple', 'google', 'facebook', 'baidu') OR url LIKE '%&channel_id=%'
"""

QUERY = Query("q21", "add channel id", program, SQL)
