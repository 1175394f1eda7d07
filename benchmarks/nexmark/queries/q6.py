"""Average selling price by seller: of the last ten auctions of each that were closed with a bid.

Flink's SQL does not have it, as its OVER takes no retractions. Here an auction gives its winning bid
when it closes, by a timer, so there is nothing to take back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import rheos as rh
from benchmarks.nexmark.market import Market
from benchmarks.nexmark.queries.winning import VALID, valid_bids
from benchmarks.nexmark.query import Query


@dataclass
class ValidBid:
    id: int
    seller: int
    closes_ms: int
    price: int


@dataclass
class Closed:
    seller: int
    id: int
    price: int


@dataclass
class SellerPrice:
    seller: int
    average: float


class Winning(rh.KeyedProcessFunction):
    highest = rh.ValueState(int, default=0)
    seller = rh.ValueState(int)

    def process_element(self, bid: ValidBid, ctx: rh.KeyedContext) -> None:
        self.highest.value = max(self.highest.value, bid.price)
        self.seller.value = bid.seller
        ctx.timers.register(bid.closes_ms)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Closed]:
        seller = self.seller.value
        assert seller is not None
        yield Closed(seller, ctx.key, self.highest.value)
        self.highest.clear()
        self.seller.clear()


class LastTen(rh.KeyedProcessFunction):
    prices = rh.ListState(int)

    def process_element(self, sold: Closed, ctx: rh.KeyedContext) -> Iterator[SellerPrice]:
        last = [*self.prices, sold.price][-10:]
        self.prices.replace(last)
        yield SellerPrice(sold.seller, sum(last) / len(last))


def program(market: Market) -> rh.DataStream:
    auctions = market.auctions.select("id", "seller", "date_time", "expires")
    bids = valid_bids(auctions, market).select(
        "id", "seller", "price", closes_ms=rh.col("expires").dt.epoch("ms")
    )
    closed = bids.key_by("id").process(Winning(), order="event_time")
    return closed.key_by("seller").process(LastTen(), order="event_time")


SQL = f"""
WITH closed AS (
    SELECT a.id, seller, expires, max(price) AS price {VALID} GROUP BY a.id, seller, expires
)
SELECT seller, avg(price) OVER (
    PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS average
FROM closed
"""

QUERY = Query("q6", "average selling price by seller", program, SQL)
