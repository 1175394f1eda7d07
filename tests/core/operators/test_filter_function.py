"""`filter` with a function: remaining rows keep their event time, and errors name the record."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import ProgramError, UserFunctionError

SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.int64())])


def clicks(env: rh.Environment) -> rh.DataStream:
    rows = [{"id": n, "at": 10 * n} for n in range(6)]
    watermark = rh.Watermark.monotonic(on="at")
    return env.from_source(rh.collection(rows, schema=SCHEMA), watermark=watermark)


def simulated() -> rh.Environment:
    return rh.Environment(1, runtime="simulated", restart=rh.restart.none())


class EveryOther(rh.RichFunction):
    def open(self, ctx: rh.RuntimeContext) -> None:
        self.seen = ctx.counter("seen")

    def __call__(self, row: Any) -> bool:
        self.seen.add()
        return bool(row.id % 2)


def test_remaining_rows_keep_their_event_time() -> None:
    env = simulated()
    odd = clicks(env).filter(EveryOther()).name("odd")
    odd.key_by("id").window(rh.Tumbling("20ms")).aggregate(n=rh.agg.count()).collect("windows")
    done = env.execute("filter")
    found = done.collected["windows"].to_pylist()
    assert sorted((row["id"], row["n"], row["window_start"].microsecond // 1000) for row in found) == [
        (1, 1, 0),
        (3, 1, 20),
        (5, 1, 40),
    ]
    assert done.counter("odd", "seen") == 6


def returns_nothing(row: Any) -> Any:
    if row.id < 3:
        return True


def test_a_result_other_than_a_bool_is_an_error_with_the_record() -> None:
    env = simulated()
    clicks(env).filter(returns_nothing).collect("out")
    with pytest.raises(UserFunctionError, match="the function of filter\\(\\) returned") as raised:
        env.execute("filter")
    assert "30" in str(raised.value.record)


def raises(row: Any) -> bool:
    return 1 // (row.id - 4) > 0


def test_an_error_of_the_function_names_line_and_record() -> None:
    env = simulated()
    clicks(env).filter(raises).collect("out")
    with pytest.raises(UserFunctionError, match="ZeroDivisionError") as raised:
        env.execute("filter")
    assert raised.value.site is not None
    assert raised.value.site.line == inspect.getsourcelines(raises)[1] + 1
    assert "40" in str(raised.value.record)


def test_functions_and_conditions_do_not_mix() -> None:
    with pytest.raises(ProgramError, match="filter\\(\\) takes conditions, or a single") as raised:
        clicks(simulated()).filter(rh.col("id") > 2, raises)
    assert "test_filter_function.py" in str(raised.value)
