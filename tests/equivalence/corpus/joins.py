"""Programs that join two streams, and windows downstream of joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import rheos as rh
from tests.equivalence.corpus.inputs import MORE_SALES, SALES, Sale
from tests.equivalence.corpus.oracle import Row, arrived, bare, by_window, moment
from tests.equivalence.corpus.program import Given, Golden, Program, Rows
from tests.equivalence.corpus.sessions import by_session

LATE = ("late_left", "late_right")


@dataclass
class Visit:
    user: int
    start: int
    end: int
    sales: list[int]
    more: list[int]


class Visits(rh.CoGroupFunction):
    def co_group(self, left: list[Sale], right: list[Sale], ctx: rh.WindowContext) -> Iterator[Visit]:
        assert all(
            [sale.at for sale in side] == sorted(sale.at for sale in side) for side in (left, right)
        )
        sales, more = (sorted(sale.n for sale in side) for side in (left, right))
        yield Visit(ctx.key, ctx.window.start_ms, ctx.window.end_ms, sales, more)


def joins(given: Given) -> Mapping[str, rh.DataStream]:
    sales, more = given.stream(SALES), given.stream(MORE_SALES)
    pairs = sales.key_by("user").interval_join(
        more.key_by("user"), between=("-2s", "3s"), suffix="_more"
    )
    close = sales.key_by("shop", "user").interval_join(
        more.select("at", "n", of="user", at_shop="shop").key_by("at_shop", "of"),
        between=("-1s", "500ms"),
        how="full",
        suffix="_more",
    )
    versions = more.select("shop", "at", "n").key_by("shop")
    counting = sales.key_by("shop").temporal_join(versions, "left", suffix="_more")
    together = sales.key_by("shop").window_join(
        versions, rh.Sliding("4s", every="2s"), "full", suffix="_more"
    )
    visits = sales.key_by("user").co_group(more.key_by("user"), rh.Session(gap="5s"), Visits())
    return {
        "pairs": pairs.select("user", "n", "n_more"),
        "together": together.select("shop", "n", "n_more", "window_end"),
        "visits": visits,
        "close": close.select("shop", "n", "at_shop", "n_more"),
        # What comes of joined rows goes by their event time.
        "per shop": close.with_columns(shop=rh.col("shop").fill_null(rh.col("at_shop")))
        .key_by("shop")
        .window(rh.Tumbling("10s"))
        .aggregate(rows=rh.agg.count(), sales=rh.agg.count("n"), more=rh.agg.count("n_more"))
        .select("shop", "window_end", "rows", "sales", "more"),
        "versions": counting.select("shop", "n", "n_more"),
        **{tag: close.side_output(tag) for tag in LATE},
    }


def joins_golden() -> Mapping[str, Golden]:
    (sales, late_sales), (more, late_more) = in_time(SALES), in_time(MORE_SALES)
    close = list(by_distance(sales, more, ("shop", "user"), -1_000, 500, full=True))
    return {
        "pairs": [
            {"user": one["user"], "n": one["n"], "n_more": other["n"]}
            for one, other, _ in by_distance(sales, more, ("user",), -2_000, 3_000)
        ],
        "close": [
            {"shop": one.get("shop"), "n": one.get("n")}
            | {"at_shop": other.get("shop"), "n_more": other.get("n")}
            for one, other, _ in close
        ],
        "per shop": list(per_shop(close)),
        "versions": list(versions_of(sales, more)),
        "together": list(in_windows(arrived(SALES), arrived(MORE_SALES))),
        "visits": list(in_sessions()),
        "late_left": bare(late_sales),
        "late_right": [
            {"at": row["at"], "n": row["n"], "of": row["user"], "at_shop": row["shop"]}
            for row in late_more
        ],
    }


def in_time(rows: Rows) -> tuple[list[Row], list[Row]]:
    """Return the rows that are in time, and those that are late."""
    found = arrived(rows)
    late = [row for row in found if row["ts"] <= row["wm"]]
    return [row for row in found if row["ts"] > row["wm"]], late


def in_windows(left: Iterable[Row], right: Iterable[Row]) -> Iterator[Row]:
    ones, others = (by_window(rows, ["shop"], 4_000, 2_000)[0] for rows in (left, right))
    nobody = [{"n": None}]
    for shop, start in {**ones, **others}:
        for one in ones.get((shop, start), nobody):
            for other in others.get((shop, start), nobody):
                found = {"shop": shop, "n": one["n"], "n_more": other["n"]}
                yield {**found, "window_end": moment(int(str(start)) + 4_000)}


def in_sessions() -> Iterator[Row]:
    """Return sessions of the rows of both."""
    sides = ([{**row, "of": side} for row in arrived(side)] for side in (SALES, MORE_SALES))
    for (user,), start, end, rows in by_session(
        [row for side in sides for row in side], ["user"], 5_000
    )[0]:
        sales, more = (sorted(r["n"] for r in rows if r["of"] is side) for side in (SALES, MORE_SALES))
        yield {"user": user, "start": start, "end": end, "sales": sales, "more": more}


Pair = tuple[Row, Row, int]
"""A row of each side, of which one may be empty, and their time."""


def by_distance(
    left: Sequence[Row],
    right: Sequence[Row],
    keys: Sequence[str],
    lower: int,
    upper: int,
    full: bool = False,
) -> Iterator[Pair]:
    paired = [
        (one, other)
        for one in left
        for other in right
        if all(one[key] == other[key] for key in keys) and lower <= other["ts"] - one["ts"] <= upper
    ]
    for one, other in paired:
        yield one, other, max(one["ts"], other["ts"])
    if full:
        sides = [{row["n"] for row in side} for side in zip(*paired, strict=True)]
        yield from ((row, {}, row["ts"] + upper) for row in left if row["n"] not in sides[0])
        yield from (({}, row, row["ts"] - lower) for row in right if row["n"] not in sides[1])


def per_shop(pairs: Iterable[Pair]) -> Iterator[Row]:
    rows: Counter[tuple[str, int]] = Counter()
    sales, more = rows.copy(), rows.copy()
    for one, other, ts in pairs:
        window = (one or other)["shop"], ts // 10_000 * 10_000 + 10_000
        rows[window] += 1
        sales[window] += bool(one)
        more[window] += bool(other)
    for (shop, end), count in rows.items():
        found = {"rows": count, "sales": sales[shop, end], "more": more[shop, end]}
        yield {"shop": shop, "window_end": moment(end), **found}


def versions_of(left: Iterable[Row], right: Sequence[Row]) -> Iterator[Row]:
    """Return the last row of the shop that is not later; of equal times the one with the highest
    number."""
    for row in left:
        there = [v for v in right if v["shop"] == row["shop"] and v["ts"] <= row["ts"]]
        last = max(there, key=lambda v: (v["ts"], v["n"]), default={"n": None})
        yield {"shop": row["shop"], "n": row["n"], "n_more": last["n"]}


PROGRAMS = (Program("joins", joins, joins_golden),)
