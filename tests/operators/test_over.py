"""Aggregates over frames: the same as of each frame by itself, however the rows come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rheos as rh
from rheos import testing
from rheos.operators.over.frames import Fold, FrameRow, FrameSpec, Kept, over

FOLDS = (*Fold,)
VALUES = st.one_of(st.none(), st.integers(-5, 5))
ROWS = st.lists(st.tuples(st.integers(0, 12), VALUES), max_size=15)


def frame_of(rows: list[FrameRow], place: int, frame: FrameSpec) -> list[Any]:
    """The values in the frame of a row, as it is defined."""
    if frame.by_rows:
        begin = 0 if frame.preceding is None else max(0, place - frame.preceding)
        return [row.values[0] for row in rows[begin : place + 1]]
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
        case Fold.BEFORE:
            return values[0] if len(values) == (frame.preceding or 0) + 1 else None


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

    by_rows, expected = frame.startswith("ROWS"), []
    rows = [(n % 3, _at(n), n) for n in range(150)]
    for user, at, n in rows:
        mine = sorted((t, m) for u, t, m in rows if u == user)
        last = [(t, m) for t, m in mine if at - 5000 <= t <= at]
        if by_rows:
            last = mine[: mine.index((at, n)) + 1][-5:]
        expected.append({"user": user, "n": n, "total": sum(m for _, m in last)})
    testing.simulate(build, seeds=3, expected=expected)
