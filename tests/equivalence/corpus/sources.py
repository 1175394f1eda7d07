"""Programs that read Spark DataFrames, and history before a live stream."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import rheos as rh
from tests.equivalence.corpus.inputs import MORE_SALES, NOON, ONE_SHOP, SALES
from tests.equivalence.corpus.keyed import Sessions, sessions_of
from tests.equivalence.corpus.oracle import NEVER, Row, arrived, bare, by_window, result
from tests.equivalence.corpus.program import Given, Golden, Program
from tests.equivalence.corpus.windows import AGGREGATES, aggregated


def dataframes(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.dataframe(SALES)
    windows = sales.key_by("shop").window(rh.Sliding("15s", every="5s")).aggregate(**AGGREGATES)
    return {
        "windows": windows,
        "late": windows.side_output("late"),
        "sessions": sales.key_by("shop").process(Sessions(), order="event_time"),
        "dear": sales.filter("quantity > 30").select("n", "note", "at"),
    }


def dataframes_golden() -> Mapping[str, Golden]:
    """Compute the result for DataFrames, which have no order, so that no row is late."""
    rows = [{**row, "wm": NEVER} for row in arrived(SALES)]
    windows, late = by_window(rows, ["shop"], 15_000, 5_000)
    assert not late
    sessions, _ = sessions_of(rows)
    return {
        "windows": [result(["shop"], key, 15_000, **aggregated(of)) for key, of in windows.items()],
        "late": [],
        "sessions": sessions,
        "dear": [
            {name: row[name] for name in ("n", "note", "at")}
            for row in rows
            if row["quantity"] is not None and row["quantity"] > 30
        ],
    }


# --- history first ------------------------------------------------------------------------------------

SWITCH = NOON + timedelta(seconds=75)
"""Within both: each has rows on the other's side of it."""


def history_first(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.hybrid(SALES, MORE_SALES, SWITCH)
    windows = sales.key_by("shop").window(rh.Tumbling("20s")).aggregate(**AGGREGATES)
    return {"windows": windows, "late": windows.side_output("late"), "rows": sales}


def history_first_golden() -> Mapping[str, Golden]:
    def past(row: Row) -> bool:
        return row["at"] < SWITCH

    def present(row: Row) -> bool:
        return row["at"] >= SWITCH

    rows = arrived(SALES, past) + arrived(MORE_SALES, present)
    windows, late = by_window(rows, ["shop"], 20_000)
    return {
        "windows": [result(["shop"], key, 20_000, **aggregated(of)) for key, of in windows.items()],
        "late": bare(late),
        "rows": bare(rows),
    }


def whole_history_first(given: Given) -> Mapping[str, rh.DataStream]:
    """Compute the result without a switch: each part is read completely, and order does not matter."""
    sales = given.hybrid(ONE_SHOP, SALES, None)
    counted = sales.key_by("shop", "user").window(rh.Tumbling("1m")).aggregate(rows=rh.agg.count())
    return {"counted": counted}


def whole_history_first_golden() -> Mapping[str, Golden]:
    windows, _ = by_window(arrived(ONE_SHOP) + arrived(SALES), ["shop", "user"], 60_000)
    return {
        "counted": [result(["shop", "user"], key, 60_000, rows=len(of)) for key, of in windows.items()]
    }


PROGRAMS = (
    Program("DataFrames", dataframes, dataframes_golden, empty=("late",), spark=True, lasts=False),
    Program("history first", history_first, history_first_golden),
    Program("the whole history first", whole_history_first, whole_history_first_golden),
)
