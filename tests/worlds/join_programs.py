"""Programs of worlds that join two streams, and their oracles, which compare every row of one side with
every row of the other.

Part of the random rows are the left side. The rest, with other columns and another name of the key,
are the right side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from rheos.api.keyed_stream import KeyedStream
from rheos.api.streams import DataStream
from rheos.core import aggregates as agg
from rheos.core.graph.functions import CoGroupFunction, WindowContext
from rheos.core.graph.windows import Tumbling
from rheos.core.operators.late_rows import LATE_OF_TWO
from tests.worlds.programs import Arrived, CheckedProgram, Outputs, millis, same

_LOWER, _UPPER = -30, 50
_WINDOW_MS = 50


class JoinedRow(NamedTuple):
    """A joined row, and its event time."""

    k: str
    l: int | None  # noqa: E741 - beside r
    r: int | None
    at: int


class RowInTime(NamedTuple):
    """A row that is not late."""

    k: str
    n: int
    at: int


def interval_joined(
    left: list[RowInTime], right: list[RowInTime], lower: int, upper: int, how: str
) -> Iterator[JoinedRow]:
    pairs = [
        (one, other)
        for one in left
        for other in right
        if one.k == other.k and one.at + lower <= other.at <= one.at + upper
    ]
    for one, other in pairs:
        yield JoinedRow(one.k, one.n, other.n, max(one.at, other.at))
    if how in ("left", "full"):
        for one in set(left) - {one for one, _ in pairs}:
            yield JoinedRow(one.k, one.n, None, one.at + max(upper, 0))
    if how in ("right", "full"):
        for other in set(right) - {other for _, other in pairs}:
            yield JoinedRow(other.k, None, other.n, other.at + max(-lower, 0))


def temporal_joined(left: list[RowInTime], right: list[RowInTime], how: str) -> Iterator[JoinedRow]:
    for one in left:
        versions = [other for other in right if other.k == one.k and other.at <= one.at]
        if versions:
            found = max(versions, key=lambda other: (other.at, other.n))
            yield JoinedRow(one.k, one.n, found.n, one.at)
        elif how == "left":
            yield JoinedRow(one.k, one.n, None, one.at)


Oracle = Callable[[list[RowInTime], list[RowInTime]], Iterator[JoinedRow]]


def sides(rows: DataStream) -> tuple[KeyedStream, KeyedStream]:
    left = rows.filter(pl.col("i") % 3 > 0).with_columns(l="i").key_by("k")
    right = rows.filter(pl.col("i") % 3 == 0).select(
        "at", r="i", much=pl.lit("much text") + pl.col("i").cast(pl.String), user="k"
    )
    return left, right.key_by("user")


def _outputs(joined: DataStream) -> Mapping[str, DataStream]:
    # Results of the pairs use their event time.
    counts = joined.with_columns(k=pl.coalesce("k", "user")).key_by("k").window(Tumbling("100ms"))
    return {
        "out": joined,
        "counts": counts.aggregate(n=agg.count(), l=agg.count("l")),
        **_late(joined),
    }


def _late(joined: DataStream) -> Mapping[str, DataStream]:
    return {tag: joined.side_output(tag) for tag in LATE_OF_TWO}


def _same_late(outputs: Outputs, left: Iterable[int], right: Iterable[int]) -> None:
    same((o["l"] for o in outputs["late_left"]), left, "late on the left")
    same((o["r"] for o in outputs["late_right"]), right, "late on the right")


def _checked(oracle: Oracle) -> Callable[[list[Arrived], Outputs], None]:
    def check(rows: list[Arrived], outputs: Outputs) -> None:
        late = [row for row in rows if row.at <= row.wm]
        left, right = _sides_of(rows)
        wanted = list(oracle(left, right))
        got = [(o["l"], o["r"]) for o in outputs["out"]]
        same(got, ((found.l, found.r) for found in wanted), "joined rows")
        _same_late(outputs, (r.i for r in late if r.i % 3), (r.i for r in late if not r.i % 3))
        counts = ((str(o["k"]), millis(o["window_end"]), o["n"], o["l"]) for o in outputs["counts"])
        same(counts, _counted(wanted), "counts of joined rows")

    return check


def _sides_of(rows: Iterable[Arrived]) -> tuple[list[RowInTime], list[RowInTime]]:
    left: list[RowInTime] = []
    right: list[RowInTime] = []
    for row in rows:
        if row.at > row.wm:
            (left if row.i % 3 else right).append(RowInTime(str(row.k), row.i, row.at))
    return left, right


def _counted(joined: Iterable[JoinedRow]) -> Iterator[tuple[Any, ...]]:
    windows: dict[tuple[str, int], list[JoinedRow]] = {}
    for row in joined:
        windows.setdefault((row.k, row.at // 100 * 100 + 100), []).append(row)
    for (key, end), held in windows.items():
        yield key, end, len(held), sum(row.l is not None for row in held)


def _program(name: str, join: Callable[..., DataStream], oracle: Oracle) -> CheckedProgram:
    return CheckedProgram(name, lambda rows: _outputs(join(*sides(rows))), _checked(oracle))


INTERVAL = _program(
    "interval join",
    lambda left, right: left.interval_join(
        right, between=(f"{_LOWER}ms", f"{_UPPER}ms"), how="full", suffix="_r"
    ),
    lambda left, right: interval_joined(left, right, _LOWER, _UPPER, "full"),
)

TEMPORAL = _program(
    "temporal join",
    lambda left, right: left.temporal_join(right, "left", suffix="_r"),
    lambda left, right: temporal_joined(left, right, "left"),
)


def _windowed(rows: DataStream) -> Mapping[str, DataStream]:
    left, right = sides(rows)
    joined = left.window_join(right, Tumbling(f"{_WINDOW_MS}ms"), "full", suffix="_r")
    return {"out": joined, **_late(joined)}


_OfBoth = tuple[list[int], list[int]]


def _in_windows(rows: list[Arrived]) -> tuple[dict[tuple[int, int], _OfBoth], _OfBoth]:
    """Return the rows of both sides by key and end of the window, and the late rows."""
    late: _OfBoth = [], []
    windows: dict[tuple[int, int], _OfBoth] = {}
    for row in rows:
        end, right = row.at // _WINDOW_MS * _WINDOW_MS + _WINDOW_MS, row.i % 3 == 0
        if end - 1 <= row.wm:
            late[right].append(row.i)
        else:
            windows.setdefault((row.k, end), ([], []))[right].append(row.i)
    return windows, late


def _check_windowed(rows: list[Arrived], outputs: Outputs) -> None:
    windows, late = _in_windows(rows)
    nobody: list[int | None] = [None]
    wanted = [
        (end, one, other)
        for (_, end), (ones, others) in windows.items()
        for one in ones or nobody
        for other in others or nobody
    ]
    got = ((millis(o["window_end"]), o["l"], o["r"]) for o in outputs["out"])
    same(got, wanted, "joined rows")
    _same_late(outputs, *late)


WINDOWED = CheckedProgram("window join", _windowed, _check_windowed)


@dataclass
class MetRows:
    """The rows of both sides in a window of a key."""

    k: int
    end: int
    left: list[int]
    right: list[int]


class MeetInWindow(CoGroupFunction):
    def co_group(self, left: list[Any], right: list[Any], ctx: WindowContext) -> Iterator[MetRows]:
        lefts, rights = sorted(row.l for row in left), sorted(row.r for row in right)
        yield MetRows(ctx.key, ctx.window.end_ms, lefts, rights)


def _co_grouped(rows: DataStream) -> Mapping[str, DataStream]:
    left, right = sides(rows)
    met = left.co_group(right, Tumbling(f"{_WINDOW_MS}ms"), MeetInWindow())
    return {"out": met, **_late(met)}


def _check_co_grouped(rows: list[Arrived], outputs: Outputs) -> None:
    windows, late = _in_windows(rows)
    wanted = [(*of, sorted(ones), sorted(others)) for of, (ones, others) in windows.items()]
    got = ((o["k"], o["end"], list(o["left"]), list(o["right"])) for o in outputs["out"])
    same(map(repr, got), map(repr, wanted), "rows that met")
    _same_late(outputs, *late)


CO_GROUPED = CheckedProgram("co-group", _co_grouped, _check_co_grouped)

PROGRAMS = (INTERVAL, TEMPORAL, WINDOWED)
