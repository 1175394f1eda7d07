"""`late="deliver"` in each form of keyed functions: all call late rows in the same place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any

import numpy as np
import polars as pl
import pytest

import rheos as rh
from rheos.testing import Faults, simulate

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Click:
    user: int
    n: int
    at: datetime


@dataclass
class Numbered:
    n: int
    place: int
    late: bool


class ByRow(rh.KeyedProcessFunction):
    calls = rh.ValueState(int, default=0)

    def process_element(self, click: Click, ctx: rh.KeyedContext) -> Iterator[Numbered]:
        self.calls.value += 1
        yield Numbered(click.n, self.calls.value, ctx.is_late)


@rh.compiled
class Compiled(rh.KeyedProcessFunction):
    calls = rh.ValueState(int, default=0)

    def process_element(self, click: Click, ctx: rh.KeyedContext) -> Iterator[Numbered]:
        self.calls.value += 1
        yield Numbered(click.n, self.calls.value, ctx.is_late)


class ByBatch(rh.KeyedBatchFunction):
    calls = rh.ValueState(int, default=0)

    def process_batch(
        self, keys: rh.BatchKeys, batch: pl.DataFrame, state: rh.BatchState
    ) -> Iterator[rh.Emit[Numbered]]:
        numbers = batch["n"].to_numpy()
        for rows in keys.rounds():
            at = keys[rows]
            place = state.calls[at] + 1
            state.calls[at] = place
            columns = {"n": numbers[rows], "place": np.asarray(place), "late": at.is_late}
            yield rh.Emit(columns, rows)


FORMS: list[Any] = [
    ByRow(),
    ByBatch(),
    pytest.param(
        Compiled(), marks=pytest.mark.skipif(find_spec("numba") is None, reason="needs a compiler")
    ),
]


@pytest.mark.parametrize("function", FORMS, ids=lambda function: type(function).__name__)
def test_late_rows_are_delivered_in_place(function: Any) -> None:
    times = [10, 30, 12, 31, 29, 40, 5]

    def build(env: rh.Environment) -> rh.DataStream:
        rows = [Click(1, at, START + timedelta(milliseconds=at)) for at in times]
        clicks = env.from_source(rh.collection(rows), rh.Watermark.monotonic(on="at"))
        return clicks.key_by("user").process(function, order="event_time", late="deliver")

    done = simulate(build, faults=Faults(until_us=0), parallelism=1)
    found = sorted((row["place"], row["n"], row["late"]) for row in done.rows["out"].to_pylist())
    # After 30 the watermark is at 29: the row at 12 comes before all of 30 and later.
    assert [(n, late) for _, n, late in found] == [
        (10, False),
        (12, True),
        (30, False),
        (29, True),
        (31, False),
        (5, True),
        (40, False),
    ]
