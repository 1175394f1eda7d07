"""What queries 15 to 17 begin with: bids with their day, and columns that are null but for one of three
levels of price."""

from __future__ import annotations

import polars as pl

import rheos as rh
from benchmarks.nexmark.market import Market
from rheos import col

LEVELS = {
    "rank1": col("price") < 10_000,
    "rank2": (col("price") >= 10_000) & (col("price") < 1_000_000),
    "rank3": col("price") >= 1_000_000,
}
DAY = col("date_time").dt.strftime("%Y-%m-%d")
WHERE = {
    "total": "true",
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}


def by_level(market: Market, *columns: str) -> rh.DataStream:
    """`day`, `minute`, the columns, and each of those once more by level: `rank1_bidder`."""
    leveled = {
        f"{level}_{column}": pl.when(holds).then(col(column))
        for column in columns
        for level, holds in LEVELS.items()
    }
    minute = col("date_time").dt.strftime("%H:%M")
    return market.bids.select("channel", *columns, day=DAY, minute=minute, **leveled)


def counted(column: str) -> dict[str, rh.agg.Agg]:
    """How many bids: of all, and of each level."""
    counts = {f"{level}_bids": rh.agg.count(f"{level}_{column}") for level in LEVELS}
    return {"total_bids": rh.agg.count(), **counts}


def distinct(column: str) -> dict[str, rh.agg.Agg]:
    """How many different values of a column: in all bids, and in those of each level."""
    counts = {f"{level}_{column}s": rh.agg.count_distinct(f"{level}_{column}") for level in LEVELS}
    return {f"total_{column}s": rh.agg.count_distinct(column), **counts}


def sql_counted() -> str:
    return ", ".join(f"count(*) FILTER ({holds}) AS {level}_bids" for level, holds in WHERE.items())


def sql_distinct(column: str) -> str:
    return ", ".join(
        f"count(DISTINCT {column}) FILTER ({holds}) AS {level}_{column}s"
        for level, holds in WHERE.items()
    )
