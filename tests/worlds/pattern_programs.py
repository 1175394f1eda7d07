"""The program of worlds that detects a pattern, and its oracle, which tries all pairs of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import polars as pl

from rheos.api.patterns import begin
from rheos.api.streams import DataStream
from tests.worlds.programs import Arrived, CheckedProgram, Outputs, same

_WITHIN_MS = 60


def _outputs(rows: DataStream) -> Mapping[str, DataStream]:
    pattern = (
        begin("one")
        .where(pl.col("i") % 3 == 0)
        .followed_by("other")
        .where(pl.col("i") % 3 == 1)
        .within(f"{_WITHIN_MS}ms")
    )
    found = rows.key_by("k").detect(pattern)
    one, other = (pl.col(step).struct.field("i") for step in ("one", "other"))
    return {
        "out": found.select(one=one, other=other),
        "timed_out": found.side_output("timed_out").select(one=one),
        "late": found.side_output("late"),
    }


def _check(rows: list[Arrived], outputs: Outputs) -> None:
    found = list(_found([row for row in rows if row.at > row.wm]))
    got = [(o["one"], o["other"]) for o in outputs["out"]]
    same(got, (pair for pair in found if pair[1] is not None), "matches")
    same(
        (o["one"] for o in outputs["timed_out"]), (one for one, other in found if other is None), "over"
    )
    same((o["i"] for o in outputs["late"]), (row.i for row in rows if row.at <= row.wm), "late rows")


def _found(rows: Iterable[Arrived]) -> Iterator[tuple[int, int | None]]:
    in_order = sorted(rows, key=lambda row: (str(row.k), row.at, row.i))
    for _, of_key in groupby(in_order, key=lambda row: str(row.k)):
        by_time = list(of_key)
        for place, row in enumerate(by_time):
            if row.i % 3 == 0:
                later = (
                    other.i
                    for other in by_time[place + 1 :]
                    if other.i % 3 == 1 and other.at < row.at + _WITHIN_MS
                )
                yield row.i, next(later, None)


PATTERN = CheckedProgram("pattern", _outputs, _check)
