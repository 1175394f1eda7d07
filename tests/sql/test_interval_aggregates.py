"""SUM, AVG, MIN, MAX and MODE of intervals: of groups, of changes, over rows, and of too large sums."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import rheos as rh

_AGGREGATES = "SUM({0}) AS s, AVG({0}) AS a, MIN({0}) AS least, MAX({0}) AS most, MODE({0}) AS often"


def _months(count: int) -> dict[str, int]:
    return {"interval_months": count}


def _last(query: str, n: list[int | None]) -> dict[str, Any]:
    env = rh.Environment(runtime="simulated")
    env.register("t", env.from_source(rh.collection([{"n": each} for each in n]), name="t"))
    env.sql(query, state_ttl="forever").collect("r")
    row: dict[str, Any] = env.execute("intervals").collected["r"].to_pylist()[-1]
    row.pop("op", None)
    return row


@pytest.mark.parametrize(
    ("source", "n", "expected"),
    [
        ("t", [1, None, 2, 2], (5, 5 / 3, 1, 2, 2)),
        # The row of 1 is retracted when its count becomes 2.
        ("(SELECT COUNT(*) AS n FROM t GROUP BY n) AS t", [7, 8, 7, 8], (4, 2, 2, 2, 2)),
    ],
    ids=["rows", "changes"],
)
def test_aggregates_of_intervals(source: str, n: list[int | None], expected: tuple[float, ...]) -> None:

    found = _last(f"SELECT {_AGGREGATES.format('n * INTERVAL 1 SECOND')} FROM {source}", n)
    assert [*found.values()] == [
        dt.timedelta(microseconds=int(each * 1_000_000 + 0.5)) for each in expected
    ]
    found = _last(f"SELECT {_AGGREGATES.format('n * INTERVAL 1 MONTH')} FROM {source}", n)
    assert [*found.values()] == [_months(int(each + 0.5)) for each in expected]


def test_an_average_of_intervals_is_rounded_away_from_zero() -> None:
    assert _last("SELECT AVG(n * INTERVAL 1 MONTH) AS a FROM t", [-1, -2]) == {"a": _months(-2)}
    assert _last("SELECT AVG(n * INTERVAL 1 MONTH) FILTER (WHERE n > 1) AS a FROM t", [1]) == {
        "a": None
    }


@pytest.mark.parametrize("call", ["MIN", "FIRST", "MODE"])
def test_an_interval_of_months_and_days_is_not_aggregated(call: str) -> None:
    with pytest.raises(rh.RheosError, match=f"{call}\\(\\) takes intervals of months, or of days"):
        _last(f"SELECT {call}(MAKE_INTERVAL(0, n, 0, 1)) AS x FROM t", [1])


def test_intervals_are_summed_over_rows() -> None:
    query = "SELECT SUM(n * INTERVAL 1 DAY) OVER (ORDER BY n) AS s FROM (VALUES (1), (2)) AS v(n)"
    assert _last(query, [1])["s"] == dt.timedelta(days=3)


def test_a_sum_of_intervals_beyond_their_range_ends_the_job() -> None:
    with pytest.raises(rh.RheosError, match="SUM\\(\\) is longer than the longest INTERVAL"):
        _last("SELECT SUM(n * INTERVAL 70 MINUTE) AS s FROM t", [2**31 - 1, 2**31 - 1])
