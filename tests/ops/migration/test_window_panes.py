"""Each of Spark's windows becomes a pane that only this window contains."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import rheos as rh
from rheos.core.errors import InputError
from rheos.core.graph.windows import Window
from rheos.core.operators.window import merging
from rheos.core.operators.window.contract import FixedWindows, Ints
from rheos.core.operators.window.kinds import windows_of
from rheos.core.operators.window.sessions import SessionWindows
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from rheos.ops.migration.window_panes import panes_of_windows

MINUTE = 60_000


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def kind_of(window: Window) -> FixedWindows | SessionWindows:
    windows = windows_of(window)
    assert isinstance(windows, FixedWindows | SessionWindows)
    return windows


@pytest.mark.parametrize(
    ("window", "size", "every", "first"),
    [
        (rh.Tumbling("10m"), 10, 10, 0),
        (rh.Tumbling("10m", offset="3m"), 10, 10, 3),
        (rh.Sliding("10m", every="5m"), 10, 5, 0),
        (rh.Sliding("10m", every="4m", offset="1m"), 10, 4, 1),
        (rh.Sliding("2d", every="1d", zone="UTC"), 2880, 1440, 0),
    ],
    ids=str,
)
def test_only_its_own_window_contains_a_pane(window: Window, size: int, every: int, first: int) -> None:
    windows = kind_of(window)
    assert isinstance(windows, FixedWindows)
    starts = ints(*(MINUTE * (first + every * number) for number in range(-3, 4)))
    ends = starts + MINUTE * size
    slices, valids = panes_of_windows(windows, starts, ends, None)
    begin, counts = windows.due(slices, valids, MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS)
    assert counts.tolist() == [1] * len(starts)
    assert begin.tolist() == ends.tolist()
    assert windows.last_end(slices).tolist() == ends.tolist()


def test_a_session_accepts_the_rows_that_spark_would_merge() -> None:
    windows = kind_of(rh.Session("10ms"))
    panes = panes_of_windows(windows, ints(100), ints(130), ints(3))
    session = pl.DataFrame(dict(zip(windows.pane, panes, strict=True))).with_columns(key=1)
    for at, start in ((89, None), (90, 90), (110, 100), (130, 100), (131, None)):
        row = pl.DataFrame(dict(zip(windows.pane, (ints(at + 10), ints(at), ints(at)), strict=True)))
        both = pl.concat([session, row.with_columns(key=1)])
        found, _ = merging.windows_of(both, ["key"])
        assert found.height == (2 if start is None else 1)
        assert start is None or found["window_start"].to_list() == [start]


@pytest.mark.parametrize(
    ("window", "start", "end", "count"),
    [
        (rh.Tumbling("10ms"), 5, 15, None),
        (rh.Tumbling("10ms"), 0, 20, None),
        (rh.Tumbling("20ms"), 0, 10, None),
        (rh.Sliding("20ms", every="10ms"), 0, 10, None),
        (rh.Sliding("20ms", every="10ms"), 5, 25, None),
        (rh.Session("10ms"), 0, 9, None),
        (rh.Session("10ms"), 0, 11, 1),
        (rh.Session("10ms"), 0, 31, 3),
    ],
    ids=str,
)
def test_windows_that_the_job_does_not_have_are_refused(
    window: Window, start: int, end: int, count: int | None
) -> None:
    counts = None if count is None else ints(count)
    with pytest.raises(InputError, match=rf"window.* from {start} to {end} ms since the epoch"):
        panes_of_windows(kind_of(window), ints(start), ints(end), counts)


def test_there_may_be_no_windows() -> None:
    for window in (rh.Tumbling("10ms"), rh.Session("10ms")):
        windows = kind_of(window)
        panes = panes_of_windows(windows, ints(), ints(), ints())
        assert [len(pane) for pane in panes] == [0] * len(windows.pane)
