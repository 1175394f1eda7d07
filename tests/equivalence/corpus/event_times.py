"""Programs that give results another event time: of timers, and of rows in the order of arrival."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import rheos as rh
from tests.equivalence.corpus.inputs import SALES, Sale
from tests.equivalence.corpus.keyed import Sessions, sessions_of
from tests.equivalence.corpus.oracle import Row, arrived, bare, by_window, result, too_late
from tests.equivalence.corpus.program import Given, Golden, Program

SIZE_MS = 10_000


def windows_of(rows: rh.DataStream) -> Mapping[str, rh.DataStream]:
    """Return counts by windows of the new time, the rows that are late for them, and numbered rows."""
    found = rows.key_by("shop").window(rh.Tumbling("10s")).aggregate(rows=rh.agg.count())
    in_order = rows.key_by("shop").process(Numbered(), order="event_time")
    return {
        "windows": found,
        "late": found.side_output("late"),
        "in order": in_order,
        "too late": in_order.side_output("late"),
    }


def golden_of(rows: list[Row]) -> Mapping[str, Golden]:
    windows, late = by_window(rows, ["shop"], SIZE_MS)
    counts: dict[str, int] = defaultdict(int)
    numbered = []
    for row in sorted(rows, key=lambda row: row["ts"]):
        if row["ts"] > row["wm"]:
            counts[row["shop"]] += 1
            numbered.append({"shop": row["shop"], "at": row["ts"], "number": counts[row["shop"]]})
    return {
        "windows": [result(["shop"], key, SIZE_MS, rows=len(of)) for key, of in windows.items()],
        "late": bare(late),
        "in order": numbered,
        "too late": too_late(rows),
    }


@dataclass
class Place:
    shop: str
    at: int
    number: int


class Numbered(rh.KeyedProcessFunction):
    """The number of each row of a shop, in the order of event time."""

    count = rh.ValueState(int, default=0)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[Place]:
        self.count.value += 1
        assert ctx.timestamp is not None
        yield Place(row.shop, ctx.timestamp, self.count.value)


# --- results of timers --------------------------------------------------------------------------------


def begins(given: Given) -> Mapping[str, rh.DataStream]:
    """Return sessions, which are known at their ends, by their beginnings."""
    found = given.stream(SALES).key_by("shop").process(Sessions(), order="event_time")
    by_start = rh.Watermark.bounded_out_of_orderness("12s", on="start")
    return windows_of(found.with_event_time(by_start))


def begins_golden() -> Mapping[str, Golden]:
    sessions, _ = sessions_of(arrived(SALES))
    return golden_of(
        [{**one, "ts": one["start"], "wm": one["end"] - 1 - 12_000} for one in sessions],
    )


# --- results in the order of arrival ------------------------------------------------------------------


@dataclass
class Departure:
    shop: str
    n: int
    left: int


class Departures(rh.KeyedProcessFunction):
    """The departure of each sale, some seconds before or after it."""

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Departure]:
        assert ctx.timestamp is not None
        yield Departure(sale.shop, sale.n, ctx.timestamp - shift_ms(sale.n))


def shift_ms(n: int) -> int:
    return 25_000 if n % 31 == 30 else n % 9 * 1_000 - 4_000


def departures(given: Given) -> Mapping[str, rh.DataStream]:
    """Return departures, also those of late sales."""
    found = given.stream(SALES).key_by("user").process(Departures())
    return windows_of(found.with_event_time(rh.Watermark.bounded_out_of_orderness("3s", on="left")))


def departures_golden() -> Mapping[str, Golden]:
    found = []
    for row in arrived(SALES):
        left = row["ts"] - shift_ms(row["n"])
        mark = max(row["wm"], row["ts"] - 1) - 3_000
        found.append({"shop": row["shop"], "n": row["n"], "left": left, "ts": left, "wm": mark})
    # Rows of one time may be numbered in either order, but their times and numbers are the same.
    return golden_of(found)


PROGRAMS = (
    Program("event time of sessions", begins, begins_golden),
    Program("event time of departures", departures, departures_golden),
)
