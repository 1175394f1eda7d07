"""`ROW_NUMBER() ... = 1`: the first row of each key stays append-only, and keeps its event time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import rheos as rh
from tests.sql.test_errors import place

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PAYMENTS = [
    {"id": number % 5, "sum": number, "at": NOON + timedelta(microseconds=number * 37 % 23 * 300)}
    for number in range(40)
]
PAYMENTS[7]["id"] = None


def numbered(partition: str, order: str, condition: str = "r = 1", source: str = "payments") -> str:
    over = f"PARTITION BY {partition} ORDER BY {order}"
    rows = f"SELECT *, ROW_NUMBER() OVER ({over}) AS r FROM {source}"
    return f"SELECT id, sum, at FROM ({rows}) WHERE {condition}"


def environment(parallelism: int = 1) -> rh.Environment:
    env = rh.Environment(parallelism, runtime="simulated")
    bound = rh.Watermark.bounded_out_of_orderness("5s", on="at")
    env.register("payments", env.from_source(rh.collection(PAYMENTS), watermark=bound, name="payments"))
    return env


def rows_of(env: rh.Environment, *texts: str) -> list[list[dict[str, Any]]]:
    for number, text in enumerate(texts):
        env.sql(text, state_ttl="1d").collect(str(number))
    found = env.execute("job").collected
    return [found[str(number)].to_pylist() for number in range(len(texts))]


def test_the_first_row_by_event_time_is_the_same_at_any_parallelism() -> None:
    orders: dict[str, Callable[[dict[str, Any]], Any]] = {
        "at, sum DESC": lambda row: (row["at"], -row["sum"]),
        "at": lambda row: (row["at"], row["sum"]),
    }
    for parallelism in (1, 3):
        found = rows_of(environment(parallelism), *(numbered("id", order) for order in orders))
        for rows, order in zip(found, orders.values(), strict=True):
            first: dict[int | None, dict[str, Any]] = {}
            for row in sorted(PAYMENTS, key=order):
                first.setdefault(row["id"], row)
            assert sorted(rows, key=repr) == sorted(first.values(), key=repr)


def test_first_rows_may_be_windowed_joined_in_time_and_numbered() -> None:
    env = environment()
    env.register("once", env.sql(numbered("id", "at")))
    [windows, joined, gaps] = rows_of(
        env,
        "SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE once, DESCRIPTOR(at), INTERVAL '1' MINUTE)) "
        "GROUP BY window_start, window_end",
        "SELECT p.sum, o.sum AS first FROM payments p LEFT JOIN once FOR SYSTEM_TIME AS OF p.at AS o "
        "ON p.id = o.id WHERE p.sum = 9",
        "SELECT id, LAG(id) OVER (ORDER BY at) AS before FROM once",
    )
    assert windows == [{"n": 6}]
    assert joined == [{"sum": 9, "first": 4}]
    assert len(gaps) == 6


def test_arrival_decides_if_rows_are_ordered_by_processing_time() -> None:
    source = "(SELECT *, PROCTIME() AS now FROM payments WHERE id < 2)"
    [first, named, last] = rows_of(
        environment(),
        numbered("id", "PROCTIME()", "r = 1 AND id < 2"),
        numbered("id", "now", source=source),
        numbered("id", "PROCTIME() DESC", "r = 1 AND id < 2"),
    )
    assert [row["sum"] for row in first] == [0, 1]
    assert [row["sum"] for row in named] == [0, 1]
    final = {row["id"]: row["sum"] for row in last}
    assert "op" in last[0]
    assert final == {0: 35, 1: 36}


def test_rows_within_a_millisecond_are_ordered_by_their_time_column() -> None:
    text = "SELECT at, LAG(at) OVER (ORDER BY at) AS p, COUNT(*) OVER (ORDER BY at) AS n FROM payments"
    [rows] = rows_of(environment(), text)
    assert len(rows) == len(PAYMENTS)
    for row in rows:
        assert row["n"] == sum(each["at"] <= row["at"] for each in PAYMENTS)
        assert row["p"] is None or row["p"] <= row["at"]


@pytest.mark.parametrize(
    ("text", "what", "underlined"),
    [
        (numbered("id", "PROCTIME()", "r <= 3"), "PROCTIME() orders rows only to find", None),
        (
            "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY id ORDER BY PROCTIME()) AS r "
            "FROM (SELECT id, COUNT(*) AS n FROM payments GROUP BY id)) WHERE r = 1",
            "PROCTIME() orders append-only rows",
            "PROCTIME",
        ),
    ],
)
def test_other_uses_of_processing_time_are_refused(
    text: str, what: str, underlined: str | None
) -> None:
    with pytest.raises(rh.ProgramError) as caught:
        environment().sql(text)
    assert what in str(caught.value)
    assert underlined is None or place(caught.value) == underlined
