"""Connected and broadcast streams, and state without a key. Results do not depend on the order of the
streams: the second row of a pair finds the first, totals are emitted at the end, and whatever depends
on order uses event time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

import rheos as rh
from rheos import col
from tests.equivalence.corpus.inputs import MORE_SALES, SALES, Sale
from tests.equivalence.corpus.oracle import Row, arrived, frame, too_late
from tests.equivalence.corpus.program import Given, Golden, Program

AT_LAST_MS = 1 << 50
FORGETS_MS = 1_000


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
    """Pairs of rows of both streams by one user in one shop."""

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
class Followed:
    shop: str
    at: int
    n: int | None
    """Of a sale, or None at a timer."""
    last: int | None


class Follow(rh.KeyedCoProcessFunction):
    """Finds the last sale of the second stream before each sale of the first in the same shop."""

    last = rh.ValueState(int | None, default=None)

    def process_element1(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Followed]:
        yield Followed(ctx.key, ctx.timestamp, sale.n, self.last.value)
        ctx.timers.register(ctx.timestamp + FORGETS_MS)

    def process_element2(self, sale: Any, ctx: rh.KeyedContext) -> None:
        self.last.value = sale.number

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Followed]:
        yield Followed(ctx.key, timestamp, None, self.last.value)
        self.last.clear()


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
    """Checks that the rules known when a sale arrives, which may vary, are rules."""

    rules = rh.BroadcastState(int, str)

    def process_element(self, sale: Sale, ctx: rh.ProcessContext) -> Iterator[Seen]:
        yield Seen(sale.n, all(_is_rule(n) for n in self.rules))

    def process_broadcast_element(self, rule: Any, ctx: rh.ProcessContext) -> None:
        self.rules[rule.n] = rule.shop


@dataclass
class Ruled:
    """A sale, or None at a timer, and the rules at or before its time: how many, those that were late,
    and the sum of their numbers."""

    shop: str
    n: int | None
    at: int
    rules: int
    late_rules: int
    sum: int
    late: bool


class _Rules:
    """Broadcast state of the rules by number, with 1 for those that were late."""

    known: Any

    def process_broadcast_element(self, rule: Any, ctx: rh.ProcessContext) -> None:
        self.known[rule.n] = int(ctx.is_late)

    def ruled(self, shop: str, n: int | None, at: int, *, late: bool) -> Ruled:
        known = self.known
        return Ruled(shop, n, at, len(known), sum(known.values()), sum(known), late)


class RuledByShop(_Rules, rh.KeyedBroadcastProcessFunction):
    known = rh.BroadcastState(int, int)

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Ruled]:
        ctx.timers.register(ctx.timestamp + FORGETS_MS)
        yield self.ruled(sale.shop, sale.n, ctx.timestamp, late=ctx.is_late)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Ruled]:
        yield self.ruled(ctx.key, None, timestamp, late=ctx.is_late)


class RuledEach(_Rules, rh.BroadcastProcessFunction):
    known = rh.BroadcastState(int, int)

    def process_element(self, sale: Sale, ctx: rh.ProcessContext) -> Iterator[Ruled]:
        yield self.ruled(sale.shop, sale.n, ctx.timestamp, late=ctx.is_late)


@dataclass
class Numbered:
    place: int


class Number(rh.ProcessFunction):
    """Numbers the rows in order of arrival."""

    last = rh.OperatorListState(int)

    def process_element(self, row: Any, ctx: rh.ProcessContext) -> Iterator[Numbered]:
        place = sum(self.last) + 1
        self.last.replace([place])
        yield Numbered(place)


class NumberByAll(rh.ProcessFunction):
    """Numbers the rows, with state that each subtask receives from all when it is restored."""

    last = rh.OperatorUnionState(int)

    def process_element(self, row: Any, ctx: rh.ProcessContext) -> Iterator[Numbered]:
        place = max(self.last, default=0) + 1
        self.last.replace([place])
        yield Numbered(place)


@dataclass
class Side:
    n: int
    second: bool


class Sides(rh.CoMapFunction):
    def map1(self, sale: Sale) -> Side:
        return of_first(sale)

    def map2(self, sale: Sale) -> Side:
        return Side(sale.n, second=True)


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
    second = others.select("number", "shop", "at").key_by("shop")
    followed = sales.key_by("shop").connect(second).process(Follow(), order="event_time")
    sides = sales.connect(more).flat_map(several_of_first, of_second)
    by_shop = sales.key_by("shop").connect(rules)
    ruled = by_shop.process(RuledByShop(), order="event_time", late=("side_output", "deliver"))
    each = sales.connect(rules).process(
        RuledEach(), order="event_time", late=("deliver", "side_output")
    )
    return {
        "ruled": ruled,
        "ruled, late sales": ruled.side_output("late_left"),
        "ruled each": each,
        "ruled each, late rules": each.side_output("late_right"),
        "pairs": pairs,
        "totals": pairs.side_output("totals"),
        "followed": followed,
        "late_left": followed.side_output("late_left"),
        "late_right": followed.side_output("late_right"),
        "judged": sales.key_by("shop").connect(rules).process(Judge()),
        "sides": sides,
        "both": sales.connect(more).map(Sides()),
        "seen": sales.connect(rules).process(Compare()),
        "numbered": more.process(Number()).set_parallelism(1),
        "numbered by all": more.process(NumberByAll()).set_parallelism(1),
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
    followed, *late = followed_golden()
    rules = second.filter(_is_rule(pl.col("n")))["n"]
    judged = first.group_by("shop").agg(
        sales=pl.len().cast(pl.Int64),
        rules=pl.lit(len(rules), pl.Int64),
        sum=pl.lit(rules.sum(), pl.Int64),
    )
    sides = [{"n": n, "second": False} for n in first["n"]]
    sides += [{"n": n, "second": True} for row in second["n"] for n in range(row % 3)]
    numbered = [{"place": place} for place in range(1, len(second) + 1)]
    return {
        **ruled_golden(),
        "pairs": pairs,
        "totals": totals,
        "followed": followed,
        "late_left": late[0],
        "late_right": late[1],
        "judged": judged,
        "sides": sides,
        "both": both.select("n", "second"),
        "seen": [{"n": n, "agreed": True} for n in first["n"]],
        "numbered": numbered,
        "numbered by all": numbered,
    }


def followed_golden() -> tuple[list[Row], list[Row], list[Row]]:
    """Return the expected pairs, and the late rows of either stream."""
    first, second = arrived(SALES), arrived(MORE_SALES)
    by_shop: dict[str, list[tuple[int, bool, int]]] = defaultdict(list)
    for rows, is_second in ((first, False), (second, True)):
        for row in rows:
            if row["ts"] > row["wm"]:
                by_shop[row["shop"]].append((row["ts"], is_second, row["n"]))
    found: list[Row] = []
    for shop, events in by_shop.items():
        last, timers = None, set[int]()
        for ts, is_second, n in [*sorted(events), (AT_LAST_MS, True, 0)]:
            for at in sorted(at for at in timers if at < ts):
                found.append({"shop": shop, "at": at, "n": None, "last": last})
                timers.remove(at)
                last = None
            if is_second:
                last = n
            else:
                found.append({"shop": shop, "at": ts, "n": n, "last": last})
                timers.add(ts + FORGETS_MS)
    late = [{"number": row["n"], "shop": row["shop"], "at": row["at"]} for row in too_late(second)]
    return found, too_late(first), late


def ruled_golden() -> dict[str, list[Row]]:
    """Return the expected sales with the rules at or before their time, and the late rows of both."""
    sales, more = arrived(SALES), arrived(MORE_SALES)
    rules = [row for row in more if _is_rule(row["n"])]
    given = {id(row): _place(row) for row in (*sales, *rules)}
    late = {id(row) for row in (*sales, *rules) if row["ts"] <= row["wm"]}

    def ruled(row: Row, n: int | None, at: int, place: tuple[int, bool], known: list[Row]) -> Row:
        met = [rule for rule in known if given[id(rule)] <= place]
        return {
            "shop": row["shop"],
            "n": n,
            "at": at,
            "rules": len(met),
            "late_rules": sum(id(rule) in late for rule in met),
            "sum": sum(rule["n"] for rule in met),
            "late": n is not None and id(row) in late,
        }

    in_time = [rule for rule in rules if id(rule) not in late]
    sold = [row for row in sales if id(row) not in late]
    timers = {(row["shop"], row["ts"] + FORGETS_MS): row for row in sold}
    return {
        "ruled": [
            *(ruled(row, row["n"], row["ts"], given[id(row)], rules) for row in sold),
            *(ruled(row, None, at, (at, True), rules) for (_, at), row in timers.items()),
        ],
        "ruled, late sales": too_late(sales),
        "ruled each": [ruled(row, row["n"], row["ts"], given[id(row)], in_time) for row in sales],
        "ruled each, late rules": too_late(rules),
    }


def _place(row: Row) -> tuple[int, bool]:
    """Return the place of a row: after the watermark that made it late, or at its own time."""
    return (row["wm"] + 1, False) if row["ts"] <= row["wm"] else (row["ts"], True)


PROGRAMS = (Program("connected and broadcast", build, golden),)
