"""Rows that wait to be combined are included wherever they are read."""

from __future__ import annotations

import numpy as np
import polars as pl

from rheos.core.graph.windows import Tumbling
from rheos.core.operators.window.contract import PaneAssignment
from rheos.core.operators.window.pending_rows import PendingRows
from tests.core.operators.rows import SCHEMA
from tests.core.operators.window.harness import Bench
from tests.core.operators.window.test_timelines import COUNT, seen


def of_pane(start: int, end: int) -> PaneAssignment:
    return PaneAssignment((np.array([start]), np.array([end])), None, None)


def taken(waiting: PendingRows, upto: int | None = None) -> list[tuple[list[int], list[list[int]]]]:
    return [
        (rows["k"].to_list(), [pane.tolist() for pane in of.panes]) for rows, of in waiting.take(upto)
    ]


def of_panes(numbers: list[int], slices: list[int]) -> tuple[pl.DataFrame, PaneAssignment]:
    ends = [start + 10 for start in slices]
    rows = pl.DataFrame({"k": numbers, "slice_start": slices, "first_window_end": ends})
    return rows, PaneAssignment((np.array(slices), np.array(ends)), None, None)


def test_rows_of_one_pane_are_combined() -> None:
    waiting = PendingRows(1 << 20)
    for n in range(3):
        assert not waiting.add(pl.DataFrame({"k": [n]}), of_pane(0, 10))
    waiting.add(*of_panes([7, 8], [0, 10]))
    waiting.add(pl.DataFrame({"k": [9]}), of_pane(10, 20))
    assert waiting.due(10)
    assert not waiting.due(9)
    assert taken(waiting) == [([0, 1, 2, 7], [[0], [10]]), ([8, 9], [[10], [20]])]
    assert not waiting.due(100)
    assert waiting.memory_bytes == 0


def test_rows_that_are_not_due_remain_buffered() -> None:
    waiting = PendingRows(1 << 20)
    waiting.add(*of_panes([1, 2, 3], [0, 10, 20]))
    assert taken(waiting, 20) == [([1], [[0], [10]]), ([2], [[10], [20]])]
    assert not waiting.due(29)
    assert waiting.due(30)
    assert taken(waiting, 20) == []
    assert taken(waiting, 30) == [([3], [[20], [30]])]


def test_rows_of_frequently_changing_panes_are_combined() -> None:
    waiting = PendingRows(1 << 20)
    waiting.add(pl.DataFrame({"k": [0]}), of_pane(0, 10))
    waiting.add(*of_panes([1, 2, 3, 4, 5], [0, 10, 0, 10, 0]))
    assert taken(waiting, 10) == [
        ([0], [[0], [10]]),
        ([1, 2, 3, 4, 5], [[0, 10, 0, 10, 0], [10, 20, 10, 20, 10]]),
    ]


def test_the_buffer_is_bounded_by_the_memory_for_state() -> None:
    assert PendingRows(0).add(pl.DataFrame({"k": [1]}), of_pane(0, 10))
    few = PendingRows(1024)
    assert [few.add(pl.DataFrame({"k": [n]}), of_pane(0, 10)) for n in range(2)] == [False, True]


def test_buffered_rows_are_in_a_snapshot() -> None:
    bench = Bench.of_aggregates(Tumbling("10ms"), COUNT, SCHEMA)
    bench.rows([{"k": "a", "v": 1, "ts": 1}])
    (operator,) = bench.subtasks
    assert operator.state_bytes > 0
    bench.restart(2)
    bench.rows([{"k": "a", "v": 1, "ts": 2}, {"k": "b", "v": 1, "ts": 3}])
    assert seen(bench.end()) == [("a", 0, 10, 2), ("b", 0, 10, 1)]
