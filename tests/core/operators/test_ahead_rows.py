"""`max_ahead`: rows far ahead of their split are rejected, depending only on the data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rheos as rh
from rheos.core.errors import ProgramError
from rheos.core.operators.ahead_rows import _AGREE, AHEAD, AheadRows
from rheos.testing import simulate

BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)
FAR = datetime(2262, 1, 1, tzinfo=UTC)
FIELDS = [("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))]


def by_hand(times: list[int], max_ahead: int) -> list[bool]:
    """Return which rows of a split are accepted, by the rule, row by row."""
    latest, run, found = times[0], [], []
    for time in times:
        if time <= latest + max_ahead:
            latest, run = max(latest, time), []
            found.append(True)
            continue
        run = [*run, time] if run and abs(time - run[0]) <= max_ahead else [time]
        found.append(len(run) > _AGREE)
        if found[-1]:
            latest, run = time, []
    return found


times = st.lists(
    st.one_of(st.integers(0, 60), st.integers(0, 400), st.sampled_from([10**12, 10**12 + 5])),
    min_size=1,
    max_size=40,
)


@settings(max_examples=150)
@given(times, st.integers(1, 50), st.integers(0, 3), st.integers(1, 7), st.data())
def test_acceptance_depends_only_on_the_rows_of_the_split(
    given_times: list[int], max_ahead: int, moves: int, size: int, data: st.DataObject
) -> None:
    # Now and then a split moves on: all of its rows are far ahead.
    moved = [t + 10**6 * (n // (2 * _AGREE)) for n, t in enumerate(given_times * (1 + 3 * moves))]
    ahead, found = AheadRows(max_ahead), []
    for begin in range(0, len(moved), size):
        piece = moved[begin : begin + size]
        counts = ahead.counting("s", np.array(piece))
        found += [True] * len(piece) if counts is None else counts.tolist()
        ahead.counting("other", np.array([7]))
        if data.draw(st.booleans()):
            part = ahead.part(["s", "other"])
            ahead = AheadRows(max_ahead)
            ahead.restore({AHEAD: [part.write()]})  # type: ignore[dict-item]
    assert found == by_hand(moved, max_ahead)


def test_rows_are_accepted_again_once_the_split_has_advanced() -> None:
    ahead = AheadRows(10)
    assert ahead.counting("s", np.arange(100)) is None
    counts = ahead.counting("s", np.arange(5_000, 5_300))
    assert counts is not None
    # They agree within ten: each run of eleven begins anew, and none is long enough.
    assert not counts.any()
    counts = ahead.counting("s", np.full(300, 9_000))
    assert counts is not None
    assert counts.tolist() == [False] * _AGREE + [True] * (300 - _AGREE)


def rows(count: int) -> list[dict[str, Any]]:
    made = [{"n": n, "at": BEGIN + timedelta(seconds=n)} for n in range(count)]
    made[7]["at"] = FAR
    made[20]["at"] = FAR + timedelta(days=1)
    return made


def counted(env: rh.Environment, source: rh.Source) -> Mapping[str, rh.DataStream]:
    watermark = rh.Watermark.bounded_out_of_orderness("1s", on="at", max_ahead="1h")
    stream = env.from_source(source, watermark=watermark)
    windows = stream.window_all(rh.Tumbling("10s")).aggregate(n=rh.agg.count())
    rejected = stream.side_output("rejected")
    return {"windows": windows, "late": windows.side_output("late"), "rejected": rejected}


def collected(env: rh.Environment, source: rh.Source) -> None:
    for name, stream in counted(env, source).items():
        stream.collect(name)


def test_rows_far_ahead_make_no_other_row_late() -> None:
    env = rh.Environment(1, runtime="simulated")
    collected(env, rh.collection(rows(40)))
    result = env.execute("far ahead")
    assert sorted(result.collected["windows"].column("n").to_pylist()) == [9, 9, 10, 10]
    assert result.collected["late"].num_rows == 0
    rejected = result.collected["rejected"].to_pylist()
    assert [row["error"] for row in rejected] == [
        "its event time 2262-01-01T00:00:00.000Z is more than 1h ahead of its split '0'",
        "its event time 2262-01-02T00:00:00.000Z is more than 1h ahead of its split '0'",
    ]
    assert "'n': 7" in rejected[0]["record"]
    [source] = [of for of in result.status.operators if "collection" in of.name]
    assert source.counters[AHEAD] == source.counters["skipped"] == 2


def test_rejected_rows_of_files_have_their_line(tmp_path: Path) -> None:
    lines = [json.dumps({"n": row["n"], "at": row["at"].isoformat()}) for row in rows(40)]
    (tmp_path / "a.jsonl").write_text("\n".join(["{bad", *lines]) + "\n")
    env = rh.Environment(1, runtime="simulated")
    schema = pa.schema(FIELDS)
    collected(env, rh.files.source(str(tmp_path), schema=schema, on_error="skip"))
    rejected = env.execute("files").collected["rejected"].to_pylist()
    assert [row["line"] for row in rejected if "ahead" in row["error"]] == [9, 22]
    assert len(rejected) == 3


def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
    source = rh.generator(_block, count=400, splits=2, schema=pa.schema(FIELDS), block_rows=8)
    return counted(env, source)


def test_a_replay_rejects_the_same_rows() -> None:
    # Seeds draw settings and faults, and must agree in what every sink has in the end.
    found = simulate(build, seeds=3)
    assert len(found.rows["rejected"]) == 2 * len([n for n in range(200) if n % 13 == 6])


def _block(block: rh.Block) -> pa.RecordBatch:
    numbers = range(block.start, block.start + block.rows)
    at = [FAR if n % 13 == 6 else BEGIN + timedelta(seconds=n) for n in numbers]
    return pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(at, FIELDS[1][1])], ["n", "at"])


@pytest.mark.parametrize(
    ("watermark", "says"),
    [
        (rh.Watermark.monotonic(on="at", max_ahead="0s"), "max_ahead must be greater than 0, not"),
        (rh.Watermark.monotonic(on="at", max_ahead="1mo"), "not a duration"),
    ],
)
def test_invalid_bounds_are_refused(watermark: rh.Watermark, says: str) -> None:
    env = rh.Environment(1, runtime="simulated")
    with pytest.raises(ProgramError, match=says):
        env.from_source(rh.collection(rows(40)), watermark=watermark)


def test_event_time_downstream_of_a_source_accepts_no_bound() -> None:
    env = rh.Environment(1, runtime="simulated")
    stream = env.from_source(rh.collection(rows(40)))
    with pytest.raises(ProgramError, match=r"set max_ahead= in env\.from_source"):
        stream.with_event_time(rh.Watermark.monotonic(on="at", max_ahead="1h"))
