"""A function that changes the column of event time is detected where windows use the old time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos import testing

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass
class Visit:
    user: int
    at: datetime


VISITS = [Visit(n % 3, NOON + timedelta(seconds=n)) for n in range(9)]
FIVE = rh.Watermark.bounded_out_of_orderness("5s", on="at")

Making = Callable[[rh.DataStream], rh.DataStream]


def later(visit: Visit) -> Visit:
    """Change the time of all rows except the first two."""
    return visit if visit.at < NOON + timedelta(seconds=2) else replace(visit, at=visit.at + DAY)


def twice(visit: Visit) -> Iterator[Visit]:
    yield visit
    yield later(visit)


def later_batch(batch: pl.DataFrame) -> pl.DataFrame:
    return batch.with_columns(
        at=pl.when(pl.col("at") < NOON + timedelta(seconds=2))
        .then(pl.col("at"))
        .otherwise(pl.col("at") + DAY)
    )


def windows(rows: rh.DataStream) -> rh.DataStream:
    return rows.key_by("user").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count())


def run(
    making: Callable[[rh.DataStream], rh.DataStream],
    source: Any = VISITS,
    watermark: rh.Watermark = FIVE,
) -> list[dict[str, Any]]:
    def program(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        return {"out": making(env.from_source(rh.collection(source), watermark=watermark))}

    return testing.simulate(program, faults=testing.Faults(until_us=0)).rows["out"].to_pylist()


MOVES: dict[str, Making] = {
    "map": lambda rows: rows.map(later),
    "flat_map": lambda rows: rows.flat_map(twice),
    "map_batches": lambda rows: rows.map_batches(later_batch, returns=Visit),
    "map, before others": lambda rows: rows.map(later).filter("user < 5").select("user", "at"),
    "map, of one of two streams": lambda rows: rows.map(later).union(rows),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_a_window_by_the_old_time_is_an_error_in_the_function(move: Making) -> None:
    with pytest.raises(rh.UserFunctionError) as caught:
        run(lambda rows: windows(move(rows)))
    assert "the function changed 'at' (2026-01-02 12:00:02" in str(caught.value)
    assert ".with_event_time(" in str(caught.value)
    assert "12, 0, 2" in str(caught.value.record)
    assert caught.value.site is not None
    assert caught.value.site.file == __file__


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_without_uses_of_the_old_time_a_function_may_change_it(move: Making) -> None:
    assert len(run(move)) >= len(VISITS)
    of_the_new = run(
        lambda rows: windows(rows.map(later).with_event_time(FIVE)),
    )
    assert {row["window_start"] for row in of_the_new} == {NOON, NOON + DAY}


def test_an_order_and_timers_by_the_old_time_are_errors_too() -> None:
    class Timed(rh.KeyedProcessFunction):
        def process_element(self, visit: Visit, ctx: rh.KeyedContext) -> Iterator[Visit]:
            yield visit

        def on_timer(self, timestamp: datetime, ctx: rh.KeyedContext) -> Iterator[Visit]:
            yield from ()

    for order in ("arrival", "event_time"):
        with pytest.raises(rh.UserFunctionError, match="the function changed 'at'"):
            run(lambda rows, order=order: rows.map(later).key_by("user").process(Timed(), order=order))  # type: ignore[misc]


def test_precision_that_python_lacks_is_not_a_change() -> None:
    """Check nanoseconds, which are lost when a record is created: event time in milliseconds is the
    same."""
    schema = pa.schema([("user", pa.int64()), ("at", pa.timestamp("ns", "UTC"))])
    rows = pa.table(
        {"user": [1, 1], "at": [1_767_268_800_000_000_123, 1_767_268_801_000_000_456]}, schema
    )
    found = run(lambda s: windows(s.map(lambda row: row, returns=schema)), rows)
    assert [row["n"] for row in found] == [2]
