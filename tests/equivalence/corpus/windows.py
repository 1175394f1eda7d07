"""Programs of windows: their content, late rows, and results."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

import rheos as rh
from rheos import col
from tests.equivalence.corpus.inputs import (
    BEFORE_1970,
    FOUR_DAYS,
    KEYED,
    MORE_SALES,
    ONE_SHOP,
    SALES,
    Sale,
)
from tests.equivalence.corpus.oracle import (
    Row,
    arrived,
    bare,
    by_window,
    known,
    moment,
    quantile,
    result,
)
from tests.equivalence.corpus.program import Given, Golden, Program

DAY_MS = 86_400_000

AGGREGATES = {
    "rows": rh.agg.count(),
    "notes": rh.agg.count("note"),
    "total": rh.agg.sum("quantity"),
    "least": rh.agg.min("quantity"),
    "most": rh.agg.max("price"),
    "first_note": rh.agg.min("note"),
    "last_at": rh.agg.max("at"),
    "mean": rh.agg.mean("quantity"),
    "median": rh.agg.quantile("quantity", 0.5),
    "p90": rh.agg.quantile("quantity", 0.9),
    "users": rh.agg.count_distinct("user"),
    "kinds": rh.agg.count_distinct("note"),
    "about_kinds": rh.agg.approx_count_distinct("note"),
    "variance": rh.agg.variance("price"),
    "spread": rh.agg.stddev("quantity", ddof=0),
    "opening": rh.agg.first("quantity"),
    "closing": rh.agg.last("note"),
    "all_notes": rh.agg.collect("note"),
    "dearest": rh.agg.top_k("price", 2, of=["user", "price"]),
    "fewest": rh.agg.top_k("quantity", 3, smallest=True),
    "last_n": col("n").filter(col("price").is_not_null()).last(),
    "by_users": (col("quantity").sum() / col("user").n_unique()).round(3),
}

MERGED = {
    name: AGGREGATES[name]
    for name in ("rows", "total", "first_note", "variance", "users", "about_kinds", "dearest")
}
"""Some of each kind that can be combined to fewer rows."""


def aggregated(rows: list[Row]) -> Row:
    """Return a program with all of AGGREGATES."""
    quantities, notes, prices = known(rows, "quantity"), known(rows, "note"), known(rows, "price")
    return {
        "rows": len(rows),
        "notes": len(notes),
        "total": sum(quantities) if quantities else None,
        "least": min(quantities, default=None),
        "most": max(prices, default=None),
        "first_note": min(notes, default=None),
        "last_at": max(row["at"] for row in rows),
        "mean": sum(quantities) / len(quantities) if quantities else None,
        "median": quantile(quantities, 0.5),
        "p90": quantile(quantities, 0.9),
        "users": len({row["user"] for row in rows}),
        "kinds": len(set(notes)),
        "about_kinds": len(set(notes)),
        **_by_all_rows(rows, quantities, prices),
    }


def _by_all_rows(rows: list[Row], quantities: list[int], prices: list[float]) -> Row:
    in_order = sorted(rows, key=lambda row: (row["ts"], row["n"]))
    priced = [row for row in in_order if row["price"] is not None]
    dearest = sorted(priced, key=lambda row: (-row["price"], row["ts"], row["user"]))[:2]
    return {
        "variance": statistics.variance(prices) if len(prices) > 1 else None,
        "spread": math.sqrt(statistics.pvariance(quantities)) if quantities else None,
        "opening": min(_at(rows, "quantity"), default=(0, None))[1],
        "closing": max(_at(rows, "note"), default=(0, None))[1],
        "all_notes": known(in_order, "note"),
        "dearest": [{"user": row["user"], "price": row["price"]} for row in dearest],
        "fewest": sorted(quantities)[:3],
        "last_n": priced[-1]["n"] if priced else None,
        "by_users": round(sum(quantities) / len({row["user"] for row in rows}), 3),
    }


def _at(rows: list[Row], column: str) -> list[tuple[int, Any]]:
    return [(row["ts"], row[column]) for row in rows if row[column] is not None]


# --- every aggregate ----------------------------------------------------------------------------------


def tumbling(given: Given) -> Mapping[str, rh.DataStream]:
    shops = given.stream(SALES).key_by("shop")
    found = shops.window(rh.Tumbling("10s")).aggregate(**AGGREGATES)
    late = found.side_output("late")
    return {
        "windows": found,
        "late": late,
        "late by user": late.key_by("user").running(rows=rh.agg.count()).select("user", "rows"),
        "late by day": late.filter(col("n") > 0)
        .key_by("shop")
        .window(rh.Tumbling("1d"))
        .aggregate(rows=rh.agg.count()),
    }


def tumbling_golden() -> Mapping[str, Golden]:
    windows, late = by_window(arrived(SALES), ["shop"], 10_000)
    return {
        "windows": [result(["shop"], key, 10_000, **aggregated(rows)) for key, rows in windows.items()],
        "late": bare(late),
        "late by user": [
            {"user": user, "rows": rows}
            for user, most in Counter(row["user"] for row in late).items()
            for rows in range(1, most + 1)
        ],
        "late by day": [
            result(["shop"], key, DAY_MS, rows=len(rows))
            for key, rows in by_window(late, ["shop"], DAY_MS)[0].items()
        ],
    }


def sliding(given: Given) -> Mapping[str, rh.DataStream]:
    both = given.stream(SALES).key_by("user", "shop")
    found = both.window(rh.Sliding("15s", every="5s")).aggregate(**AGGREGATES)
    return {"windows": found, "late": found.side_output("late")}


def sliding_golden() -> Mapping[str, Golden]:
    windows, late = by_window(arrived(SALES), ["user", "shop"], 15_000, 5_000)
    return {
        "windows": [
            result(["user", "shop"], key, 15_000, **aggregated(rows)) for key, rows in windows.items()
        ],
        "late": bare(late),
    }


# --- event time given behind the source ---------------------------------------------------------------


TOMORROW = timedelta(days=1)


def assigned_after_source(given: Given) -> Mapping[str, rh.DataStream]:
    """Return a program whose rows are a day later, downstream of a filter, next to windows of the
    original time."""
    bound = rh.Watermark.bounded_out_of_orderness("5s", on="at")
    sales = given.stream(SALES)
    moved = sales.filter(col("n") % 3 != 0).with_columns(at=col("at") + TOMORROW).with_event_time(bound)
    found = moved.key_by("shop").window(rh.Tumbling("10s")).aggregate(rows=rh.agg.count())
    today = sales.key_by("shop").window(rh.Tumbling("10s")).aggregate(rows=rh.agg.count())
    return {"windows": found, "late": found.side_output("late"), "today": today}


def given_behind_golden() -> Mapping[str, Golden]:
    def counted(windows: Mapping[tuple[object, ...], list[Row]]) -> list[Row]:
        return [result(["shop"], key, 10_000, rows=len(rows)) for key, rows in windows.items()]

    kept = arrived(SALES, lambda row: row["n"] % 3 != 0)
    moved = [
        {**row, "at": row["at"] + TOMORROW, "ts": row["ts"] + DAY_MS, "wm": row["wm"] + DAY_MS}
        for row in kept
    ]
    windows, late = by_window(moved, ["shop"], 10_000)
    today, _ = by_window(arrived(SALES), ["shop"], 10_000)
    return {"windows": counted(windows), "late": bare(late), "today": counted(today)}


# --- sums of floats -----------------------------------------------------------------------------------


def exact_sums(given: Given) -> Mapping[str, rh.DataStream]:
    shops = given.stream(SALES).key_by("shop")
    sums = {"sum": rh.agg.sum("price"), "n": rh.agg.count("price"), "mean": rh.agg.mean("price")}
    return {
        "tumbling": shops.window(rh.Tumbling("1m")).aggregate(**sums),
        "sliding": shops.window(rh.Sliding("1m", every="25s")).aggregate(**sums),
    }


def exact_sums_golden() -> Mapping[str, Golden]:
    def summed(rows: list[Row]) -> Row:
        prices = known(rows, "price")
        total = math.fsum(prices)
        return {
            "sum": total if prices else None,
            "n": len(prices),
            "mean": total / len(prices) if prices else None,
        }

    tumbled, _ = by_window(arrived(SALES), ["shop"], 60_000)
    slid, _ = by_window(arrived(SALES), ["shop"], 60_000, 25_000)
    return {
        "tumbling": [result(["shop"], key, 60_000, **summed(rows)) for key, rows in tumbled.items()],
        "sliding": [result(["shop"], key, 60_000, **summed(rows)) for key, rows in slid.items()],
    }


# --- where windows lie --------------------------------------------------------------------------------


BACK = timedelta(seconds=-2)


def offsets(given: Given) -> Mapping[str, rh.DataStream]:
    shops = given.stream(SALES).key_by("shop")
    old = given.stream(BEFORE_1970).key_by("user")
    counts = {"n": rh.agg.count(), "users": rh.agg.count_distinct("user")}
    sketches = {"about": rh.agg.approx_quantile("quantity", 0.5, error=0.1)}
    moved = shops.window(rh.Tumbling("10s", offset="3s")).aggregate(**counts, **sketches)
    slid = shops.window(rh.Sliding("20s", every="7s", offset="2s")).aggregate(**counts, **sketches)
    return {
        "moved": moved.with_columns(about=col("about").round(6)),
        "moved, sliding": slid.with_columns(about=col("about").round(6)),
        "before 1970": old.window(rh.Tumbling("7s", offset=BACK)).aggregate(n=rh.agg.count()),
    }


def offsets_golden() -> Mapping[str, Golden]:
    def counted(rows: list[Row]) -> Row:
        users = len({row["user"] for row in rows})
        return {"n": len(rows), "users": users, "about": about(known(rows, "quantity"))}

    def about(values: list[int]) -> float | None:
        """Return the middle of the median's bucket; a bucket ends at 1.1 / 0.9 times its beginning."""
        if not values:
            return None
        median = sorted(values)[(len(values) - 1) // 2]
        if median == 0:
            return 0.0
        power = math.ceil(round(math.log(abs(median), 1.1 / 0.9), 9))
        return round(math.copysign((1.1 / 0.9) ** power * 0.9, median), 6)

    moved, _ = by_window(arrived(SALES), ["shop"], 10_000, offset=3_000)
    sliding, _ = by_window(arrived(SALES), ["shop"], 20_000, 7_000, offset=2_000)
    old, _ = by_window(arrived(BEFORE_1970), ["user"], 7_000, offset=-2_000)
    return {
        "moved": [result(["shop"], key, 10_000, **counted(rows)) for key, rows in moved.items()],
        "moved, sliding": [
            result(["shop"], key, 20_000, **counted(rows)) for key, rows in sliding.items()
        ],
        "before 1970": [result(["user"], key, 7_000, n=len(rows)) for key, rows in old.items()],
    }


# --- by calendar --------------------------------------------------------------------------------------

BERLIN = ZoneInfo("Europe/Berlin")


def by_calendar(given: Given) -> Mapping[str, rh.DataStream]:
    rows = given.stream(FOUR_DAYS)
    shops = rows.key_by("shop")
    days = shops.window(rh.Tumbling("1d", zone="Europe/Berlin")).aggregate(**AGGREGATES)
    growing = rh.Cumulating("1mo", step="1d", zone="Europe/Berlin")
    return {
        "days": days,
        "late": days.side_output("late"),
        "all": rows.window_all(growing).aggregate(n=rh.agg.count(), total=rh.agg.sum("quantity")),
        "two days": shops.window(rh.Sliding("2d", every="1d", zone="Europe/Berlin"))
        .trigger(rh.triggers.event_time())
        .aggregate(n=rh.agg.count()),
    }


def by_calendar_golden() -> Mapping[str, Golden]:
    def midnight(day: date) -> int:
        return int(datetime(day.year, day.month, day.day, tzinfo=BERLIN).timestamp() * 1000)

    days: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
    two_days: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
    growing: dict[tuple[int, int], list[Row]] = defaultdict(list)
    late, one = [], timedelta(days=1)
    for row in arrived(FOUR_DAYS):
        day = row["at"].astimezone(BERLIN).date()
        if midnight(day + one) - 1 > row["wm"]:
            days[row["shop"], midnight(day), midnight(day + one)].append(row)
        else:
            late.append(row)
        for first in (day - one, day):
            if midnight(first + 2 * one) - 1 > row["wm"]:
                two_days[row["shop"], midnight(first), midnight(first + 2 * one)].append(row)
        end = day + one
        while end <= (day.replace(day=1) + 31 * one).replace(day=1):
            if midnight(end) - 1 > row["wm"]:
                growing[midnight(day.replace(day=1)), midnight(end)].append(row)
            end += one

    def window(start: int, end: int) -> Row:
        return {"window_start": moment(start), "window_end": moment(end)}

    return {
        "days": [
            {"shop": shop, **window(*bounds), **aggregated(rows)}
            for (shop, *bounds), rows in days.items()
        ],
        "late": bare(late),
        "all": [
            {
                **window(*bounds),
                "n": len(rows),
                "total": sum(known(rows, "quantity")) if known(rows, "quantity") else None,
            }
            for bounds, rows in growing.items()
        ],
        "two days": [
            {"shop": shop, **window(*bounds), "n": len(rows)}
            for (shop, *bounds), rows in two_days.items()
        ],
    }


# --- lateness -----------------------------------------------------------------------------------------


def lateness(given: Given) -> Mapping[str, rh.DataStream]:
    windows = given.stream(SALES).key_by("shop").window(rh.Sliding("10s", every="5s"))
    found = windows.allowed_lateness("20s").aggregate(n=rh.agg.count(), total=rh.agg.sum("quantity"))
    return {"windows": found, "late": found.side_output("late")}


def lateness_golden() -> Mapping[str, Golden]:
    windows, late = by_window(arrived(SALES), ["shop"], 10_000, 5_000, lateness=20_000)
    return {
        "windows": [
            result(
                ["shop"],
                key,
                10_000,
                n=len(rows),
                total=sum(known(rows, "quantity")) if known(rows, "quantity") else None,
            )
            for key, rows in windows.items()
        ],
        "late": bare(late),
    }


def last_update(found: pl.DataFrame) -> pl.DataFrame:
    """Return the update of each window that has the most rows."""
    place = [name for name in found.columns if name not in ("n", "total")]
    return found.sort("n").unique(place, keep="last")


# --- functions of a window ----------------------------------------------------------------------------


@dataclass
class Basket:
    shop: str
    start: int
    numbers: list[int]
    steps: list[int | None]
    dearest: float | None


class Baskets(rh.WindowFunction):
    def process(self, records: list[Sale], ctx: rh.WindowContext) -> Iterator[Basket]:
        prices = [sale.price for sale in records if sale.price is not None]
        times = [sale.at for sale in records]
        assert times == sorted(times)
        yield Basket(
            ctx.key,
            ctx.window.start_ms,
            sorted(sale.n for sale in records),
            [None, *(round((b - a).total_seconds() * 1000) for a, b in itertools.pairwise(times))],
            max(prices, default=None),
        )
        if len(records) > 12:
            yield Basket(ctx.key, ctx.window.end_ms, [], [], None)


def of_windows(given: Given) -> Mapping[str, rh.DataStream]:
    found = given.stream(SALES).key_by("shop").window(rh.Tumbling("10s")).process(Baskets())
    return {"baskets": found, "late": found.side_output("late")}


def of_windows_golden() -> Mapping[str, Golden]:
    windows, late = by_window(arrived(SALES), ["shop"], 10_000)
    baskets: list[Row] = []
    for (shop, start), rows in windows.items():
        times = sorted(row["ts"] for row in rows)
        baskets.append(
            {
                "shop": shop,
                "start": start,
                "numbers": sorted(row["n"] for row in rows),
                "steps": [None, *(b - a for a, b in itertools.pairwise(times))],
                "dearest": max(known(rows, "price"), default=None),
            }
        )
        if len(rows) > 12:
            end = start + 10_000
            baskets.append({"shop": shop, "start": end, "numbers": [], "steps": [], "dearest": None})
    return {"baskets": baskets, "late": bare(late)}


# --- keys ---------------------------------------------------------------------------------------------

KEY_COLUMNS = [name for name in KEYED.table.column_names if name.startswith("of_")]


def key_types(given: Given) -> Mapping[str, rh.DataStream]:
    rows = given.stream(KEYED)
    counts = {
        name: rows.key_by(name).window(rh.Tumbling("20s")).aggregate(rows=rh.agg.count())
        for name in KEY_COLUMNS
    }
    several = rows.key_by("of_date", "of_bool", "of_text", "of_decimal")
    return {**counts, "several": several.window(rh.Tumbling("1m")).aggregate(ns=rh.agg.sum("n"))}


def key_types_golden() -> Mapping[str, Golden]:
    rows = arrived(KEYED)
    golden: dict[str, Golden] = {}
    for name in KEY_COLUMNS:
        # One NaN, and one zero: as text they differ from each other, and not from themselves.
        alike = {repr(_one_zero(row[name])): _one_zero(row[name]) for row in rows}
        keyed = [{**row, name: repr(_one_zero(row[name]))} for row in rows]
        windows, _ = by_window(keyed, [name], 20_000)
        golden[name] = [
            result([name], (alike[text], start), 20_000, rows=len(of))
            for (text, start), of in windows.items()
        ]
    names = ["of_date", "of_bool", "of_text", "of_decimal"]
    windows, _ = by_window(rows, names, 60_000)
    golden["several"] = [
        result(names, key, 60_000, ns=sum(row["n"] for row in of)) for key, of in windows.items()
    ]
    return golden


def _one_zero(value: object) -> object:
    if isinstance(value, float):
        return float("nan") if math.isnan(value) else value + 0.0
    return value


def one_key_or_many(given: Given) -> Mapping[str, rh.DataStream]:
    counts = {"rows": rh.agg.count(), "total": rh.agg.sum("quantity")}
    one, many = given.stream(ONE_SHOP), given.stream(SALES)
    return {
        "one": one.key_by("shop").window(rh.Sliding("30s", every="10s")).aggregate(**counts),
        "a key per row": many.key_by("n").window(rh.Tumbling("30s")).aggregate(**counts),
        "all": many.window_all(rh.Sliding("20s", every="10s")).aggregate(**MERGED),
    }


def one_key_or_many_golden() -> Mapping[str, Golden]:
    def counted(rows: list[Row]) -> Row:
        quantities = known(rows, "quantity")
        return {"rows": len(rows), "total": sum(quantities) if quantities else None}

    one, _ = by_window(arrived(ONE_SHOP), ["shop"], 30_000, 10_000)
    many, _ = by_window(arrived(SALES), ["n"], 30_000)
    whole, _ = by_window(arrived(SALES), [], 20_000, 10_000)
    return {
        "one": [result(["shop"], key, 30_000, **counted(rows)) for key, rows in one.items()],
        "a key per row": [result(["n"], key, 30_000, **counted(rows)) for key, rows in many.items()],
        "all": [
            result([], key, 20_000, **{name: aggregated(rows)[name] for name in MERGED})
            for key, rows in whole.items()
        ],
    }


# --- windows of windows -------------------------------------------------------------------------------


def of_results(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.stream(SALES).union(given.stream(MORE_SALES))
    small = sales.key_by("shop", "user").window(rh.Tumbling("5s")).aggregate(n=rh.agg.count())
    large = (
        small.with_columns(busy=col("n") > 1)
        .key_by("shop")
        .window(rh.Tumbling("20s"))
        .aggregate(windows=rh.agg.count(), sales=rh.agg.sum("n"), users=rh.agg.count_distinct("user"))
    )
    sizes = (
        large.select("sales", at=col("window_start"))
        .key_by("sales")
        .window(rh.Tumbling("1h"))
        .aggregate(often=rh.agg.count())
    )
    return {"small": small, "large": large, "sizes": sizes}


def of_results_golden() -> Mapping[str, Golden]:
    rows = arrived(SALES) + arrived(MORE_SALES)
    small, _ = by_window(rows, ["shop", "user"], 5_000)
    first = [
        {"shop": shop, "user": user, "start": start, "n": len(of)}
        for (shop, user, start), of in small.items()
    ]
    large = (
        pl.DataFrame(first)
        .group_by("shop", (pl.col("start") // 20_000 * 20_000).alias("start"))
        .agg(pl.len().alias("windows"), pl.col("n").sum().alias("sales"), pl.col("user").n_unique())
        .to_dicts()
    )
    hours = Counter((row["sales"], row["start"] // 3_600_000 * 3_600_000) for row in large)
    return {
        "small": [result(["shop", "user"], key, 5_000, n=len(of)) for key, of in small.items()],
        "large": [
            result(
                ["shop"],
                (row["shop"], row["start"]),
                20_000,
                windows=row["windows"],
                sales=row["sales"],
                users=row["user"],
            )
            for row in large
        ],
        "sizes": [result(["sales"], key, 3_600_000, often=n) for key, n in hours.items()],
    }


# --- SQL ----------------------------------------------------------------------------------------------


def daily(given: Given) -> Mapping[str, rh.DataStream]:
    late_only = given.stream(SALES).filter(col("quantity").is_not_null())
    found = (
        late_only.with_columns(big=col("quantity") > 30)
        .key_by("shop", "big")
        .window(rh.Tumbling("1d"))
        .aggregate(
            sales=rh.agg.count(),
            quantity=rh.agg.sum("quantity"),
            least=rh.agg.min("quantity"),
            users=rh.agg.count_distinct("user"),
        )
    )
    return {"daily": found}


def daily_golden() -> Mapping[str, Golden]:
    midnight = datetime(2026, 3, 1, tzinfo=UTC)
    found = pl.SQLContext(sales=pl.from_arrow(SALES.table)).execute(
        """select shop, quantity > 30 as big, count(*) as sales, sum(quantity) as quantity_sum,
                  min(quantity) as least, count(distinct "user") as users
           from sales where quantity is not null group by shop, quantity > 30""",
        eager=True,
    )
    return {
        "daily": found.rename({"quantity_sum": "quantity"})
        .with_columns(
            window_start=pl.lit(midnight),
            window_end=pl.lit(midnight + timedelta(days=1)),
        )
        .with_columns(
            pl.col("sales", "users").cast(pl.Int64),
        )
    }


PROGRAMS = (
    Program("tumbling windows", tumbling, tumbling_golden),
    Program("sliding windows by two keys", sliding, sliding_golden),
    Program("exact sums", exact_sums, exact_sums_golden),
    Program("moved windows, and before 1970", offsets, offsets_golden),
    Program("windows by calendar", by_calendar, by_calendar_golden),
    Program("allowed lateness", lateness, lateness_golden, views={"windows": last_update}),
    Program("functions of windows", of_windows, of_windows_golden),
    Program("key types", key_types, key_types_golden),
    Program("one key, and a key per row", one_key_or_many, one_key_or_many_golden),
    Program("windows of windows", of_results, of_results_golden),
    Program("a day by SQL", daily, daily_golden),
    Program("event time given behind the source", assigned_after_source, given_behind_golden),
)
