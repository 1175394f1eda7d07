"""Rows that wait to be combined: nothing is missing where they are asked for."""

from __future__ import annotations

import numpy as np
import polars as pl

from rheos.graph.windows import Tumbling
from rheos.operators.window.contract import Assigned
from rheos.operators.window.waiting import WaitingRows
from tests.operators.rows import SCHEMA
from tests.operators.window.harness import Bench
from tests.operators.window.test_stories import COUNT, seen


def of_pane(start: int, end: int) -> Assigned:
    return Assigned((np.array([start]), np.array([end])), None, None)


def test_rows_of_one_pane_come_together_and_the_others_with_their_panes() -> None:
    waiting = WaitingRows(1 << 20)
    for n in range(3):
        assert not waiting.add(pl.DataFrame({"k": [n]}), of_pane(0, 10))
    mixed = pl.DataFrame({"k": [7, 8], "slice_start": [0, 10], "first_window_end": [10, 20]})
    panes = mixed["slice_start"].to_numpy(), mixed["first_window_end"].to_numpy()
    waiting.add(mixed, Assigned(panes, None, None))
    waiting.add(pl.DataFrame({"k": [9]}), of_pane(10, 20))
    assert waiting.due(10)
    assert not waiting.due(9)
    taken = [(rows["k"].to_list(), [pane.tolist() for pane in of.panes]) for rows, of in waiting.take()]
    assert taken == [([0, 1, 2], [[0], [10]]), ([7, 8, 9], [[0, 10, 10], [10, 20, 20]])]
    assert not waiting.due(100)
    assert waiting.memory_bytes == 0


def test_as_many_wait_as_memory_for_state_allows() -> None:
    assert WaitingRows(0).add(pl.DataFrame({"k": [1]}), of_pane(0, 10))
    few = WaitingRows(1024)
    assert [few.add(pl.DataFrame({"k": [n]}), of_pane(0, 10)) for n in range(2)] == [False, True]


def test_what_waits_is_part_of_a_snapshot() -> None:
    bench = Bench.of_aggregates(Tumbling("10ms"), COUNT, SCHEMA)
    bench.rows([{"k": "a", "v": 1, "ts": 1}])
    (operator,) = bench.subtasks
    assert operator.state_bytes > 0
    bench.restart(2)
    bench.rows([{"k": "a", "v": 1, "ts": 2}, {"k": "b", "v": 1, "ts": 3}])
    assert seen(bench.end()) == [("a", 0, 10, 2), ("b", 0, 10, 1)]
