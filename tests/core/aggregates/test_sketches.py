"""Sketches: their maximum error, their bounded size, and independence of the order of rows."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.operators.shapes import state_shapes
from rheos.core.operators.window import row_tables
from rheos.core.operators.window.aggregate_tables import Tables
from rheos.core.protocol.elements import WatermarkMark
from rheos.ops.savepoints.layouts import layout_of
from rheos.testing import OperatorExample, check_example

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("x", pa.float64()), ("at", pa.int64())])


def found(rows: dict[str, Any], **aggregates: rh.agg.Agg) -> dict[str, Any]:
    """Return the aggregates over all rows."""
    env = rh.Environment(1, runtime="simulated")
    stream = env.from_source(
        rh.collection(pl.DataFrame(rows).with_columns(at=pl.int_range(pl.len()))),
        watermark=rh.Watermark.monotonic(on="at"),
    )
    stream.window_all(rh.Tumbling("1d")).aggregate(**aggregates).collect("found")
    (row,) = env.execute("sketches").collected["found"].to_pylist()
    return row


# --- different values ---------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [0.01, 0.05])
def test_a_count_of_different_values_is_within_three_errors(error: float) -> None:
    draw = np.random.default_rng(3)
    values = {
        "numbers": draw.integers(0, 30_000, 50_000),
        "texts": [f"user number {number}" for number in draw.integers(0, 20_000, 50_000)],
        "floats": draw.normal(size=50_000),
        "times": pl.Series(draw.integers(0, 10**9, 50_000)).cast(pl.Datetime("ms")),
    }
    counts = {name: rh.agg.approx_count_distinct(name, error=error) for name in values}
    about = found(values, **counts)
    for name, column in values.items():
        exact = pl.Series(column).n_unique()
        assert abs(about[name] / exact - 1) < 3 * error, name
        assert about[name] != exact, "it is a sketch"


def test_few_different_values_are_counted_exactly_and_nulls_not_at_all() -> None:
    values = {
        "few": [n % 2_000 if n % 7 else None for n in range(20_000)],
        "none": pl.Series([None] * 20_000, dtype=pl.Int64),
        "zeros": [0.0, -0.0] * 10_000,
    }
    counts = {name: rh.agg.approx_count_distinct(name) for name in values}
    assert {name: found(values, **counts)[name] for name in values} == {
        "few": 2_000,
        "none": 0,
        "zeros": 1,
    }


def test_equal_values_of_different_types_count_once() -> None:
    """Check this because a column may become wider while its state is kept."""
    values = range(40_000)
    about = [
        found({"v": pl.Series(values, dtype=kind)}, n=rh.agg.approx_count_distinct("v"))["n"]
        for kind in (pl.Int32, pl.Int64, pl.UInt32)
    ]
    assert about[0] == about[1] == about[2]


# --- quantiles ----------------------------------------------------------------------------------------

QUANTILES = [0.0, 0.001, 0.25, 0.5, 0.9, 0.999, 1.0]


@pytest.mark.parametrize("error", [0.01, 0.1])
def test_a_quantile_is_within_the_error_of_the_exact_one(error: float) -> None:
    draw = np.random.default_rng(5)
    values = {
        "wide": draw.lognormal(0, 8, 5_000) * draw.choice([-1, 1], 5_000),
        "whole": draw.integers(-50, 1_000, 5_000),
        "all equal": [7.25] * 5_000,
        "least and largest": [5e-308, 1.7e308, -1.7e308, 0.0, -0.0] * 1_000,
    }
    sketches = {name: rh.agg.approx_quantile(name, QUANTILES, error=error) for name in values}
    about = found(values, **sketches)
    for name, column in values.items():
        in_order = sorted(column)
        exact = [in_order[int(q * 4_999)] for q in QUANTILES]
        assert about[name] == pytest.approx(exact, rel=error * 1.000001, abs=0), name


def test_nan_is_greater_than_all_numbers() -> None:
    values = {"x": [float("nan"), float("inf"), 1.0, float("-inf"), None]}
    about = found(values, x=rh.agg.approx_quantile("x", [0, 0.4, 0.7, 1]))["x"]
    assert about[0] == pytest.approx(-1.7976931348623157e308, rel=0.0101)
    assert about[1] == pytest.approx(1, rel=0.0101)
    assert about[2] == pytest.approx(1.7976931348623157e308, rel=0.0101)
    assert math.isnan(about[3])
    assert found({"x": pl.Series([None], dtype=pl.Float64)}, x=rh.agg.approx_quantile("x", 0.5)) == {
        **found({"x": [1.0]}, x=rh.agg.count()),
        "x": None,
    }


# --- as state -----------------------------------------------------------------------------------------


def windowed(rows: rh.DataStream) -> rh.DataStream:
    return (
        rows.key_by("k")
        .window(rh.Tumbling("10ms"))
        .aggregate(
            about=rh.agg.approx_count_distinct("v", error=0.3),
            ends=rh.agg.approx_quantile("x", [0.0, 1.0], error=0.1),
            exact=rh.agg.count_distinct("v"),
        )
    )


def script() -> list[Any]:
    draw = Random(8)
    rows: list[Any] = [
        {"k": "ab"[n == 11], "v": draw.randrange(100), "x": draw.uniform(-9, 99), "at": n // 2}
        for n in range(19)
    ]
    return [*rows[:14], WatermarkMark(2), *rows[14:]]


def test_sketches_work_in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check this with rows dropped from each merge that are not needed, as in large state."""
    monkeypatch.setattr(row_tables, "_WORTH_ROWS", 1)
    came = check_example(OperatorExample(windowed, SCHEMA, script(), on="at"))["out"]
    many, few = sorted(came, key=lambda row: row["k"])
    values = [row["x"] for row in script() if isinstance(row, dict) and row["k"] == "a"]
    assert many["ends"] == pytest.approx([min(values), max(values)], rel=0.1001)
    assert many["exact"] > 14
    assert 0.5 < many["about"] / many["exact"] < 2
    assert few["about"] == few["exact"] == 1


def test_state_is_bounded_by_the_sketch() -> None:
    kept = rh.agg.approx_count_distinct("v", error=0.05)
    schema = pa.schema([("v", pa.int64())])

    class OneWindow:
        pane = ("pane",)
        window = ("pane",)

    made = Tables([], {"about": kept, "x": rh.agg.approx_quantile("v", 0.5)}, schema, OneWindow())
    hashes, counts = made.others
    states: list[list[pl.DataFrame]] = [[], []]
    for number in range(20):
        values = pl.int_range(number * 5_000, (number + 1) * 5_000, eager=True)
        rows = pl.DataFrame({"pane": pl.Series([0] * 5_000), "in.v": values})
        for table, state in zip(made.others, states, strict=True):
            state[:] = [table.merge([*state, table.partial(rows, ("pane",))], ("pane",))]
    # 402 hashes, and what is not worth a look; 0, and the buckets up to 100,000 that have a number.
    assert states[0][0].height < (1 << 14)
    width = math.log(1.01 / 0.99)
    assert states[1][0].height == 1 + len(
        {math.ceil(round(math.log(number) / width, 9)) for number in range(1, 100_000)}
    )
    assert states[1][0]["count"].sum() == 100_000
    assert hashes.finish(states[0][0])["about"][0] == pytest.approx(100_000, rel=0.15)
    assert counts.finish(states[1][0])["x"][0] == pytest.approx(50_000, rel=0.0101)


def test_a_savepoint_shows_hashes_and_counted_buckets() -> None:
    env = rh.Environment(1, runtime="batch")
    rows = env.from_source(
        rh.collection(script()[:1], schema=SCHEMA), watermark=rh.Watermark.monotonic(on="at")
    )
    windowed(rows).uid("windows").collect("windows")
    (head,) = [op for chain in env.plan().chains for op in chain.operators if op.id == "windows"]
    shapes = state_shapes([head])[head.id]
    assert [name for name in shapes if "." in name] == [
        "hashes, 14 least.v",
        "distinct.v",
        "buckets of 0.1.x",
    ]
    pane = {"key.k": ["a", "a"], "slice_start": [0, 0], "first_window_end": [5, 5]}
    stored = pa.table({**pane, "value": [2_000_009, 2_000_003], "count": [4, 1]})
    (shown,) = layout_of("buckets of 0.1.x", shapes).rows(stored).to_pylist()
    assert (shown["k"], shown["values"], shown["counts"]) == ("a", [2_000_003, 2_000_009], [1, 4])
    stored = pa.table({**pane, "value": [30, 20]})
    (shown,) = layout_of("hashes, 14 least.v", shapes).rows(stored).to_pylist()
    assert shown["values"] == [20, 30]


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: rh.agg.approx_count_distinct("v", error=0), "error=0 is not between 0.001 and 0.3"),
        (lambda: rh.agg.approx_quantile("v", 0.5, error=1), "error=1 is not between 0.001 and 0.3"),
        (lambda: rh.agg.approx_quantile("v", 1.5), "between 0 and 1, not 1.5"),
        (lambda: rh.agg.approx_quantile("v", [0.5, "x"]), "a quantile must be between 0 and 1, not"),
        (lambda: rh.agg.approx_quantile("v", []), "a quantile must be between 0 and 1, not"),
    ],
)
def test_invalid_sketches_are_refused(wrong: Any, says: str) -> None:
    with pytest.raises(ProgramError, match=says):
        wrong()


def test_sketches_need_windows_and_quantiles_need_numbers() -> None:
    env = rh.Environment(1)
    keyed = env.from_source(rh.collection(script()[:1], schema=SCHEMA)).key_by("k")
    with pytest.raises(ProgramError, match="approx_count_distinct"):
        keyed.running(n=rh.agg.approx_count_distinct("v"))
    with pytest.raises(SchemaError, match="needs a number"):
        keyed.window(rh.CountTumbling(2)).aggregate(n=rh.agg.approx_quantile("k", 0.5))
