"""Aggregates over frames equal those of each frame alone, in any arrival of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rheos as rh
from rheos import testing
from rheos.core.aggregates import KINDS
from rheos.core.aggregates.frames import Columns, FrameState, MergedFrame
from rheos.core.operators.over.event_time_over import OverColumns, OverFunction
from rheos.core.operators.over.frame_encoding import pack, unpack
from rheos.core.operators.over.moving_frames import FrameRow, FrameSpec, MovingFrames
from rheos.core.operators.over.positions import FramePosition, PositionFunction
from tests.core.aggregates.oracle import CASES, exact_sum, same

SCHEMA = pa.schema({"v": pa.int64()})
FUNCTIONS: dict[str, OverFunction] = {
    name: kind("v") for name, kind in KINDS.items() if kind.can_frame()
} | {
    "first value": PositionFunction(FramePosition.FIRST),
    "last value": PositionFunction(FramePosition.LAST),
    "second value": PositionFunction(FramePosition.FIRST, 2),
    "second value that is not null": PositionFunction(FramePosition.FIRST, 2, ignores_nulls=True),
    "last value that is not null": PositionFunction(FramePosition.LAST, ignores_nulls=True),
    "lag": PositionFunction(FramePosition.BEFORE),
    "lead": PositionFunction(FramePosition.AFTER),
}
VALUES = st.one_of(st.none(), st.integers(-5, 5))
ROWS = st.lists(st.tuples(st.integers(0, 12), VALUES), max_size=15)


def frame_of(rows: list[FrameRow], place: int, frame: FrameSpec) -> list[Any]:
    """Return the values in the frame of a row, by definition."""
    if frame.by_rows:
        begin = 0 if frame.preceding is None else max(0, place - frame.preceding)
        end = len(rows) if frame.following is None else max(0, place + 1 + frame.following)
        return [row.values[0] for row in rows[begin:end]]
    sign = -1 if frame.descending else 1
    here = sign * rows[place].by
    least = float("-inf") if frame.preceding is None else here - frame.preceding
    most = float("inf") if frame.following is None else here + frame.following
    return [row.values[0] for row in rows if least <= sign * row.by <= most]


def expected(name: str, values: list[Any], frame: FrameSpec) -> Any:
    """Return the result of a function over the values of a frame; of an aggregate, by its oracle."""
    match FUNCTIONS[name]:
        case PositionFunction(FramePosition.FIRST | FramePosition.LAST as position, n, ignores_nulls):
            values = [value for value in values if value is not None or not ignores_nulls]
            at = n - 1 if position is FramePosition.FIRST else -n
            return values[at] if len(values) >= n else None
        case PositionFunction(position):
            complete = len(values) == frame.rows
            return values[0 if position is FramePosition.BEFORE else -1] if complete else None
    return CASES[name].expected([value for value in values if value is not None])


def moving(names: Sequence[str], frame: FrameSpec, kind: pa.DataType | None = None) -> MovingFrames:
    schema = SCHEMA if kind is None else pa.schema({"v": kind})
    functions = tuple(FUNCTIONS[name] for name in names)
    columns = OverColumns("by", ("v",) * len(names), functions, tuple(names))
    frames = (frame,) * len(names) if frame.needs_later_rows else ()
    return MovingFrames(columns.states(schema, frame), frame, frames)


def restored(
    frames: MovingFrames, names: Sequence[str], frame: FrameSpec, waiting: Any
) -> MovingFrames:
    """Return the frames after storing and restoring them."""
    made = moving(names, frame)
    rows = unpack(pack(frames, [(row.by, *row.values) for row in waiting]), made)
    assert rows == [(row.by, *row.values) for row in waiting]
    if frame.needs_later_rows:
        made.add([FrameRow(by, tuple(values)) for by, *values in rows], complete=0)
    return made


@given(
    ROWS,
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 4)),
    st.integers(-4, 0),
    st.booleans(),
    st.sets(st.integers(0, 12)),
    st.booleans(),
)
@settings(max_examples=150)
def test_frames_that_move_have_the_results_of_each_frame_alone(
    drawn: list[tuple[int, int | None]],
    by_rows: bool,
    preceding: int | None,
    following: int,
    descending: bool,
    cuts: set[int],
    stores: bool,
) -> None:
    if preceding is not None:
        following = max(following, -preceding)
    frame = FrameSpec(by_rows, preceding, descending, following)
    is_complete = by_rows and preceding is not None and not following
    names = [n for n in FUNCTIONS if n not in ("lag", "lead") or is_complete]
    ordered = sorted(drawn, key=lambda row: -row[0] if descending else row[0])
    rows = [FrameRow(by, (value,) * len(names)) for by, value in ordered]
    frames = moving(names, frame)
    found: list[tuple[Any, ...]] = []
    begin = 0
    for end in range(1, len(rows) + 1):
        # Peers come at once.
        whole = end == len(rows) or rows[end].by != rows[end - 1].by
        if end == len(rows) or (whole and rows[end].by in cuts):
            found += frames.add(rows[begin:end])
            begin = end
            if stores:
                frames = restored(frames, names, frame, [])
    assert_near(found, rows, names, frame)


@given(
    ROWS,
    st.one_of(st.none(), st.integers(-3, 3)),
    st.one_of(st.none(), st.integers(1, 3)),
    st.sets(st.integers(1, 14)),
    st.booleans(),
)
@settings(max_examples=100)
def test_a_frame_that_reaches_forward_waits_for_its_rows(
    drawn: list[tuple[int, int | None]],
    preceding: int | None,
    following: int | None,
    cuts: set[int],
    stores: bool,
) -> None:
    if following is not None:
        following = max(following, -(preceding or 0))
    frame = FrameSpec(by_rows=True, preceding=preceding, following=following)
    two_bounds = preceding is not None and following is not None
    names = [name for name in FUNCTIONS if two_bounds or name not in ("lag", "lead")]
    rows = [FrameRow(by, (value,) * len(names)) for by, value in sorted(drawn, key=lambda row: row[0])]
    frames = moving(names, frame)
    found: list[tuple[Any, ...]] = []
    begin = 0
    for end in sorted({*cuts, len(rows)} & {*range(len(rows) + 1)}):
        ended = end == len(rows)
        found += frames.add(rows[begin:end], ended=ended)
        begin = end
        waiting = end if following is None else following
        assert len(found) == (end if ended else max(0, end - waiting))
        assert frames.rows <= max(0, preceding or 0) + waiting
        if stores:
            frames = restored(frames, names, frame, rows[len(found) : end])
    assert_near(found, rows, names, frame)


@given(ROWS, st.one_of(st.none(), st.integers(-3, 3)), st.integers(1, 3), st.booleans())
@settings(max_examples=100)
def test_a_frame_that_extends_a_distance_forward_waits_for_the_time(
    drawn: list[tuple[int, int | None]], preceding: int | None, following: int, stores: bool
) -> None:
    following = max(following, -(preceding or 0))
    frame = FrameSpec(False, preceding, following=following)
    names = [name for name in FUNCTIONS if name not in ("lag", "lead")]
    rows = [FrameRow(by, (value,) * len(names)) for by, value in sorted(drawn, key=lambda row: row[0])]
    frames = moving(names, frame)
    found: list[tuple[Any, ...]] = []
    for now in range(20):
        assert frames.add([row for row in rows if row.by == now], complete=0) == []
        complete = sum(row.by + following <= now for row in rows[len(found) :])
        found += frames.add([], complete=complete)
        if stores:
            waiting = [row for row in rows[len(found) :] if row.by <= now]
            frames = restored(frames, names, frame, waiting)
    assert_near(found, rows, names, frame)


def assert_near(
    found: list[tuple[Any, ...]], rows: list[FrameRow], names: Sequence[str], frame: FrameSpec
) -> None:
    assert len(found) == len(rows)
    for place, results in enumerate(found):
        for name, result in zip(names, results, strict=True):
            wanted = expected(name, frame_of(rows, place, frame), frame)
            assert same(result, wanted, 1e-12), (name, place)


def test_no_row_is_added_or_removed_twice() -> None:
    class Watched(FrameState):
        calls = 0

        def add(self, value: Any) -> None:
            type(self).calls += 1

        remove = add

        def result(self) -> Any:
            return None

        def stored(self) -> Columns:
            return []

        def restore(self, columns: Columns) -> None:
            pass

    for frame in (
        FrameSpec(by_rows=True, preceding=100),
        FrameSpec(by_rows=False, preceding=100),
        FrameSpec(by_rows=True, preceding=100, following=100),
        FrameSpec(by_rows=True, preceding=None),
        FrameSpec(by_rows=True, preceding=None, following=100),
        FrameSpec(by_rows=True, preceding=0, following=None),
    ):
        Watched.calls = 0
        frames = MovingFrames([Watched], frame, [frame] if frame.following else [])
        for at in range(1_000):
            frames.add([FrameRow(at, (at,))])
        assert frames.rows <= 201 or frame.following is None
        assert Watched.calls <= 2_000


def test_a_minimum_merges_a_row_at_most_twice() -> None:
    class Watched(MergedFrame):
        merges = 0

        def merge(self, older: Any, newer: Any) -> Any:
            type(self).merges += 1
            return min(older, newer)

    frames = MovingFrames([Watched], FrameSpec(by_rows=True, preceding=100))
    found = [frames.add([FrameRow(at, (at * 7919 % 1009,))]) for at in range(2_000)]
    # One when it comes, one in its block, and one for the result.
    assert Watched.merges <= 3 * 2_000
    assert found[150] == [(min(at * 7919 % 1009 for at in range(50, 151)),)]


@pytest.mark.parametrize("by_rows", [True, False])
def test_floats_that_leave_a_frame_leave_no_rounding_error(by_rows: bool) -> None:
    values = [1e300, 0.1, float("inf"), -1e300, 0.2, float("nan"), 0.3, 5e-324, 0.1, 0.1, 0.1]
    names = ["sum", "mean", "variance", "count"]
    frames = moving(names, FrameSpec(by_rows=by_rows, preceding=2), pa.float64())
    for at, value in enumerate(values):
        ((total, mean, variance, count),) = frames.add([FrameRow(at, (value,) * 4)])
        there = values[max(0, at - 2) : at + 1]
        assert same(total, exact_sum(there), 0), at
        assert same(mean, exact_sum(there) / len(there), 0), at
        assert same(variance, CASES["variance"].expected(there), 1e-15), at
        assert count == len(there)


def test_rows_with_equal_order_have_equal_ranks() -> None:
    def frames() -> MovingFrames:
        both = (FramePosition.RANK, FramePosition.DENSE_RANK)
        ranks = [PositionFunction(each).frame(0) for each in both]
        return MovingFrames(ranks, FrameSpec(by_rows=True, preceding=None))

    rows = [FrameRow(at, (at, at)) for at in (3, 3, 5, 8, 8, 9)]
    before, after = frames(), frames()
    first = before.add(rows[:4])
    unpack(pack(before, []), after)
    assert first + after.add(rows[4:]) == [(1, 1), (1, 1), (3, 2), (4, 3), (4, 3), (6, 4)]


@pytest.mark.parametrize("preceding", [None, 10])
def test_nan_is_the_greatest(preceding: int | None) -> None:
    nan = float("nan")
    rows = [FrameRow(at, (value,) * 2) for at, value in enumerate([nan, 1.0, None, 2.0])]
    frames = moving(["min", "max"], FrameSpec(by_rows=True, preceding=preceding))
    found = frames.add(rows)
    assert [least for least, _ in found[1:]] == [1.0] * 3
    assert all(most != most for _, most in found)


@dataclass
class Click:
    user: int
    n: int
    at: datetime


def clicks(block: rh.Block) -> pa.RecordBatch:
    n = np.asarray(block.number())
    at = pa.array(_at(n)).cast(pa.timestamp("ms")).cast(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays([pa.array(n % 3), pa.array(n), at], ["user", "n", "at"])


def _at(n: Any) -> Any:
    """Return the time in milliseconds; some rows are late, and some have equal times."""
    return n * 700 + (n * 7919 % 5) * 700


def expected_totals(frame: Any) -> list[dict[str, Any]]:
    """Return for each click the sum of those in its frame. `frame` receives the user's clicks, and the
    click's index."""
    found = []
    rows = [(n % 3, _at(n), n) for n in range(150)]
    for user, at, n in rows:
        mine = sorted((t, m) for u, t, m in rows if u == user)
        of = frame(mine, mine.index((at, n)))
        found.append({"user": user, "n": n, "total": sum(m for _, m in of) if of else None})
    return found


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("bounds", "first", "last"),
    [
        ("ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING", -1, 2),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING", -150, -2),
        (
            "RANGE BETWEEN INTERVAL '3' SECONDS PRECEDING AND INTERVAL '2' SECONDS FOLLOWING",
            -3000,
            2000,
        ),
    ],
)
def test_a_frame_with_another_end_survives_faults(bounds: str, first: int, last: int) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        source = rh.generator(clicks, count=150, splits=2, schema=Click)
        late = rh.Watermark.bounded_out_of_orderness("5s", on="at")
        env.register("clicks", env.from_source(source, watermark=late))
        return env.sql(
            f"SELECT user, n, SUM(n) OVER (PARTITION BY user ORDER BY at {bounds}) AS total FROM clicks"
        )

    def near(mine: list[tuple[int, int]], place: int) -> list[tuple[int, int]]:
        if bounds.startswith("ROWS"):
            return mine[max(0, place + first) : max(0, place + last + 1)]
        at = mine[place][0]
        return [(t, m) for t, m in mine if at + first <= t <= at + last]

    testing.simulate(build, seeds=2, expected=expected_totals(near))


@pytest.mark.parametrize("frame", ["ROWS BETWEEN 4", "RANGE BETWEEN INTERVAL '5' SECONDS"])
def test_over_with_a_time_range_survives_faults(frame: str) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        source = rh.generator(clicks, count=150, splits=2, schema=Click)
        late = rh.Watermark.bounded_out_of_orderness("5s", on="at")
        env.register("clicks", env.from_source(source, watermark=late))
        return env.sql(
            "SELECT user, n, SUM(n) OVER (PARTITION BY user ORDER BY at "
            f"{frame} PRECEDING AND CURRENT ROW) AS total FROM clicks"
        )

    def near(mine: list[tuple[int, int]], place: int) -> list[tuple[int, int]]:
        if frame.startswith("ROWS"):
            return mine[: place + 1][-5:]
        at = mine[place][0]
        return [(t, m) for t, m in mine if at - 5000 <= t <= at]

    expected = expected_totals(near)
    testing.simulate(build, seeds=3, expected=expected)
