"""Keyed functions as tutorials of stream processors write them, for `compiled_share`.

Their subjects are those of public tutorials: fraud, sessions, sensors, clicks, orders, logs. Some use
lists and maps as state, which are not compiled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import rheos as rh

MINUTE = 60_000
RATES = {"EUR": 1.0, "USD": 0.92, "GBP": 1.17}
LEVELS = ("ERROR", "FATAL")


@dataclass
class Event:
    key: str
    kind: str
    text: str
    amount: float
    count: int
    note: str | None
    at: int


@dataclass
class Found:
    key: str
    text: str
    number: float


@dataclass
class Basket:
    items: int = 0
    total: float = 0.0
    names: list[str] = field(default_factory=list)


def severity(amount: float) -> str:
    if amount > 1000:
        return "high"
    return "medium" if amount > 100 else "low"


def distance(x: float, y: float) -> float:
    return math.hypot(x, y)


class SmallThenLarge(rh.KeyedProcessFunction):
    flag = rh.ValueState(bool)
    timer = rh.ValueState(int)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Found]:
        if self.flag.value is not None:
            if event.amount > 500:
                yield Found(event.key, f"alert for account {event.key}", event.amount)
            if self.timer.value is not None:
                ctx.timers.delete(self.timer.value)
            self.flag.clear()
            self.timer.clear()
        if event.amount < 1:
            self.flag.value = True
            self.timer.value = ctx.timestamp + MINUTE
            ctx.timers.register(self.timer.value)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> None:
        self.timer.clear()
        self.flag.clear()


class WordLengths(rh.KeyedProcessFunction):
    words = rh.ValueState(int, default=0)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Found]:
        for word in event.text.lower().split():
            if word.isalpha():
                self.words.value += 1
                yield Found(word, event.kind, float(self.words.value))


class Deduplicate(rh.KeyedProcessFunction):
    seen = rh.ValueState(bool, default=False, ttl="1h")

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Event]:
        if not self.seen.value:
            self.seen.value = True
            yield event


class RunningMean(rh.KeyedProcessFunction):
    total = rh.ValueState(float, default=0.0)
    number = rh.ValueState(int, default=0)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Found]:
        self.total.value += event.amount
        self.number.value += 1
        yield Found(event.key, event.kind, round(self.total.value / self.number.value, 2))


class Temperature(rh.KeyedProcessFunction):
    last = rh.ValueState(float)
    due = rh.ValueState(int, default=0)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> None:
        before, due = self.last.value, self.due.value
        self.last.value = event.amount
        if before is None or event.amount < before:
            ctx.timers.delete_processing(due)
            self.due.clear()
        elif not due:
            self.due.value = ctx.processing_time + 1000
            ctx.timers.register_processing(ctx.processing_time + 1000)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Found]:
        yield Found(ctx.key, f"temperature of {ctx.key} rises", self.last.value or 0.0)
        self.due.clear()


class ClickPath(rh.KeyedProcessFunction):
    path = rh.ValueState(str, default="")

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Found]:
        page = event.text.split("?")[0].rstrip("/")
        self.path.value = f"{self.path.value} > {page}"[-200:] if self.path.value else page
        if page.endswith("/checkout"):
            yield Found(event.key, self.path.value, 1.0)
            self.path.clear()


class OrderSteps(rh.KeyedProcessFunction):
    step = rh.ValueState(str, default="new")

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Found]:
        match self.step.value, event.kind:
            case "new", "pay":
                self.step.value = "paid"
            case "paid", "ship":
                self.step.value = "shipped"
            case _, "cancel":
                self.step.clear()
            case step, kind:
                yield Found(event.key, f"{kind} while {step}", 0.0)


class LogAlerts(rh.KeyedProcessFunction):
    errors = rh.ValueState(int, default=0)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Found]:
        level, message = event.text.split(":", 1)
        if level.strip().upper() in LEVELS:
            self.errors.value += 1
            if self.errors.value % 10 == 0:
                yield Found(event.key, message.strip(), float(self.errors.value))


class InEuros(rh.KeyedProcessFunction):
    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Found]:
        rate = RATES.get(event.kind)
        if rate is None:
            raise ValueError(f"no rate for {event.kind}")
        yield Found(event.key, severity(event.amount * rate), event.amount * rate)


class Moved(rh.KeyedProcessFunction):
    x = rh.ValueState(float, default=0.0)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Found]:
        if distance(event.amount - self.x.value, float(event.count)) > 5:
            yield Found(event.key, event.note or "unknown", event.amount)
        self.x.value = event.amount


class RateLimit(rh.KeyedProcessFunction):
    tokens = rh.ValueState(float, default=10.0)
    last = rh.ValueState(int, default=0)
    side_outputs = {"refused": Event}

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Event]:
        gained = (ctx.timestamp - self.last.value) / 1000
        self.tokens.value = min(10.0, self.tokens.value + gained)
        self.last.value = ctx.timestamp
        if self.tokens.value >= 1:
            self.tokens.value -= 1
            yield event
        else:
            ctx.output("refused", event)


class Sessions(rh.KeyedProcessFunction):
    events = rh.ValueState(int, default=0)
    end = rh.ValueState(int, default=0)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> None:
        self.events.value += 1
        self.end.value = ctx.timestamp + rh.duration("30m")
        ctx.timers.register(self.end.value)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Found]:
        if timestamp == self.end.value:
            yield Found(ctx.key, "session", float(self.events.value))
            self.events.clear()


class LastFive(rh.KeyedProcessFunction):
    amounts = rh.ListState(float)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Found]:
        self.amounts.append(event.amount)
        kept = list(self.amounts)[-5:]
        self.amounts.replace(kept)
        yield Found(event.key, "mean of five", sum(kept) / len(kept))


class PagesOfUser(rh.KeyedProcessFunction):
    pages: Any = rh.MapState(str, int)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Found]:
        self.pages[event.text] = self.pages.get(event.text, 0) + 1
        yield Found(event.key, event.text, float(self.pages[event.text]))


class Baskets(rh.KeyedProcessFunction):
    basket = rh.ValueState(Basket, default=Basket())

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Found]:
        basket = self.basket.value
        basket.items += event.count
        basket.total += event.amount * event.count
        basket.names.append(event.text)
        yield Found(event.key, ", ".join(basket.names), basket.total)


class HourOfDay(rh.KeyedProcessFunction):
    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Found]:
        moment = datetime.fromtimestamp(event.at / 1000, UTC)
        yield Found(event.key, moment.strftime("%H:00"), event.amount)


FUNCTIONS: list[Any] = [
    SmallThenLarge, WordLengths, Deduplicate, RunningMean, Temperature, ClickPath, OrderSteps,
    LogAlerts, InEuros, Moved, RateLimit, Sessions, LastFive, PagesOfUser, Baskets, HourOfDay,
]  # fmt: skip

env = rh.Environment()
events = env.from_source(
    rh.collection([Event("a", "pay", "/checkout", 1.0, 1, None, 1)]),
    watermark=rh.Watermark.bounded_out_of_orderness("1s", on="at"),
)
for function in FUNCTIONS:
    events.key_by("key").process(function()).sink_to(rh.collect_sink(), name=function.__name__)
