"""Connected and broadcast streams, and state without a key. What order the streams come in decides no
row: pairs are found by whichever comes second, and totals are given when all have come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

import rheos as rh
from rheos import col
from tests.equivalence.corpus.inputs import MORE_SALES, SALES, Sale
from tests.equivalence.corpus.oracle import frame
from tests.equivalence.corpus.program import Given, Golden, Program

AT_LAST_MS = 1 << 50


@dataclass
class Pair:
    user: int
    shop: str
    first: int
    second: int


@dataclass
class Total:
    user: int
    shop: str
    first: int
    second: int
    most: int | None
    longest: str | None


@dataclass
class Longest:
    note: str | None = None


class LongestNote(rh.AggregateFunction[Longest]):
    def create_accumulator(self) -> Longest:
        return Longest()

    def add(self, record: str, accumulator: Longest) -> Longest:
        known = accumulator.note
        if known is None or (len(record), record) > (len(known), known):
            accumulator.note = record
        return accumulator

    def get_result(self, accumulator: Longest) -> str | None:
        return accumulator.note


class Pairs(rh.KeyedCoProcessFunction):
    """Rows of both streams by one user in one shop."""

    side_outputs = {"totals": Total}
    first = rh.ListState(int)
    second = rh.ListState(int)
    most = rh.ReducingState(int, max)
    longest = rh.AggregatingState(LongestNote())

    def process_element1(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Pair]:
        self.first.append(sale.n)
        self._noted(sale.quantity, sale.note, ctx)
        for n in self.second:
            yield Pair(*ctx.key, sale.n, n)

    def process_element2(self, sale: Any, ctx: rh.KeyedContext) -> Iterator[Pair]:
        self.second.append(sale.number)
        self._noted(sale.quantity, sale.note, ctx)
        for n in self.first:
            yield Pair(*ctx.key, n, sale.number)

    def _noted(self, quantity: int | None, note: str | None, ctx: rh.KeyedContext) -> None:
        if quantity is not None:
            self.most.add(quantity)
        if note is not None:
            self.longest.add(note)
        ctx.timers.register(AT_LAST_MS)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> None:
        counts = len(self.first), len(self.second)
        ctx.output("totals", Total(*ctx.key, *counts, self.most.value, self.longest.value))


@dataclass
class Judged:
    shop: str
    sales: int
    rules: int
    sum: int


class Judge(rh.KeyedBroadcastProcessFunction):
    rules = rh.BroadcastState(int, str)
    sales = rh.ValueState(int, default=0)

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> None:
        self.sales.value += 1
        ctx.timers.register(AT_LAST_MS)

    def process_broadcast_element(self, rule: Any, ctx: rh.ProcessContext) -> None:
        self.rules[rule.n] = rule.shop

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Judged]:
        yield Judged(ctx.key, self.sales.value, len(self.rules), sum(self.rules))


@dataclass
class Seen:
    n: int
    agreed: bool


class Compare(rh.BroadcastProcessFunction):
    """Which rules are known when a sale comes is not said; but they are rules."""

    rules = rh.BroadcastState(int, str)

    def process_element(self, sale: Sale, ctx: rh.ProcessContext) -> Iterator[Seen]:
        yield Seen(sale.n, all(_is_rule(n) for n in self.rules))

    def process_broadcast_element(self, rule: Any, ctx: rh.ProcessContext) -> None:
        self.rules[rule.n] = rule.shop


@dataclass
class Numbered:
    place: int


class Number(rh.ProcessFunction):
    """Numbers the rows, as they come."""

    last = rh.OperatorListState(int)

    def process_element(self, row: Any, ctx: rh.ProcessContext) -> Iterator[Numbered]:
        place = sum(self.last) + 1
        self.last.replace([place])
        yield Numbered(place)


@dataclass
class Side:
    n: int
    second: bool


def of_first(sale: Sale) -> Side:
    return Side(sale.n, second=False)


def of_second(sale: Sale) -> Iterator[Side]:
    for n in range(sale.n % 3):
        yield Side(n, second=True)


def several_of_first(sale: Sale) -> list[Side]:
    return [of_first(sale)]


def _is_rule(n: Any) -> Any:
    return n % 9 == 0


def build(given: Given) -> Mapping[str, rh.DataStream]:
    sales, more = given.stream(SALES), given.stream(MORE_SALES)
    others = more.select("quantity", "note", "shop", "at", number="n", who=col("user").cast(pl.Int32))
    pairs = sales.key_by("user", "shop").connect(others.key_by("who", "shop")).process(Pairs())
    rules = more.filter(_is_rule(col("n"))).broadcast()
    sides = sales.connect(more).flat_map(several_of_first, of_second)
    return {
        "pairs": pairs,
        "totals": pairs.side_output("totals"),
        "judged": sales.key_by("shop").connect(rules).process(Judge()),
        "sides": sides,
        "seen": sales.connect(rules).process(Compare()),
        "numbered": more.process(Number()).set_parallelism(1),
    }


def golden() -> Mapping[str, Golden]:
    first, second = frame(SALES), frame(MORE_SALES)
    pairs = first.join(second, on=["user", "shop"]).select("user", "shop", first="n", second="n_right")
    both = pl.concat([first.with_columns(second=False), second.with_columns(second=True)])
    totals = []
    for (user, shop), rows in both.group_by("user", "shop"):
        notes: dict[int, list[str]] = defaultdict(list)
        for note in rows["note"].drop_nulls():
            notes[len(note)].append(note)
        totals.append(
            {
                "user": user,
                "shop": shop,
                "first": (~rows["second"]).sum(),
                "second": rows["second"].sum(),
                "most": rows["quantity"].max(),
                "longest": max(notes[max(notes)]) if notes else None,
            }
        )
    rules = second.filter(_is_rule(pl.col("n")))["n"]
    judged = first.group_by("shop").agg(
        sales=pl.len().cast(pl.Int64),
        rules=pl.lit(len(rules), pl.Int64),
        sum=pl.lit(rules.sum(), pl.Int64),
    )
    sides = [{"n": n, "second": False} for n in first["n"]]
    sides += [{"n": n, "second": True} for row in second["n"] for n in range(row % 3)]
    return {
        "pairs": pairs,
        "totals": totals,
        "judged": judged,
        "sides": sides,
        "seen": [{"n": n, "agreed": True} for n in first["n"]],
        "numbered": [{"place": place} for place in range(1, len(second) + 1)],
    }


PROGRAMS = (Program("connected and broadcast", build, golden),)
