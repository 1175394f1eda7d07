"""The harness of a program: rows, time and restarts, one step at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import InputError, ProgramError, UserFunctionError
from rheos.testing import Harness, MemoryLookup

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Beeping(rh.KeyedProcessFunction):
    """Function that emits a row for each timer, in processing time and event time."""

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> None:
        ctx.timers.register_processing(ctx.processing_time + row.wait * 1000)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[dict[str, Any]]:
        yield {"who": ctx.key, "at": ctx.processing_time - int(NOON.timestamp() * 1000)}


def test_timers_fire_in_time_and_survive_a_restart() -> None:
    def beeps(rows: rh.DataStream) -> rh.DataStream:
        return rows.key_by("who").process(Beeping(), returns={"who": str, "at": int})

    with Harness(beeps, {"who": str, "wait": int}) as harness:
        harness.give({"who": "a", "wait": 30}, {"who": "b", "wait": 10}, {"who": "c", "wait": 60})
        harness.restart()
        harness.advance("40s")
        assert harness.take() == [{"who": "b", "at": 10_000}, {"who": "a", "at": 30_000}]
        assert harness.now == NOON + timedelta(seconds=40)
        harness.advance(timedelta(seconds=20))
        assert harness.take() == [{"who": "c", "at": 60_000}]


def test_the_harness_runs_a_chain_of_operators() -> None:
    def per_town(rows: rh.DataStream) -> rh.DataStream:
        users = MemoryLookup(
            ["user"], [{"user": "ada", "town": "Oslo"}, {"user": "bob", "town": "Bonn"}]
        )
        per_user = rows.filter(rh.col("ms") > 0).key_by("user").running(ms=rh.agg.sum("ms"))
        return per_user.lookup(users, on="user").key_by("town").running(most=rh.agg.max("ms"))

    with Harness(per_town, {"user": str, "ms": int}) as harness:
        for user, ms in [("ada", 5), ("bob", 3), ("ada", -1), ("ada", 2)]:
            harness.give({"user": user, "ms": ms})
            harness.restart()
        assert [(row["town"], row["most"]) for row in harness.take()] == [
            ("Oslo", 5),
            ("Bonn", 3),
            ("Oslo", 7),
        ]


class Slowly(rh.AsyncFunction):
    async def invoke(self, row: Any) -> dict[str, int]:
        await asyncio.sleep(5)
        return {"twice": 2 * row.n}


def test_asynchronous_calls_are_answered_at_once() -> None:
    def doubled(rows: rh.DataStream) -> rh.DataStream:
        return rows.map_async(Slowly(), timeout="1m", returns={"twice": int})

    with Harness(doubled, {"n": int}) as harness:
        harness.give({"n": 1}, {"n": 2})
        harness.end()
        assert harness.take() == [{"twice": 2}, {"twice": 4}]


def inverse(row: Any) -> dict[str, float]:
    return {"x": 1 / row.n}


def test_errors_equal_those_of_a_job() -> None:
    with Harness(lambda rows: rows.map(inverse, returns={"x": float}), {"n": int}) as harness:
        with pytest.raises(UserFunctionError) as found:
            harness.give({"n": 0})
        assert found.value.site is not None
        assert found.value.site.file == __file__
        assert "n=0" in str(found.value.record)
    by_user = Harness(lambda rows: rows.key_by("user").running(n=rh.agg.count()), {"user": str})
    with by_user, pytest.raises(InputError, match="null"):
        by_user.give({"user": None})


def test_unsupported_uses_of_the_harness_are_refused() -> None:
    def plain(rows: rh.DataStream) -> rh.DataStream:
        return rows

    with Harness(plain, {"n": int}) as harness:
        with pytest.raises(ProgramError, match="the input has no event time"):
            harness.watermark("5s")
        with pytest.raises(ProgramError, match="the program has no output 'late'"):
            harness.take("late")
        with pytest.raises(ProgramError, match="the program has no input 'others'"):
            harness.give({"n": 1}, to="others")
        harness.end()
        with pytest.raises(ProgramError, match="the input has ended"):
            harness.give({"n": 1})

    with pytest.raises(ProgramError, match="the program returns None, which is not a stream"):
        Harness(lambda rows: None, {"n": int})  # type: ignore[arg-type, return-value]
    with (
        Harness(plain, {"n": int}) as harness,
        pytest.raises(ProgramError, match="the clock cannot go back"),
    ):
        harness.advance("-5s")
    with pytest.raises(ProgramError, match="'at', which no input has"):
        Harness(plain, {"n": int}, event_time="at")
    with pytest.raises(ProgramError, match="event_time= names 'in' and 'at', but there is no such"):
        Harness(plain, {"n": int}, event_time={"in": "at"})

    def timed(rows: rh.DataStream) -> rh.DataStream:
        return rows.with_event_time(rh.Watermark.monotonic(on="at"))

    with pytest.raises(ProgramError, match="the harness controls event time itself"):
        Harness(timed, {"at": datetime})
