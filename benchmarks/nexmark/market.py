"""What a query begins with: the streams of persons, auctions and bids, made of one stream of events."""

from __future__ import annotations

from functools import cached_property

import polars as pl

import rheos as rh
from benchmarks.nexmark.events import AUCTION_TYPE, BID_TYPE, PERSON_TYPE
from rheos import col

WATERMARK = rh.Watermark.bounded_out_of_orderness("4s", on="date_time")
"""As the published queries declare it."""

FOR_GOOD = "1h"
"""Longer than the events last. Where SQL joins all rows of two streams, these programs join those that
are within so long of each other, which bounds the state of the join."""


class Market:
    """The auction house as streams: the fields of the events' structs, and `date_time`."""

    def __init__(self, events: rh.DataStream) -> None:
        self._events = events

    @cached_property
    def persons(self) -> rh.DataStream:
        return self._of("person", PERSON_TYPE.names)

    @cached_property
    def auctions(self) -> rh.DataStream:
        return self._of("auction", AUCTION_TYPE.names)

    @cached_property
    def bids(self) -> rh.DataStream:
        return self._of("bid", BID_TYPE.names)

    def _of(self, kind: str, names: list[str]) -> rh.DataStream:
        event: pl.Expr = col(kind)
        fields = [event.struct.field(name).alias(name) for name in names]
        return self._events.filter(event.is_not_null()).select(*fields, "date_time").name(f"{kind}s")


def market(env: rh.Environment, source: rh.connectors.Source) -> Market:
    """Of a source of `Events`."""
    return Market(env.from_source(source, watermark=WATERMARK, name="events"))
