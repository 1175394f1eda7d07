"""Programs of windows with user-defined triggers, evictors and functions, of counts, and over all rows.
The order of rows of several splits is undefined: whatever depends on it (early results, rows of a count
window) is tested with the operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

import rheos as rh
from rheos import col
from tests.equivalence.corpus.inputs import SALES, Sale
from tests.equivalence.corpus.oracle import Row, arrived, bare, by_window, known, result
from tests.equivalence.corpus.program import Given, Golden, Program

TEN_S, MINUTE = 10_000, 60_000


class Priced(rh.Evictor):
    """Ignores sales without a price."""

    def evict_before(self, elements: list[rh.Element], ctx: rh.EvictorContext) -> list[rh.Element]:
        return [element for element in elements if element.record.price is not None]


class AtTheEnd(rh.Trigger):
    """Fires at the end of the window, if it had more than two rows."""

    rows = rh.ValueState(int, default=0)

    def on_element(self, record: Any, ctx: rh.TriggerContext) -> rh.TriggerResult:
        self.rows.value += 1
        ctx.timers.register(ctx.window.end_ms - 1)
        return rh.TriggerResult.CONTINUE

    def on_event_time(self, timestamp: int, ctx: rh.TriggerContext) -> rh.TriggerResult:
        return rh.TriggerResult.FIRE if self.rows.value > 2 else rh.TriggerResult.CONTINUE


@dataclass
class Range:
    low: int
    high: int
    rows: int


@dataclass
class RangeOfShop:
    shop: str
    end: int
    low: int
    high: int
    rows: int


class Quantities(rh.AggregateFunction[Range]):
    def create_accumulator(self) -> Range:
        return Range(10**6, -(10**6), 0)

    def add(self, record: Sale, accumulator: Range) -> Range:
        quantity = record.quantity or 0
        low, high = min(accumulator.low, quantity), max(accumulator.high, quantity)
        return Range(low, high, accumulator.rows + 1)

    def get_result(self, accumulator: Range) -> Range:
        return accumulator

    def merge(self, a: Range, b: Range) -> Range:
        return Range(min(a.low, b.low), max(a.high, b.high), a.rows + b.rows)


class OfShop(rh.WindowFunction):
    def process(self, records: list[Range], ctx: rh.WindowContext) -> Iterator[RangeOfShop]:
        for found in records:
            yield RangeOfShop(ctx.key, ctx.window.end_ms, found.low, found.high, found.rows)


class MinuteAndHalf(rh.WindowAssigner):
    """Assigns a window for the minute, and one for its first half."""

    def assign(self, record: Any, timestamp: int, ctx: Any) -> list[rh.TimeWindow]:
        start = timestamp - timestamp % MINUTE
        windows = [rh.TimeWindow(start, start + MINUTE)]
        if timestamp - start < MINUTE // 2:
            windows.append(rh.TimeWindow(start, start + MINUTE // 2))
        return windows


EARLY = rh.triggers.event_time(early=rh.triggers.continuous_event_time("2s"))
"""The last firing of a window has all its rows."""


def gap_of(user: Any) -> Any:
    """Return a gap in ms. No two rows are exactly that far apart."""
    return 1_501 * (user % 3 + 1)


def triggered(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.stream(SALES)
    shops = sales.key_by("shop")
    priced = (
        shops.window(rh.Tumbling("10s"))
        .trigger(AtTheEnd())
        .evictor(Priced())
        .aggregate(n=rh.agg.count(), total=rh.agg.sum("quantity"))
    )
    growing = shops.window(rh.Cumulating("1m", step="10s")).aggregate(n=rh.agg.count())
    return {
        "priced": priced,
        "late": priced.side_output("late"),
        "ranges": shops.window(rh.Tumbling("10s")).aggregate(Quantities(), process=OfShop()),
        "minutes": shops.window(MinuteAndHalf()).aggregate(n=rh.agg.count()),
        "counted": shops.window(rh.CountTumbling(5)).aggregate(n=rh.agg.count()),
        "growing": growing,
        "fired": shops.window(rh.Tumbling("10s")).trigger(EARLY).aggregate(n=rh.agg.count()),
        "recent": shops.window(rh.Tumbling("10s"))
        .evictor(rh.evictors.time("3s"))
        .aggregate(n=rh.agg.count()),
        "fives": shops.window(rh.GlobalWindows())
        .trigger(rh.triggers.purging(rh.triggers.count(5)))
        .aggregate(n=rh.agg.count()),
        "last six": shops.window(rh.CountSliding(6, every=3)).aggregate(n=rh.agg.count()),
        # No row is late here: what a session is depends on no order.
        "own gaps": sales.with_columns(gap=gap_of(col("user")))
        .with_event_time(rh.Watermark.bounded_out_of_orderness("2m", on="at"))
        .key_by("shop")
        .window(rh.Session(col("gap")))
        .aggregate(n=rh.agg.count()),
        "all": sales.window_all(rh.Tumbling("1m")).aggregate(
            n=rh.agg.count(), most=rh.agg.max("price")
        ),
    }


def triggered_golden() -> Mapping[str, Golden]:
    rows = arrived(SALES)
    tens, late = by_window(rows, ["shop"], TEN_S)
    whole, _ = by_window(rows, [], MINUTE)
    priced = {
        key: [row for row in of if row["price"] is not None] for key, of in tens.items() if len(of) > 2
    }
    ranges = []
    for (shop, start), of in tens.items():
        numbers = [row["quantity"] or 0 for row in of]
        low, high = min(numbers), max(numbers)
        ranges.append({"shop": shop, "end": start + TEN_S, "low": low, "high": high, "rows": len(of)})
    halves: Counter[tuple[str, int, int]] = Counter()
    growing: Counter[tuple[str, int, int]] = Counter()
    for row in rows:
        start = row["ts"] // MINUTE * MINUTE
        halves.update(
            (row["shop"], start, size)
            for size in (MINUTE, MINUTE // 2)
            if row["ts"] < start + size and row["wm"] < start + size - 1
        )
        growing.update(
            (row["shop"], start, size)
            for size in range(TEN_S, MINUTE + 1, TEN_S)
            if row["ts"] < start + size and row["wm"] < start + size - 1
        )
    recent = {
        key: [row for row in of if row["ts"] > max(row["ts"] for row in of) - 3_000]
        for key, of in tens.items()
    }
    rows_of_shops = Counter(row["shop"] for row in rows)
    fives = [{"shop": shop, "n": 5} for shop, n in rows_of_shops.items() for _ in range(n // 5)]
    return {
        "priced": [
            result(["shop"], key, TEN_S, n=len(of), total=_total(known(of, "quantity")))
            for key, of in priced.items()
            if of
        ],
        "late": bare(late),
        "ranges": ranges,
        "minutes": [
            result(["shop"], (shop, start), size, n=n) for (shop, start, size), n in halves.items()
        ],
        "counted": fives,
        "fives": fives,
        "last six": [
            {"shop": shop, "n": min(3 * firing, 6)}
            for shop, n in rows_of_shops.items()
            for firing in range(1, n // 3 + 1)
        ],
        "fired": [result(["shop"], key, TEN_S, n=len(of)) for key, of in tens.items()],
        "recent": [result(["shop"], key, TEN_S, n=len(of)) for key, of in recent.items()],
        "own gaps": list(with_own_gaps(rows)),
        "growing": [
            result(["shop"], (shop, start), size, n=n) for (shop, start, size), n in growing.items()
        ],
        "all": [
            result([], key, MINUTE, n=len(of), most=max(known(of, "price"), default=None))
            for key, of in whole.items()
        ],
    }


def with_own_gaps(rows: list[Row]) -> Iterator[Row]:
    """Return sessions of rows that are never late, each with its own gap."""
    open_: dict[str, tuple[int, int, int]] = {}
    for row in sorted(rows, key=lambda row: row["ts"]):
        shop, ts = row["shop"], row["ts"]
        start, end, n = open_.get(shop, (ts, ts, 0))
        if ts > end:
            yield result(["shop"], (shop, start), end - start, n=n)
            start, end, n = ts, ts, 0
        open_[shop] = start, max(end, ts + gap_of(row["user"])), n + 1
    for shop, (start, end, n) in open_.items():
        yield result(["shop"], (shop, start), end - start, n=n)


def all_there(found: pl.DataFrame) -> pl.DataFrame:
    """Return for each window the result with the most rows."""
    return found.sort("n").unique(["shop", "window_end"], keep="last")


def _total(numbers: list[int]) -> int | None:
    return sum(numbers) if numbers else None


PROGRAMS = (Program("windows of one's own", triggered, triggered_golden, views={"fired": all_there}),)
