"""State that is merged by address equals that which Polars merges."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from rheos.core import aggregates as agg
from rheos.core.operators.window import address_merging
from rheos.core.operators.window.address_merging import foremost_candidates, merged_by_address
from rheos.core.operators.window.aggregate_tables import Tables
from rheos.core.operators.window.frames import in_order
from rheos.core.operators.window.grid import WindowGrid

REDUCES = {"rows": np.add, "max.v": np.maximum, "min.n": np.minimum, "exact.v.0": np.add}
MERGES = [pl.col("rows").sum(), pl.col("max.v").max(), pl.col("min.n").min(), pl.col("exact.v.0").sum()]
AGGREGATES = {
    "rows": agg.count(),
    "values": agg.count("v"),
    "total": agg.sum("v"),
    "whole": agg.sum("n"),
    "least": agg.min("n"),
    "most": agg.max("v"),
}
# A type, and what keys begin at: near zero they are addresses as they are.
KEYS = ((pl.Int8, 0), (pl.Int8, -50), (pl.Int64, 9000), (pl.UInt32, 27))


def frame(
    rows: list[tuple[int, int, float, int]], kind: type[pl.DataType], least: int = 0
) -> pl.DataFrame:
    schema: dict[str, type[pl.DataType]] = {
        "k": kind,
        "rows": pl.Int64,
        "max.v": pl.Float64,
        "min.n": pl.Int32,
    }
    from_least = [(key + least, *values) for key, *values in rows]
    return pl.DataFrame(from_least, schema=schema, orient="row")


rows = st.lists(
    st.tuples(
        st.integers(0, 100),
        st.integers(0, 9),
        st.floats(allow_nan=False),
        st.integers(-(2**31), 2**31 - 1),
    ),
    max_size=8,
)


@settings(max_examples=40)
@given(of=st.lists(rows, min_size=1, max_size=4), keys=st.sampled_from(KEYS), limbs=st.integers(0, 4))
def test_the_rows_are_those_of_polars(
    of: list[list[tuple[int, int, float, int]]], keys: tuple[type[pl.DataType], int], limbs: int
) -> None:
    frames = [frame(each, *keys) for each in of]
    # Not every frame has every limb.
    with_limb = [
        each.with_columns(pl.col("rows").alias("exact.v.0")) if number < limbs or not number else each
        for number, each in enumerate(frames)
    ]
    merged = merged_by_address(with_limb, "k", REDUCES)
    if not any(of):
        assert merged is None
        return
    assert merged is not None
    expected = pl.concat(with_limb, how="diagonal").group_by("k").agg(MERGES).sort("k")
    assert merged.equals(expected.select(merged.columns))
    assert merged.schema == expected.select(merged.columns).schema


@pytest.mark.parametrize(
    "left",
    [
        frame([(1, 1, math.nan, 1)], pl.Int64),
        frame([(1, 1, 1.0, 1)], pl.Int64).with_columns(pl.lit(None, pl.Int32).alias("min.n")),
        frame([(1, 1, 1.0, 1)], pl.Int64).with_columns(pl.col("k").cast(pl.String)),
        frame([(1, 1, 1.0, 1)], pl.Int64).with_columns(pl.lit("b").alias("max.v")),
        frame([(1, 1, 1.0, 1), (10**12, 1, 1.0, 1)], pl.Int64),
    ],
    ids=["NaN", "null", "keys of text", "texts", "keys far apart"],
)
def test_other_types_are_left_to_polars(left: pl.DataFrame) -> None:
    assert merged_by_address([left], "k", REDUCES) is None


inputs = st.lists(
    st.tuples(
        st.integers(-5, 9),
        st.none() | st.integers(-3, 3) | st.sampled_from([2**62, -(2**62)]),
        st.none() | st.sampled_from([0.1, -0.0, 1e200, -1e200, math.nan, math.inf]),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=60)
@given(of=inputs)
def test_the_state_of_rows_is_the_same_by_address_and_by_groups(
    of: list[tuple[int, int | None, float | None]],
) -> None:
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("v", pa.float64())])
    totals = Tables(["key.k"], AGGREGATES, schema, WindowGrid(10, 10, 0, 10)).totals
    kinds = {"key.k": pl.Int64, "in.n": pl.Int64, "in.v": pl.Float64}
    rows = pl.DataFrame(of, schema=kinds, orient="row")
    grouped = totals.partial(rows, ()).sort("key.k")
    with (
        patch.object(address_merging, "_MANY_ROWS", 1),
        patch.object(address_merging, "_FEW_OF_A_KEY", 20),
    ):
        found = totals.partial(rows, ())
    assert_frame_equal(found.select(grouped.columns).sort("key.k"), grouped)


@settings(max_examples=60)
@given(
    of=st.lists(
        st.tuples(st.integers(0, 6), st.integers(-3, 3) | st.integers(-1000, 1000)), max_size=60
    ),
    most=st.integers(1, 4),
    smallest=st.booleans(),
    kind=st.sampled_from((pl.Int64, pl.Int16, pl.Float64)),
    least=st.sampled_from((0, -50)),
)
def test_candidates_contain_the_first_rows_with_their_ties(
    of: list[tuple[int, int]], most: int, smallest: bool, kind: type[pl.DataType], least: int
) -> None:
    rows = [(key + least, value, number) for number, (key, value) in enumerate(of)]
    whole = pl.DataFrame(rows, {"k": pl.Int16, "v": kind, "number": pl.Int64}, orient="row")
    with patch.object(address_merging, "_MANY_ROWS", 1), patch.object(address_merging, "_GAIN", 0):
        candidates = foremost_candidates(whole, "k", "v", most, smallest=smallest)

    def first(frame: pl.DataFrame) -> pl.DataFrame:
        ranks = pl.col("v").rank("min", descending=not smallest).over("k")
        return frame.filter(ranks <= most)

    assert_frame_equal(first(candidates), first(whole))


def test_candidates_leave_most_rows_out() -> None:
    rows = address_merging._MANY_ROWS
    numbers = np.arange(rows)
    whole = pl.DataFrame({"k": numbers % 100, "v": numbers})
    assert foremost_candidates(whole, "k", "v", 3, smallest=False)["v"].to_list() == [
        *range(rows - 300, rows)
    ]
    assert foremost_candidates(whole, "k", "v", 100, smallest=False).height == rows
    few = whole.with_columns(k=pl.col("k") * 10**9)
    assert foremost_candidates(few, "k", "v", 3, smallest=False).height == rows


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(-2, 2), st.floats(allow_nan=False, width=16)), max_size=40),
    st.lists(st.booleans(), min_size=2, max_size=2),
)
def test_rows_are_sorted_as_by_polars(of: list[tuple[int, float]], falling: list[bool]) -> None:
    whole = pl.DataFrame(of, {"a": pl.Int64, "b": pl.Float64}, orient="row").with_row_index("place")
    for by in (["a", "b"], ["b", "a"]):
        expected = whole.sort(by, descending=falling, maintain_order=True)
        assert_frame_equal(in_order(whole, by, falling), expected)
