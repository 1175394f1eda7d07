"""Window joins: the pairs of each key and window, and rows without a partner there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

import rheos as rh
from rheos.core.errors import UserFunctionError
from rheos.core.operators.joins.window_join import _pairs
from rheos.core.operators.late_rows import LATE_OF_TWO
from rheos.core.protocol.elements import TS, WatermarkMark
from rheos.testing import OperatorExample, Right, check_example, replay
from tests.core.operators.joins.oracle import LEFT, RIGHT, InWindow, drawn_script, window_joined


@pytest.mark.parametrize(
    ("how", "window", "size", "every", "keys"),
    [
        ("full", rh.Tumbling("50ms"), 50, 50, 3),
        pytest.param("left", rh.Sliding("40ms", every="20ms"), 40, 20, 2, marks=pytest.mark.slow),
    ],
    ids=["tumbling", "sliding"],
)
def test_random_rows_are_joined_as_the_oracle_does_in_any_arrival(
    how: Any, window: Any, size: int, every: int, keys: int
) -> None:
    behind = [{"k": "key 0", "l": 98, "at": 10}, Right({"k": "key 1", "r": 99, "then": 20})]
    script = [*drawn_script(Random(f"{how} {size}"), 20, keys), WatermarkMark(300), *behind]

    def build(left: rh.DataStream, right: rh.DataStream) -> dict[str, rh.DataStream]:
        found = left.key_by("k").window_join(right.key_by("k"), window, how)
        return {"out": found, **{tag: found.side_output(tag) for tag in LATE_OF_TWO}}

    came = check_example(OperatorExample(build, LEFT, script, "at", RIGHT, "then"))
    wanted, late = window_joined(script, size, every, how)
    got = [
        InWindow(row["k"], row["l"], row["r"], round(row["window_end"].timestamp() * 1000))
        for row in came["out"]
    ]
    assert Counter(got) == Counter(wanted)
    assert len(wanted) >= 10
    assert all(row[TS] == found.end - 1 for row, found in zip(came["out"], got, strict=True))
    assert sorted([r["l"] for r in came["late_left"]] + [r["r"] for r in came["late_right"]]) == late
    assert {98, 99} <= set(late)


def test_results_of_one_window_are_joined_by_it_and_share_its_columns() -> None:
    env = rh.Environment(2, runtime="simulated")
    rows = [{"k": "ab"[n % 2], "n": n, "at": n * 7_000} for n in range(20)]
    bound = rh.Watermark.bounded_out_of_orderness("5s", on="at")
    sales = env.from_source(rh.collection(rows), watermark=bound)
    windows = sales.key_by("k").window(rh.Tumbling("1m"))
    counts, sums = windows.aggregate(rows=rh.agg.count()), windows.aggregate(total=rh.agg.sum("n"))
    large = sums.filter(rh.col("total") > 50).key_by("k")
    counts.key_by("k").window_join(large, rh.Tumbling("60s"), "full").collect("same")
    sales.key_by("k").window_join(large, rh.Tumbling("2m"), suffix="_of_sum").collect("longer")
    with pytest.raises(rh.SchemaError, match="the left side already has a column 'window_start'"):
        counts.key_by("k").window_join(large, rh.Tumbling("2m"), suffix="_right")
    found = env.execute("job").collected
    assert sorted(
        (row["k"], row["window_start"].minute, row["rows"], row["total"])
        for row in found["same"].to_pylist()
    ) == [
        (key, minute, len(of), sum(of) if sum(of) > 50 else None)
        for key in "ab"
        for minute in range(3)
        if (of := [row["n"] for row in rows if row["k"] == key and row["at"] // 60_000 == minute])
    ]
    assert {
        (row["window_start"].minute, row["window_start_of_sum"].minute)
        for row in found["longer"].to_pylist()
    } == {(0, 1)}


def test_a_window_with_many_results_emits_bounded_batches() -> None:
    groups = np.repeat(np.arange(3, dtype=np.int32), 60)
    pairs = _pairs(groups, np.tile(np.arange(60) >= 40, 3), np.full(180, 10), (True, True))
    pieces = [place for _, place in pairs.found.pieces(7)]
    assert max(map(len, pieces)) <= 7
    assert sum(map(len, pieces)) == 3 * 40 * 20


@pytest.mark.parametrize("keeps", [(False, False), (True, False), (False, True), (True, True)])
def test_pairs_of_several_windows_are_in_the_order_of_their_ends(keeps: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(7)
    keys, windows = rng.integers(0, 40, 300), rng.integers(0, 4, 300)
    groups = np.unique(keys * 4 + windows, return_inverse=True)[1].astype(np.int32)
    right = rng.random(300) < 0.3
    pairs = _pairs(groups, right, windows, keeps)
    entry, place = next(pairs.found.pieces(10_000))
    made = [*zip(pairs.left[entry].tolist(), pairs.others[place].tolist(), strict=True)]
    lefts, rights = np.flatnonzero(~right).tolist(), np.flatnonzero(right).tolist()
    wanted = [(one, other) for one in lefts for other in rights if groups[one] == groups[other]]
    with_partner = {row for pair in wanted for row in pair}
    wanted += [(row, -1) for row in lefts if keeps[0] and row not in with_partner]
    wanted += [(-1, row) for row in rights if keeps[1] and row not in with_partner]
    assert sorted(made) == sorted(wanted)
    ends = [int(windows[max(pair)]) for pair in made]
    assert ends == sorted(ends)


@dataclass
class View:
    k: str
    l: int  # noqa: E741 - beside r
    at: int


@dataclass
class Click:
    k: str
    r: int
    then: int


@dataclass
class Report:
    k: str
    end: int
    views: list[int]
    clicks: list[int]


class Gather(rh.CoGroupFunction):
    def co_group(self, left: list[View], right: list[Click], ctx: rh.WindowContext) -> Iterator[Report]:
        assert [view.at for view in left] == sorted(view.at for view in left)
        assert [click.then for click in right] == sorted(click.then for click in right)
        if ctx.window.end_ms > 1_000:
            raise ValueError("too far")
        views, clicks = sorted(view.l for view in left), sorted(click.r for click in right)
        yield Report(ctx.key, ctx.window.end_ms, views, clicks)


def grouped(left: rh.DataStream, right: rh.DataStream) -> rh.DataStream:
    return left.key_by("k").co_group(right.key_by("k"), rh.Tumbling("50ms"), Gather())


def test_a_function_gets_all_records_of_both_sides_in_a_window() -> None:
    script = drawn_script(Random("co-group"), 16, 2)
    came = check_example(OperatorExample(grouped, LEFT, script, "at", RIGHT, "then"))
    wanted: dict[tuple[str, int], tuple[set[int], set[int]]] = {}
    for row in window_joined(script, 50, 50, "full")[0]:
        views, clicks = wanted.setdefault((row.k, row.end), (set(), set()))
        views.update([] if row.l is None else [row.l])
        clicks.update([] if row.r is None else [row.r])
    got = {(row["k"], row["end"]): (set(row["views"]), set(row["clicks"])) for row in came["out"]}
    assert got == wanted
    assert len(came["out"]) == len(wanted) > 1


def test_an_error_of_the_function_names_key_and_window() -> None:
    example = OperatorExample(grouped, LEFT, [{"k": "a", "l": 1, "at": 2_000}], "at", RIGHT, "then")
    with pytest.raises(UserFunctionError) as raised:
        replay(example)
    assert raised.value.key == "'a'"
    assert "of the window from 2000 to 2050 ms, the first of which is View(k='a'" in str(raised.value)
