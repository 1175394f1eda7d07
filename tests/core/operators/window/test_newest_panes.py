"""Panes that are merged in place have the same content as segments, whatever is added and read in
between."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from rheos.core.operators.window import newest_panes
from rheos.core.operators.window.merging import windows_of
from rheos.core.operators.window.merging_panes import EVER, MergingPanes
from rheos.core.operators.window.pane_columns import MERGING_PANE, OPEN_TO
from rheos.core.operators.window.panes import MemoryBudget

KEYS = ["key.k"]
REDUCES = {"rows": np.add, "sum.n": np.add, "max.v": np.maximum}
KINDS = {"key.k": pl.Int64, **dict.fromkeys(MERGING_PANE, pl.Int64)}
KINDS |= {"rows": pl.Int64, "sum.n": pl.Int64, "max.v": pl.Float64}
ALL = 1000


def merge(frames: Any, by: Any) -> pl.DataFrame:
    names = [name for name in REDUCES if name != "max.v"]
    sums = [pl.col(name).sum() for name in names]
    return pl.concat(frames).group_by([*KEYS, *by]).agg(*sums, pl.col("max.v").max())


def store(state_bytes: int) -> MergingPanes:
    return MergingPanes(MERGING_PANE, merge, KEYS, MemoryBudget(state_bytes), reduce_of=REDUCES.get)


def frame(rows: list[tuple[int, int, int, Any]]) -> pl.DataFrame:
    """Return rows of key, time, gap and value."""
    return pl.DataFrame(
        [(k, ts + gap, ts, ts, 1, k + ts, value) for k, ts, gap, value in rows],
        schema=KINDS,
        orient="row",
    )


def windows(panes: pl.DataFrame) -> list[str]:
    """Return windows with their state, from panes that were merged or not."""
    if not panes.height:
        return []
    found, owners = windows_of(panes, KEYS)
    state = (
        panes.with_columns(pl.Series("window", owners))
        .group_by("window")
        .agg(pl.col("rows", "sum.n").sum(), pl.col("max.v").max())
    )
    numbered = found.with_row_index("window").with_columns(pl.col("window").cast(pl.Int64))
    return sorted(map(repr, numbered.join(state, on="window").drop("window").rows()))


def everything(panes: MergingPanes) -> pl.DataFrame:
    part = panes.whole()
    frames = [] if part is None else [frame for piece in part.pieces() for frame in piece]
    return pl.concat([frame([]), *(each.select(*KINDS) for each in frames)])


ROWS = st.tuples(
    st.integers(0, 9),
    st.integers(0, 60),
    st.sampled_from([3, 10, 30]),
    st.none() | st.sampled_from([0.5, -1.0, float("nan")]) | st.floats(0, 9),
)
STEPS = st.lists(
    st.lists(ROWS, min_size=1, max_size=12)
    | st.tuples(st.sampled_from(["take", "settle", "look"]), st.integers(0, 80)),
    max_size=12,
)


@settings(max_examples=60)
@given(steps=STEPS, block=st.sampled_from([2, 4096]), state_bytes=st.sampled_from([400, 4000, 1 << 30]))
def test_the_content_of_panes_equals_the_input(steps: list[Any], block: int, state_bytes: int) -> None:
    with patch.object(newest_panes, "_BLOCK", block):
        panes, came = store(state_bytes), frame([])
        for step in steps:
            if isinstance(step, list):
                panes.add(frame(step))
                came = pl.concat([came, frame(step)])
                continue
            what, upto = step
            if what == "settle":
                panes.settle(upto)
            elif what == "take":
                taken = [f.select(*KINDS) for f in panes.take(upto).rows(None)]
                left = everything(panes)
                assert windows(pl.concat([left, *taken])) == windows(came)
                assert (left[OPEN_TO] > upto).all()
                came = left
            else:
                due = [f for f in panes.ending(EVER, upto, None) if f.height]
                assert panes.has(EVER, upto) == bool(due)
                assert all((f[OPEN_TO] <= upto).all() for f in due)
                held = everything(panes)
                assert sum(f.height for f in due) == held.filter(pl.col(OPEN_TO) <= upto).height
                keys = pl.DataFrame({"key.k": [1, 3, 5, 77]})
                of_keys = panes.of_keys(keys, None)
                if of_keys.height:
                    theirs = came.join(keys, on=KEYS, how="semi")
                    assert windows(of_keys.select(*KINDS)) == windows(theirs)
            assert windows(everything(panes)) == windows(came)
        assert windows(everything(panes)) == windows(came)


def test_a_large_sum_moves_to_segments_before_it_exceeds_64_bits() -> None:
    panes = store(1 << 30)
    large = (1 << 61) - 5
    for _ in range(3):
        panes.add(frame([(1, 5, 10, 1.0)]).with_columns(pl.lit(large).alias("sum.n")))
    held = everything(panes)
    assert sum(held["sum.n"].to_list()) == 3 * large
    assert max(held["sum.n"].to_list()) < 1 << 63


def test_keys_without_a_pane_are_forgotten() -> None:
    panes = store(1 << 30)
    with patch.object(newest_panes, "_BLOCK", 4):
        for first in range(0, 100, 10):
            panes.add(frame([(key, first, 5, 1.0) for key in range(first, first + 10)]))
            panes.drop(first + 5)
        assert panes.memory_bytes < 10_000
        assert panes.whole() is None
