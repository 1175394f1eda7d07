"""Aggregates over the rows of windows: built-in ones, and any Polars expression that reduces rows to a
value."""

from __future__ import annotations

import statistics
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos import col
from rheos.core.aggregates import exact_sum
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.operators.shapes import state_shapes
from rheos.core.protocol.elements import WatermarkMark
from rheos.ops.savepoints.layouts import layout_of
from rheos.testing import OperatorExample, check_example

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("s", pa.string()), ("at", pa.int64())])


def row(k: str, v: int | None, s: str | None, at: int) -> dict[str, Any]:
    return {"k": k, "v": v, "s": s, "at": at}


SCRIPT = [
    row("a", 1, "x", 3),
    row("a", 5, "y", 1),
    WatermarkMark(2),
    row("b", None, None, 4),
    row("a", 4, None, 3),
    WatermarkMark(9),
    row("a", 9, "q", 14),
]


def windowed(rows: rh.DataStream) -> rh.DataStream:
    return (
        rows.key_by("k")
        .window(rh.Tumbling("10ms"))
        .aggregate(
            median=col("v").quantile(0.5),
            dear=col("s").sort_by("v").last(),
            of=col("k").first(),
            rows=pl.len(),
            first=rh.agg.first("v"),
            last=rh.agg.last("v"),
            notes=rh.agg.collect("s"),
            most=rh.agg.top_k("v", 2, of="s"),
            variance=rh.agg.variance("v"),
        )
    )


def test_aggregates_over_rows_work_in_windows() -> None:
    came = check_example(OperatorExample(windowed, SCHEMA, SCRIPT, on="at"))["out"]
    shown = [tuple(out.values())[3:-1] for out in came]
    assert shown == [
        (4.0, "y", "a", 3, 5, 4, ["y", "x"], [{"s": "y"}, {"s": None}], 13 / 3),
        (None, None, "b", 1, None, None, [], [], None),
        (9.0, "q", "a", 1, 9, 9, ["q"], [{"s": "q"}], None),
    ]


def test_aggregates_over_rows_work_as_running_aggregates() -> None:
    def running(rows: rh.DataStream) -> rh.DataStream:
        return rows.key_by("k").running(var=rh.agg.variance("v"), sd=rh.agg.stddev("v", ddof=0))

    came = check_example(OperatorExample(running, SCHEMA, SCRIPT[:5]))["out"]
    a = [(out["v"], out["var"], out["sd"]) for out in came if out["k"] == "a"]
    assert a == [(1, None, 0.0), (5, 8.0, 2.0), (4, 4.333333333333334, np.sqrt(26 / 9))]


@pytest.mark.parametrize("ddof", [0, 1])
def test_a_variance_is_exact_for_rows_in_any_grouping(ddof: int) -> None:
    draw = Random(7)
    for case in range(60):
        around = draw.choice([0.0, 1.0, 1e9, 1e15, 1e-5, -3e40])
        values: Any = [around + draw.gauss(0, draw.choice([1e-3, 1, 1e6])) for _ in range(12)]
        if case % 3 == 0:
            values = [draw.randrange(-(2**63), 2**63) for _ in range(12)]
        array = np.array(values)
        whole = array.dtype.kind == "i"
        sums = exact_sum.decompose_integers(array) if whole else exact_sum.decompose(array)
        squares = (exact_sum.decompose_integer_squares if whole else exact_sum.decompose_squares)(array)
        added = [{bin: limb.sum(keepdims=True) for bin, limb in of.items()} for of in (sums, squares)]
        got = exact_sum.variances(added[0], added[1], np.array([len(values)]), ddof)
        exactly = map(Fraction, values)
        wanted = statistics.variance(exactly) if ddof else statistics.pvariance(exactly)
        assert got.tolist() == [float(wanted)]


def test_a_variance_of_non_finite_values_is_nan() -> None:
    values = np.array([1.0, np.inf, 3.0])
    sums, squares = exact_sum.decompose(values), exact_sum.decompose_squares(values)
    assert np.isnan(exact_sum.variances(sums, squares, np.array([1, 1, 1]), 0)).tolist() == [
        False,
        True,
        False,
    ]


def test_a_variance_near_the_largest_float_is_a_number() -> None:
    values = np.array([1e153, -1e153] * 4)
    sums, squares = (
        {bin: limb.sum(keepdims=True) for bin, limb in of.items()}
        for of in (exact_sum.decompose(values), exact_sum.decompose_squares(values))
    )
    assert exact_sum.variances(sums, squares, np.array([8]), 0).tolist() == [1e306]


def windows() -> rh.WindowedStream:
    env = rh.Environment(1, runtime="simulated")
    rows = env.from_source(
        rh.collection([row("a", 1, "x", 3)], schema=SCHEMA), watermark=rh.Watermark.monotonic(on="at")
    )
    return rows.key_by("k").window(rh.Tumbling("10ms"))


@pytest.mark.parametrize(
    ("expr", "error", "what"),
    [
        (col("v"), ProgramError, "does not reduce a window's rows to one value"),
        (col("v") - col("v").mean(), ProgramError, "does not reduce a window's rows to one value"),
        (pl.all().sum(), ProgramError, "expands to several columns"),
        (pl.col("v", "at").sum(), ProgramError, "expands to several columns"),
        (
            col("v").map_batches(lambda v: v, returns_scalar=True),
            ProgramError,
            "calls a Python function",
        ),
        (col("v").shuffle().first(), ProgramError, "is random"),
        (col("v").unique().first(), ProgramError, "depends on the order of the values"),
        (col("w").sum(), SchemaError, "unknown column 'w'"),
        (col("s").dt.year().max(), SchemaError, "does not fit the columns"),
        (pl.lit(None), SchemaError, "the type of .* is unknown"),
    ],
)
def test_expressions_that_do_not_reduce_are_refused_at_their_line(
    expr: pl.Expr, error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what) as raised:
        windows().aggregate(x=expr)
    assert "test_over_rows.py" in str(raised.value)


def test_an_expression_cannot_be_kept_running() -> None:
    env = rh.Environment(1, runtime="simulated")
    rows = env.from_source(rh.collection([row("a", 1, "x", 3)], schema=SCHEMA))
    with pytest.raises(ProgramError, match="\\(\\) cannot be computed as a running aggregate"):
        rows.key_by("k").running(x=col("v").max())


def test_the_rows_in_state_are_shown() -> None:
    env = rh.Environment(1, runtime="batch")
    rows = env.from_source(
        rh.collection([row("a", 1, "x", 3)], schema=SCHEMA), watermark=rh.Watermark.monotonic(on="at")
    )
    windowed(rows).collect("windows")
    (shape,) = state_shapes(
        op for chain in env.plan().chains for op in chain.operators if op.ports
    ).values()
    assert {name for name in shape if "kept" in name} == {"kept", "kept, 2 largest.v"}
    kept = pa.table(
        {"key.k": ["a"], "slice_start": [0], "first_window_end": [10]}
        | {"in.__ts": [3], "in.k": ["a"], "in.s": ["x"], "in.v": [1]}
    )
    (shown,) = layout_of("kept", shape).rows(kept).to_pylist()
    assert (shown["k"], shown["v"], shown["s"], shown["event_time"].microsecond) == ("a", 1, "x", 3000)
