"""Programs of windows with triggers, evictors and functions of their own, of counts, and of all rows.

Rows of several splits come in no certain order: what depends on it (early firings, the rows of a window
of a count) is left to the operator's own tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import rheos as rh
from tests.equivalence.corpus.inputs import SALES, Sale
from tests.equivalence.corpus.oracle import arrived, bare, by_window, known, result
from tests.equivalence.corpus.program import Given, Golden, Program

TEN_S, MINUTE = 10_000, 60_000


class Priced(rh.Evictor):
    """Sales without a price do not count."""

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
    """A window for the minute, and one for its first half."""

    def assign(self, record: Any, timestamp: int, ctx: Any) -> list[rh.TimeWindow]:
        start = timestamp - timestamp % MINUTE
        windows = [rh.TimeWindow(start, start + MINUTE)]
        if timestamp - start < MINUTE // 2:
            windows.append(rh.TimeWindow(start, start + MINUTE // 2))
        return windows


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
        "counted": [
            {"shop": shop, "n": 5}
            for shop, n in Counter(row["shop"] for row in rows).items()
            for _ in range(n // 5)
        ],
        "growing": [
            result(["shop"], (shop, start), size, n=n) for (shop, start, size), n in growing.items()
        ],
        "all": [
            result([], key, MINUTE, n=len(of), most=max(known(of, "price"), default=None))
            for key, of in whole.items()
        ],
    }


def _total(numbers: list[int]) -> int | None:
    return sum(numbers) if numbers else None


PROGRAMS = (Program("windows of one's own", triggered, triggered_golden),)
