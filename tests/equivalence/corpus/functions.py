"""Asynchronous functions, functions with `open`, user-defined watermarks, and user-defined distribution
of rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

import rheos as rh
from rheos import col
from tests.equivalence.corpus.inputs import SALES, Sale
from tests.equivalence.corpus.oracle import NEVER, Row, bare, by_window, frame, known, millis, result
from tests.equivalence.corpus.program import Given, Golden, Program


@dataclass
class Asked:
    n: int
    user: int
    twice: int | None
    at: datetime


async def ask(sale: Sale) -> Asked:
    await asyncio.sleep(0.001 * (sale.n % 3))
    return Asked(sale.n, sale.user, None if sale.quantity is None else 2 * sale.quantity, sale.at)


class AskAgain(rh.AsyncFunction):
    """Fails an eighth of the calls at first."""

    async def open(self, ctx: rh.RuntimeContext) -> None:
        self.refused = set[int]()

    async def invoke(self, sale: Sale) -> Asked:
        if sale.n % 8 == 0 and sale.n not in self.refused:
            self.refused.add(sale.n)
            raise ConnectionError("busy")
        return await ask(sale)


class Stocked(rh.RichFunction):
    """Uses a resource that exists once it is open."""

    def open(self, ctx: rh.RuntimeContext) -> None:
        self.stock = {user: 100 * user for user in range(40)}

    def __call__(self, sale: Any) -> Any:
        return {"n": sale.n, "left": self.stock[sale.user] - (sale.quantity or 0)}


class EveryFifth(rh.WatermarkGenerator):
    """Each fifth row of a split marks the time a second before the latest."""

    seen = 0
    latest = 0

    def on_event(self, record: Sale, timestamp: int) -> int | None:
        self.seen += 1
        self.latest = max(self.latest, timestamp)
        return self.latest - 1000 if self.seen % 5 == 0 else None


def functions(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.stream(SALES)
    marked = sales.with_event_time(rh.Watermark.punctuated(col("n") % 7 == 0, on="at", bound="2s"))
    asked = marked.rebalance().map_async(
        AskAgain(), order="unordered", capacity=7, retries=rh.retry(2, on=ConnectionError)
    )
    per_user = asked.key_by("user").window(rh.Tumbling("10s"))
    fifth = sales.with_event_time(rh.Watermark.generator(EveryFifth(), on="at"))
    counted = fifth.key_by("user").window(rh.Tumbling("10s")).aggregate(n=rh.agg.count())
    moved = sales.rescale().filter(col("n") % 3 > 0).disable_chaining().forward()
    dealt = sales.partition_by(lambda subtasks: col("user") % subtasks).start_new_chain()
    return {
        "per user": per_user.aggregate(n=rh.agg.count(), total=rh.agg.sum("twice")),
        "counted": counted,
        "late": counted.side_output("late"),
        "stocked": dealt.map(Stocked(), returns={"n": int, "left": int}),
        "moved": moved.select("n", "user").global_().select("n", at=col("user") + 1),
    }


def functions_golden() -> Mapping[str, Golden]:
    marked = by_window(
        _timed(lambda row, seen, latest: row["ts"] - 2001 if row["n"] % 7 == 0 else None),
        ["user"],
        10_000,
    )[0]
    fifth, late = by_window(
        _timed(lambda row, seen, latest: latest - 1000 if seen % 5 == 0 else None), ["user"], 10_000
    )
    return {
        "per user": [
            result(["user"], key, 10_000, n=len(rows), total=_total(rows))
            for key, rows in marked.items()
        ],
        "counted": [result(["user"], key, 10_000, n=len(rows)) for key, rows in fifth.items()],
        "late": bare(late),
        "stocked": [
            {"n": row["n"], "left": 100 * row["user"] - (row["quantity"] or 0)}
            for row in frame(SALES).to_dicts()
        ],
        "moved": frame(SALES).filter(pl.col("n") % 3 > 0).select("n", at=pl.col("user") + 1),
    }


def _timed(says: Callable[[Row, int, int], int | None]) -> list[Row]:
    """Return the rows, each with the watermark of its split before it: the maximum so far, as a
    function of a row, the number of rows, and the latest time."""
    found = []
    watermarks, latest = [NEVER] * SALES.splits, [0] * SALES.splits
    for number, row in enumerate(SALES.table.to_pylist()):
        split, ts = number % SALES.splits, millis(row["at"])
        timed = {**row, "ts": ts, "wm": watermarks[split]}
        found.append(timed)
        latest[split] = max(latest[split], ts)
        said = says(timed, number // SALES.splits + 1, latest[split])
        watermarks[split] = max(watermarks[split], NEVER if said is None else said)
    return found


def _total(rows: list[Row]) -> int | None:
    quantities = known(rows, "quantity")
    return 2 * sum(quantities) if quantities else None


PROGRAMS = (Program("functions", functions, functions_golden),)
