"""Programs with updating tables: their final content, in any order of arrival."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

import rheos as rh
from tests.equivalence.corpus.inputs import MORE_SALES, SALES
from tests.equivalence.corpus.oracle import Row, arrived, bare, by_window, known, result
from tests.equivalence.corpus.program import Given, Golden, Program


def changes(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.stream(SALES)
    users = sales.key_by("shop", "user").table(rows=rh.agg.count(), total=rh.agg.sum("quantity"))
    sizes = users.retractions().key_by("rows").table(users=rh.agg.count(), sold=rh.agg.mean("total"))
    more = given.stream(MORE_SALES).key_by("user").table(more=rh.agg.count())
    both = users.retractions().key_by("user").join(more.key_by("user"), "full", ttl="forever")
    known = users.retractions().key_by("user").join(more.key_by("user"), "left", ttl="forever")
    within = sales.key_by("shop").dedup(within="30d")
    first = sales.key_by("user").dedup(order="event_time")
    again = sales.key_by("shop").dedup(within="20s", order="event_time")
    tops = sales.key_by("shop").window(rh.Tumbling("10s"))
    best = tops.aggregate(top=rh.agg.top_k("quantity", 2, of=["user", "quantity"]))
    return {
        "users": users,
        "sizes": sizes.retractions(),
        "both": both,
        "folded": known.upserts(key=["shop", "user"]).retractions(),
        "largest": users.key_by("shop").top_n(2, by="rows"),
        "dearest": sales.key_by("shop").top_n(2, by="price"),
        "once": sales.key_by("user").dedup().select("user"),
        "first": first,
        "first late": first.side_output("late"),
        "of the first": first.key_by("shop").window(rh.Tumbling("10s")).aggregate(rows=rh.agg.count()),
        "again": again.select("shop", "at"),
        "within": within.select("shop"),
        "late": within.side_output("late"),
        "latest": sales.key_by("user").dedup("last").as_rows().select("user", "at"),
        "top": best.explode("top", rank="rank"),
    }


def in_the_end(found: pl.DataFrame) -> pl.DataFrame:
    """Return the final rows of changes that contain the previous row."""
    counted: Counter[tuple[Any, ...]] = Counter()
    names = [name for name in found.columns if name != "op"]
    for row in found.select(*names, "op").iter_rows():
        counted[row[:-1]] += 1 if row[-1] in ("insert", "update_after") else -1
    assert set(counted.values()) <= {0, 1}
    left = [dict(zip(names, row, strict=True)) for row, count in counted.items() if count]
    return pl.DataFrame(left, schema=found.select(names).schema)


def last_of_users(found: pl.DataFrame) -> pl.DataFrame:
    return found.sort("rows").unique(["shop", "user"], keep="last")


def latest_of_users(found: pl.DataFrame) -> pl.DataFrame:
    return found.sort("at").unique("user", keep="last")


def changes_golden() -> Mapping[str, Golden]:
    rows = SALES.table.to_pylist()
    of_users = grouped(rows, "shop", "user")
    users = [
        {"shop": shop, "user": user, "rows": len(of), "total": total(of)}
        for (shop, user), of in of_users.items()
    ]
    largest, dearest = [], []
    for of in grouped(users, "shop").values():
        of.sort(key=lambda row: (-row["rows"], row["user"]))
        largest += ranked(of)
    for of in grouped([row for row in rows if row["price"] is not None], "shop").values():
        of.sort(key=lambda row: (-row["price"], row["n"]))
        dearest += ranked(of)
    again = grouped(MORE_SALES.table.to_pylist(), "user")
    both = [{**row, "more": len(again.get((row["user"],), ())) or None} for row in users]
    folded = [*both]
    nothing = {"shop": None, "rows": None, "total": None}
    of_none = {user for (user,) in again} - {row["user"] for row in users}
    both += [{**nothing, "user": user, "more": len(again[(user,)])} for user in of_none]
    on_time = [row for row in arrived(SALES) if row["ts"] > row["wm"]]
    windows, _ = by_window(arrived(SALES), ["shop"], 10_000)
    of_user = {row["user"]: row for row in reversed(in_order(on_time))}
    of_the_first, _ = by_window(of_user.values(), ["shop"], 10_000)
    return {
        "users": [{**row, "op": "insert" if row["rows"] == 1 else "update_after"} for row in users],
        "sizes": [
            {"rows": count, "users": len(of), "sold": mean(known(of, "total"))}
            for (count,), of in grouped(users, "rows").items()
        ],
        "both": both,
        "folded": folded,
        "largest": largest,
        "dearest": dearest,
        "once": [{"user": user} for user in {row["user"] for row in rows}],
        "first": bare([*of_user.values()]),
        "first late": bare([row for row in arrived(SALES) if row["ts"] <= row["wm"]]),
        "of the first": [
            result(["shop"], key, 10_000, rows=len(of)) for key, of in of_the_first.items()
        ],
        "again": once_within(in_order(on_time), 20_000),
        "within": [{"shop": shop} for shop in {row["shop"] for row in on_time}],
        "late": bare([row for row in arrived(SALES) if row["ts"] <= row["wm"]]),
        "latest": [
            {"user": user, "at": max(row["at"] for row in of)}
            for (user,), of in grouped(rows, "user").items()
        ],
        "top": [
            result(["shop"], key, 10_000, user=best["user"], quantity=best["quantity"], rank=rank)
            for key, of in windows.items()
            for rank, best in enumerate(
                sorted(
                    (row for row in of if row["quantity"] is not None),
                    key=lambda row: (-row["quantity"], row["ts"], row["user"]),
                )[:2],
                1,
            )
        ],
    }


def in_order(rows: list[Row]) -> list[Row]:
    """Return rows by their times; those of the same time by the number of the sale."""
    return sorted(rows, key=lambda row: (row["ts"], row["n"]))


def once_within(rows: list[Row], within_ms: int) -> list[Row]:
    """Return the times of each shop that are at least `within_ms` after the one before."""
    until: dict[str, int] = {}
    found = []
    for row in rows:
        if row["ts"] >= until.get(row["shop"], row["ts"]):
            until[row["shop"]] = row["ts"] + within_ms
            found.append({"shop": row["shop"], "at": row["at"]})
    return found


def grouped(rows: Iterable[Row], *by: str) -> Mapping[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in by)].append(row)
    return groups


def ranked(rows: list[Row]) -> list[Row]:
    return [{**row, "rank": rank} for rank, row in enumerate(rows[:2], 1)]


def total(rows: Iterable[Row]) -> int | None:
    quantities = [row["quantity"] for row in rows if row["quantity"] is not None]
    return sum(quantities) if quantities else None


def mean(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None


PROGRAMS = (
    Program(
        "changes",
        changes,
        changes_golden,
        views={
            "users": last_of_users,
            "sizes": in_the_end,
            "both": in_the_end,
            "folded": in_the_end,
            "largest": in_the_end,
            "dearest": in_the_end,
            "latest": latest_of_users,
        },
    ),
)
