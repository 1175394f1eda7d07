"""Results over the rows of an updating table equal those of each frame alone, whatever changes."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rheos as rh
from rheos.core.operators.over import resumed_frames
from rheos.core.operators.over.moving_frames import FrameRow, FrameSpec, MovingFrames

FRAMES = {
    "ROWS UNBOUNDED PRECEDING": FrameSpec(True, None),
    "RANGE UNBOUNDED PRECEDING": FrameSpec(False, None),
    "ROWS 2 PRECEDING": FrameSpec(True, 2),
    "RANGE 2 PRECEDING": FrameSpec(False, 2),
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING": FrameSpec(True, 1, following=1),
}
SCHEMA = pa.schema(
    {"k": pa.int64(), "id": pa.int64(), "at": pa.int64(), "v": pa.int64(), "op": pa.string()}
)
CHANGES = st.lists(
    st.tuples(
        st.integers(0, 5),
        # Mostly at the end of the order.
        st.integers(0, 9) | st.integers(8, 9),
        st.integers(-5, 5),
        st.sampled_from(("insert", "insert", "insert", "delete")),
    ),
    min_size=1,
    max_size=25,
)


def over(changes: list[tuple[int, int, int, str]], frame: str) -> list[dict[str, Any]]:
    """Return the changes of a query over a table with these changes."""
    env = rh.Environment(1, runtime="simulated")
    rows = [dict(zip(SCHEMA.names, (0, *change), strict=True)) for change in changes]
    table = env.from_source(rh.collection(pa.Table.from_pylist(rows, SCHEMA)))
    env.register("t", table.upserts(key=("k", "id"), op="op"))
    query = f"""
        SELECT k, id, at, v, SUM(v) OVER w AS total, MIN(v) OVER w AS least FROM t
        WINDOW w AS (PARTITION BY k ORDER BY at {frame})
    """
    env.sql(query).collect("out")
    found: list[dict[str, Any]] = env.execute("over").collected["out"].to_pylist()
    return found


def folded(changes: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return the table that changes leave. Each change must retract what the table contains."""
    table: dict[int, dict[str, Any]] = {}
    for change in changes:
        op = change.pop("op")
        if op in ("update_before", "delete"):
            assert table.pop(change["id"]) == change
        else:
            assert change["id"] not in table
            table[change["id"]] = change
    return table


@settings(max_examples=20, deadline=None)
@given(CHANGES, st.sampled_from([*FRAMES]), st.sampled_from((1, 2, 64)))
def test_results_equal_those_of_each_frame_alone(
    changes: list[tuple[int, int, int, str]], frame: str, every: int
) -> None:
    with patch.object(resumed_frames, "STATES_EVERY", every):
        table = folded(over(changes, frame))
    left: dict[int, tuple[int, int, int]] = {}
    for number, at, value, op in changes:
        left.pop(number, None)
        if op == "insert":
            left[number] = (at, number, value)
    assert {(row["at"], row["id"], row["v"]) for row in table.values()} == {*left.values()}
    rows = sorted(table.values(), key=lambda row: (row["at"], row["k"], row["id"], row["v"]))
    for place, row in enumerate(rows):
        inside = [rows[at]["v"] for at in _inside(rows, place, FRAMES[frame])]
        assert (row["total"], row["least"]) == (sum(inside), min(inside))


def _inside(rows: list[dict[str, Any]], place: int, frame: FrameSpec) -> list[int]:
    """Return the indices of the rows in the frame of a row, by definition."""
    if frame.by_rows:
        begin = 0 if frame.preceding is None else max(0, place - frame.preceding)
        return [*range(begin, min(place + 1 + (frame.following or 0), len(rows)))]
    here = rows[place]["at"]
    least = float("-inf") if frame.preceding is None else here - frame.preceding
    return [at for at, row in enumerate(rows) if least <= row["at"] <= here]


def added_rows(changes: list[tuple[int, int, int, str]], frame: str) -> int:
    """Return the number of rows that a query over a table with these changes adds to frames."""
    number = 0
    add = MovingFrames.add

    def counted(frames: MovingFrames, rows: list[FrameRow], **more: Any) -> Any:
        nonlocal number
        number += len(rows)
        return add(frames, rows, **more)

    with patch.object(MovingFrames, "add", counted):
        over(changes, frame)
    return number


@pytest.mark.parametrize(
    "frame", ["ROWS UNBOUNDED PRECEDING", "RANGE UNBOUNDED PRECEDING", "ROWS 50 PRECEDING"]
)
def test_an_appended_row_costs_one_row_whatever_the_length(frame: str) -> None:
    assert added_rows([(at, at, 1, "insert") for at in range(300)], frame) == 300


def test_a_changed_last_row_costs_few_rows() -> None:
    rows = [(at, at, 1, "insert") for at in range(300)]
    again = [(299, 299, number, "insert") for number in range(2, 102)]
    added = added_rows([*rows, *again], "ROWS UNBOUNDED PRECEDING")
    # The first change computes all rows again, and stores states on the way.
    assert added <= 300 + 300 + 100 * resumed_frames.STATES_EVERY
