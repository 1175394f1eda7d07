"""Programs of keyed functions: state, timers, order, side outputs, and chains of functions."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

import rheos as rh
from rheos import col
from tests.equivalence.corpus.inputs import MORE_SALES, SALES, Sale
from tests.equivalence.corpus.oracle import (
    Row,
    arrived,
    bare,
    by_window,
    frame,
    known,
    result,
    too_late,
)
from tests.equivalence.corpus.program import Given, Golden, Program

GAP_MS = 6_000


def in_time(rows: list[Row], key: str) -> dict[object, list[Row]]:
    """Return the rows of each key that are not late within their split, in the order of their time."""
    keyed: dict[object, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["ts"]):
        if row["ts"] > row["wm"]:
            keyed[row[key]].append(row)
    return keyed


# --- sessions: values and timers, in event-time order -------------------------------------------------


@dataclass
class Session:
    shop: str
    start: int
    end: int
    sales: int
    quantity: int


class Sessions(rh.KeyedProcessFunction):
    """Sales of a shop with less than GAP_MS in between."""

    side_outputs = {"gaps": Session}
    start = rh.ValueState(int | None, default=None)
    last = rh.ValueState(int, default=0)
    sales = rh.ValueState(int, default=0)
    quantity = rh.ValueState(int, default=0)

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Session]:
        if self.start.value is None:
            self.start.value = ctx.timestamp
            if self.last.value:
                ctx.output("gaps", Session(sale.shop, self.last.value, ctx.timestamp, 0, 0))
        else:
            ctx.timers.delete(self.last.value + GAP_MS)
        self.last.value = ctx.timestamp
        self.sales.value += 1
        self.quantity.value += sale.quantity or 0
        ctx.timers.register(ctx.timestamp + GAP_MS)
        yield from ()

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Session]:
        assert self.start.value is not None
        yield Session(ctx.key, self.start.value, timestamp, self.sales.value, self.quantity.value)
        self.start.clear()
        self.sales.clear()
        self.quantity.clear()


def sessions(given: Given) -> Mapping[str, rh.DataStream]:
    found = given.stream(SALES).key_by("shop").process(Sessions(), order="event_time")
    return {
        "sessions": found,
        "gaps": found.side_output("gaps"),
        "late": found.side_output("late"),
    }


def sessions_golden() -> Mapping[str, Golden]:
    rows = arrived(SALES)
    found, gaps = sessions_of(rows)
    return {"sessions": found, "gaps": gaps, "late": too_late(rows)}


def sessions_of(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the sessions and the gaps between them."""
    found: list[Row] = []
    gaps: list[Row] = []
    for shop, of in in_time(rows, "shop").items():
        frame = pl.DataFrame({"ts": [r["ts"] for r in of], "quantity": [r["quantity"] for r in of]})
        # A row at the very end of a session still belongs to it: the timer comes after it.
        number = (pl.col("ts").diff() > GAP_MS).fill_null(value=False).cum_sum().alias("number")
        grouped = (
            frame.with_columns(number)
            .group_by("number", maintain_order=True)
            .agg(
                pl.col("ts").min().alias("start"),
                pl.col("ts").max().alias("last"),
                pl.len().alias("sales"),
                pl.col("quantity").sum(),
            )
            .to_dicts()
        )
        found += [
            {
                "shop": shop,
                "start": one["start"],
                "end": one["last"] + GAP_MS,
                "sales": one["sales"],
                "quantity": one["quantity"],
            }
            for one in grouped
        ]
        for one, two in itertools.pairwise(grouped):
            gap = {"shop": shop, "start": one["last"], "end": two["start"], "sales": 0, "quantity": 0}
            gaps.append(gap)
    return found, gaps


# --- lists, in event-time order -----------------------------------------------------------------------


@dataclass
class Recent:
    user: int
    at: int
    steps: list[int]


class LastThree(rh.KeyedProcessFunction):
    times = rh.ListState(int)

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Recent]:
        self.times.append(ctx.timestamp)
        if len(self.times) > 3:
            self.times.replace(list(self.times)[1:])
        yield Recent(sale.user, ctx.timestamp, [t - ctx.timestamp for t in self.times])


def lists(given: Given) -> Mapping[str, rh.DataStream]:
    found = given.stream(SALES).key_by("user").process(LastThree(), order="event_time")
    return {"recent": found, "late": found.side_output("late")}


def lists_golden() -> Mapping[str, Golden]:
    rows = arrived(SALES)
    recent = []
    for user, of in in_time(rows, "user").items():
        times = [row["ts"] for row in of]
        for place, ts in enumerate(times):
            steps = [t - ts for t in times[max(0, place - 2) : place + 1]]
            recent.append({"user": user, "at": ts, "steps": steps})
    return {"recent": recent, "late": too_late(rows)}


# --- maps, and objects that change in place, in the order of arrival ----------------------------------


@dataclass
class Tally:
    rows: int = 0
    prices: list[float] = field(default_factory=list)


@dataclass
class Summary:
    shop: str
    users: list[int]
    busiest: int
    notes: list[str]
    sum: float


class Summaries(rh.KeyedProcessFunction):
    """Emits what is known of a shop at the end of time; the order of its sales does not matter."""

    by_user = rh.MapState(int, int)
    notes = rh.MapState(str, Tally)
    tally = rh.ValueState(Tally, default=Tally())

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Summary]:
        self.by_user[sale.user] = self.by_user.get(sale.user, 0) + 1
        tally = self.tally.value
        tally.rows += 1
        if sale.price is not None:
            tally.prices.append(sale.price)
        if sale.note is not None:
            noted = self.notes.get(sale.note) or Tally()
            noted.rows += 1
            self.notes[sale.note] = noted
        if sale.note == "x" and "" in self.notes:
            del self.notes[""]
            self.notes[""] = Tally(100)
        ctx.timers.register(END_MS)
        yield from ()

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Summary]:
        tally = self.tally.value
        most = max(self.by_user.values())
        yield Summary(
            ctx.key,
            sorted(self.by_user),
            min(user for user, n in self.by_user.items() if n == most),
            sorted(f"{note}: {of.rows}" for note, of in self.notes.items() if note),
            math.fsum(tally.prices) + tally.rows,
        )


END_MS = 4_000_000_000_000


def maps(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.stream(SALES).union(given.stream(MORE_SALES))
    return {"summaries": sales.key_by("shop").process(Summaries())}


def maps_golden() -> Mapping[str, Golden]:
    sales = pl.concat([frame(SALES), frame(MORE_SALES)])
    summaries = []
    for (shop,), of in sales.group_by("shop"):
        users = of.group_by("user").len().sort("len", "user", descending=[True, False])
        notes = of.filter(pl.col("note").fill_null("") != "").group_by("note").len()
        summaries.append(
            {
                "shop": shop,
                "users": sorted(of["user"].unique()),
                "busiest": users["user"][0],
                "notes": sorted(f"{note}: {n}" for note, n in notes.rows()),
                "sum": math.fsum(of["price"].drop_nulls()) + of.height,
            }
        )
    return {"summaries": summaries}


# --- side outputs of rows, in the order of arrival ----------------------------------------------------


@dataclass
class Named:
    n: int
    text: str


class Sorted(rh.KeyedProcessFunction):
    """Sends each sale to an output; keeps no state."""

    side_outputs = {"cheap": Sale, "unpriced": Named}

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Named]:
        if sale.price is None:
            ctx.output("unpriced", Named(sale.n, str(ctx.key)))
        elif sale.price < 1:
            ctx.output("cheap", sale)
        else:
            yield Named(sale.n, f"{ctx.timestamp}")


def side_outputs(given: Given) -> Mapping[str, rh.DataStream]:
    found = given.stream(SALES).key_by("user", "shop").process(Sorted())
    cheap = found.side_output("cheap")
    return {
        "dear": found,
        "cheap": cheap,
        "unpriced": found.side_output("unpriced"),
        "cheap by minute": cheap.key_by("shop").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count()),
    }


def side_outputs_golden() -> Mapping[str, Golden]:
    rows = arrived(SALES)
    cheap = [row for row in rows if row["price"] is not None and row["price"] < 1]
    dear = [row for row in rows if row["price"] is not None and row["price"] >= 1]
    windows, _ = by_window(cheap, ["shop"], 60_000)
    return {
        "dear": [{"n": row["n"], "text": str(row["ts"])} for row in dear],
        "cheap": bare(cheap),
        "unpriced": [
            {"n": row["n"], "text": str((row["user"], row["shop"]))}
            for row in rows
            if row["price"] is None
        ],
        "cheap by minute": [result(["shop"], key, 60_000, n=len(of)) for key, of in windows.items()],
    }


# --- what follows the order of arrival ----------------------------------------------------------------


@dataclass
class Sum:
    shop: str
    rows: int
    n: int
    first: datetime


def one(sale: Sale) -> Sum:
    return Sum(sale.shop, 1, sale.n, sale.at)


def both(a: Sum, b: Sum) -> Sum:
    return Sum(a.shop, a.rows + b.rows, a.n + b.n, min(a.first, b.first))


def reduced(given: Given) -> Mapping[str, rh.DataStream]:
    sums = given.stream(SALES).map(one).key_by("shop").reduce(both)
    return {"sums": sums, "counts": sums.select("shop", "rows")}


def reduced_golden() -> Mapping[str, Golden]:
    last = pl.SQLContext(sales=pl.from_arrow(SALES.table)).execute(
        "select shop, count(*) as rows, sum(n) as n, min(at) as first from sales group by shop",
        eager=True,
    )
    counts = [{"shop": shop, "rows": n} for shop, rows, *_ in last.rows() for n in range(1, rows + 1)]
    return {"sums": last.with_columns(pl.col("rows").cast(pl.Int64)), "counts": counts}


def last_of_shop(found: pl.DataFrame) -> pl.DataFrame:
    return found.sort("rows").unique("shop", keep="last")


def running(given: Given) -> Mapping[str, rh.DataStream]:
    aggregates = {
        "rows": rh.agg.count(),
        "quantities": rh.agg.count("quantity"),
        "total": rh.agg.sum("quantity"),
        "least": rh.agg.min("quantity"),
        "most": rh.agg.max("price"),
        "mean": rh.agg.mean("quantity"),
        "quarters": rh.agg.sum("quarter"),
    }
    # Sums so far are in the order of arrival, so only those that need no rounding are the same.
    sales = given.stream(SALES).with_columns(quarter=col("quantity") / 4)
    found = sales.key_by("shop", "user").running(**aggregates)
    return {
        "at last": found.select("shop", "user", *aggregates),
        "rows": found.select(*SALES.table.column_names),
    }


def running_golden() -> Mapping[str, Golden]:
    keyed: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in SALES.table.to_pylist():
        keyed[row["shop"], row["user"]].append(row)
    at_last = []
    for (shop, user), rows in keyed.items():
        quantities, prices = known(rows, "quantity"), known(rows, "price")
        at_last.append(
            {
                "shop": shop,
                "user": user,
                "rows": len(rows),
                "quantities": len(quantities),
                "total": sum(quantities) if quantities else None,
                "least": min(quantities, default=None),
                "most": max(prices, default=None),
                "mean": sum(quantities) / len(quantities) if quantities else None,
                "quarters": sum(quantities) / 4 if quantities else None,
            }
        )
    return {"at last": at_last, "rows": SALES.table.to_pylist()}


def at_last(found: pl.DataFrame) -> pl.DataFrame:
    return found.sort("rows").unique(["shop", "user"], keep="last")


# --- one keyed operator behind the other --------------------------------------------------------------


@dataclass
class Level:
    shop: str
    user: int
    level: int
    at: int


class Levels(rh.KeyedProcessFunction):
    """Raises a level at each third sale of a user; half a minute without one lowers it."""

    sales = rh.ValueState(int, default=0)
    until = rh.ValueState(int, default=0)

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Level]:
        self.sales.value += 1
        self.until.value = ctx.timestamp + 30_000
        ctx.timers.register(self.until.value)
        if self.sales.value % 3 == 0:
            yield Level(sale.shop, sale.user, self.sales.value // 3, ctx.timestamp)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Level]:
        if timestamp == self.until.value:
            if self.sales.value >= 3:
                yield Level("", ctx.key, 0, timestamp)
            self.sales.clear()


def chained(given: Given) -> Mapping[str, rh.DataStream]:
    levels = given.stream(SALES).key_by("user").process(Levels(), order="event_time")
    return {
        "levels": levels,
        "by time": levels.key_by("level")
        .window(rh.Tumbling("20s"))
        .aggregate(n=rh.agg.count(), users=rh.agg.count_distinct("user")),
        "by level": levels.filter(col("level") > 0)
        .key_by("level")
        .running(n=rh.agg.count())
        .select("level", "n"),
    }


def chained_golden() -> Mapping[str, Golden]:
    levels: list[Row] = []
    for user, of in in_time(arrived(SALES), "user").items():
        # Rows of one time differ by user and shop at most: who is third among them is decided by the
        # whole row, of which `n` comes first.
        ordered = sorted(of, key=lambda row: (row["ts"], row["n"]))
        sales = 0
        for place, row in enumerate(ordered):
            sales += 1
            if sales % 3 == 0:
                level = {"shop": row["shop"], "user": user, "level": sales // 3, "at": row["ts"]}
                levels.append(level)
            quiet_at = row["ts"] + 30_000
            if place + 1 == len(ordered) or ordered[place + 1]["ts"] > quiet_at:
                if sales >= 3:
                    levels.append({"shop": "", "user": user, "level": 0, "at": quiet_at})
                sales = 0
    windows = Counter((row["level"], row["at"] // 20_000 * 20_000) for row in levels)
    users = Counter(
        (level, start)
        for level, start, _ in {(r["level"], r["at"] // 20_000 * 20_000, r["user"]) for r in levels}
    )
    often = Counter(row["level"] for row in levels if row["level"])
    return {
        "levels": levels,
        "by time": [
            result(["level"], key, 20_000, n=n, users=users[key]) for key, n in windows.items()
        ],
        "by level": [
            {"level": level, "n": n} for level, most in often.items() for n in range(1, most + 1)
        ],
    }


PROGRAMS = (
    Program("sessions", sessions, sessions_golden),
    Program("lists in order", lists, lists_golden),
    Program("maps in any order", maps, maps_golden),
    Program("side outputs", side_outputs, side_outputs_golden),
    Program("reduce", reduced, reduced_golden, views={"sums": last_of_shop}),
    Program("running", running, running_golden, views={"at last": at_last}),
    Program("chained functions", chained, chained_golden),
)
