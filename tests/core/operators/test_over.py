"""Aggregates over frames: the same as of each frame by itself, however the rows come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from statistics import pstdev, pvariance, stdev, variance
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rheos as rh
from rheos import testing
from rheos.core.operators.over.frames import Fold, FrameRow, FrameSpec, Kept, over, over_ahead

DEVIATIONS = (Fold.VARIANCE, Fold.VARIANCE_POP, Fold.STDDEV, Fold.STDDEV_POP)
FOLDS = tuple(
    fold for fold in Fold if fold not in (*DEVIATIONS, Fold.RANK, Fold.DENSE_RANK, Fold.AFTER)
)
VALUES = st.one_of(st.none(), st.integers(-5, 5))
ROWS = st.lists(st.tuples(st.integers(0, 12), VALUES), max_size=15)


def frame_of(rows: list[FrameRow], place: int, frame: FrameSpec) -> list[Any]:
    """The values in the frame of a row, as it is defined."""
    if frame.by_rows:
        begin = 0 if frame.preceding is None else max(0, place - frame.preceding)
        return [row.values[0] for row in rows[begin : place + 1 + frame.following]]
    sign = -1 if frame.descending else 1
    here = sign * rows[place].by
    least = float("-inf") if frame.preceding is None else here - frame.preceding
    return [row.values[0] for row in rows if least <= sign * row.by <= here]


def aggregate(fold: Fold, values: list[Any], frame: FrameSpec) -> Any:
    there = [value for value in values if value is not None]
    match fold:
        case Fold.COUNT:
            return len(there)
        case Fold.SUM:
            return sum(there) if there else None
        case Fold.MEAN:
            return sum(there) / len(there) if there else None
        case Fold.MIN:
            return min(there, default=None)
        case Fold.MAX:
            return max(there, default=None)
        case Fold.FIRST:
            return values[0]
        case Fold.LAST:
            return values[-1]
        case Fold.COUNT_DISTINCT:
            return len({*there})
        case Fold.BEFORE | Fold.AFTER:
            whole = len(values) == (frame.preceding or 0) + 1 + frame.following
            return values[0 if fold is Fold.BEFORE else -1] if whole else None


@given(
    ROWS,
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 4)),
    st.booleans(),
    st.sets(st.integers(0, 12)),
)
def test_aggregates_over_frames_are_those_of_each_frame_alone(
    drawn: list[tuple[int, int | None]],
    by_rows: bool,
    preceding: int | None,
    descending: bool,
    cuts: set[int],
) -> None:
    frame = FrameSpec(by_rows, preceding, descending)
    folds = [fold for fold in FOLDS if fold is not Fold.BEFORE or (by_rows and preceding is not None)]
    ordered = sorted(drawn, key=lambda row: -row[0] if descending else row[0])
    rows = [FrameRow(by, (value,) * len(folds)) for by, value in ordered]
    found: list[tuple[Any, ...]] = []
    kept: Kept = []
    begin = 0
    for end in range(1, len(rows) + 1):
        # Rows of one place come at once.
        whole = end == len(rows) or rows[end].by != rows[end - 1].by
        if end == len(rows) or (whole and rows[end].by in cuts):
            results, kept = over(kept, rows[begin:end], folds, frame)
            found += results
            begin = end
    assert found == [
        tuple(aggregate(fold, frame_of(rows, place, frame), frame) for fold in folds)
        for place in range(len(rows))
    ]


@given(ROWS, st.integers(0, 3), st.integers(1, 3), st.sets(st.integers(1, 14)))
def test_a_frame_that_reaches_forward_waits_for_its_rows(
    drawn: list[tuple[int, int | None]], preceding: int, following: int, cuts: set[int]
) -> None:
    frame = FrameSpec(by_rows=True, preceding=preceding, following=following)
    folds = [*FOLDS, Fold.AFTER]
    rows = [FrameRow(by, (value,) * len(folds)) for by, value in sorted(drawn, key=lambda row: row[0])]
    expected = [
        tuple(aggregate(fold, frame_of(rows, place, frame), frame) for fold in folds)
        for place in range(len(rows))
    ]
    found: list[tuple[Any, ...]] = []
    kept: Kept = []
    for end in sorted({*cuts, len(rows)} & {*range(len(rows) + 1)}):
        waiting, ended = rows[len(found) : end], end == len(rows)
        results, kept = over_ahead(kept, waiting, folds, frame, [frame] * len(folds), ended=ended)
        assert len(kept) <= preceding
        found += results
        assert len(found) == (end if ended else max(0, end - following))
    assert found == expected
    assert over([], rows, folds, frame, [frame] * len(folds))[0] == expected


@given(ROWS, st.one_of(st.none(), st.integers(0, 4)))
def test_deviations_are_those_of_the_frame(
    drawn: list[tuple[int, int | None]], preceding: int | None
) -> None:
    frame = FrameSpec(by_rows=True, preceding=preceding)
    rows = [FrameRow(at, (value,) * 4) for at, (_, value) in enumerate(drawn)]
    found, _ = over([], rows, DEVIATIONS, frame)
    for place, (sample, of_all, deviation, of_all_deviation) in enumerate(found):
        there = [value for value in frame_of(rows, place, frame) if value is not None]
        assert sample == (pytest.approx(variance(there)) if len(there) > 1 else None)
        assert of_all == (pytest.approx(pvariance(there)) if there else None)
        assert deviation == (pytest.approx(stdev(there)) if len(there) > 1 else None)
        assert of_all_deviation == (pytest.approx(pstdev(there)) if there else None)


def test_rows_at_one_place_have_one_rank() -> None:
    rows = [FrameRow(at, (at, at)) for at in (3, 3, 5, 8, 8, 9)]
    folds, frame = (Fold.RANK, Fold.DENSE_RANK), FrameSpec(by_rows=True, preceding=None)
    first, kept = over([], rows[:4], folds, frame)
    then, _ = over(kept, rows[4:], folds, frame)
    assert first + then == [(1, 1), (1, 1), (3, 2), (4, 3), (4, 3), (6, 4)]


def test_nan_is_the_greatest() -> None:
    nan = float("nan")
    rows = [FrameRow(at, (value,) * 2) for at, value in enumerate([nan, 1.0, None, 2.0])]
    found, _ = over([], rows, [Fold.MIN, Fold.MAX], FrameSpec(by_rows=True, preceding=None))
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
    """In milliseconds; some rows are late, and some of one time."""
    return n * 700 + (n * 7919 % 5) * 700


def expected_totals(frame: Any) -> list[dict[str, Any]]:
    """Of each click, the sum of those in its frame: what `frame` takes of the user's, and its place."""
    found = []
    rows = [(n % 3, _at(n), n) for n in range(150)]
    for user, at, n in rows:
        mine = sorted((t, m) for u, t, m in rows if u == user)
        of = frame(mine, mine.index((at, n)))
        found.append({"user": user, "n": n, "total": sum(m for _, m in of)})
    return found


def test_a_frame_that_reaches_forward_goes_on_after_faults() -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        source = rh.generator(clicks, count=150, splits=2, schema=Click)
        late = rh.Watermark.bounded_out_of_orderness("5s", on="at")
        env.register("clicks", env.from_source(source, watermark=late))
        return env.sql(
            "SELECT user, n, SUM(n) OVER (PARTITION BY user ORDER BY at "
            "ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS total FROM clicks"
        )

    expected = expected_totals(lambda mine, place: mine[max(0, place - 1) : place + 3])
    testing.simulate(build, seeds=2, expected=expected)


@pytest.mark.parametrize("frame", ["ROWS BETWEEN 4", "RANGE BETWEEN INTERVAL '5' SECONDS"])
def test_over_by_time_goes_on_after_faults(frame: str) -> None:
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
