"""Functions of Rheos within expressions: they are read as trees; other functions are not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import polars as pl
import pytest

import rheos as rh
from rheos.core.graph.expression_trees import expression_of, tree_of
from rheos.core.graph.row_functions import of_columns


def added(columns: Sequence[pl.Series], more: int = 0) -> pl.Series:
    one, other = columns
    return one + other + more


FRAME = pl.DataFrame({"a": [1, 2], "b": [10, 20]})
SUM = of_columns(partial(added, more=1), [pl.col("a"), pl.col("b") * 2], pl.Int64())


def test_an_expression_and_its_tree_compute_the_same() -> None:
    tree = tree_of(SUM)
    assert tree is not None
    assert FRAME.select(expression_of(tree)).to_series().to_list() == [22, 43]


def test_functions_of_others_have_no_tree() -> None:
    assert tree_of(pl.map_batches(["a", "b"], added, return_dtype=pl.Int64())) is None
    assert tree_of(pl.col("a").map_batches(lambda column: column, return_dtype=pl.Int64())) is None


def test_streams_compute_it_and_refuse_arguments_that_need_other_rows() -> None:
    env = rh.Environment(runtime="simulated")
    rows = env.from_source(rh.collection(FRAME.to_arrow()))
    rows.select(SUM.alias("sum")).collect("sums")
    assert env.execute("sums").collected["sums"].to_pylist() == [{"sum": 22}, {"sum": 43}]
    over_all = of_columns(added, [pl.col("a"), pl.col("b").cum_sum()], pl.Int64())
    with pytest.raises(rh.ProgramError, match="depends on other rows, so its result would differ"):
        rows.select(over_all.alias("sum"))
