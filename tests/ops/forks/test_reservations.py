"""Reasons other than their code for which two programs may differ."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import rheos as rh
from rheos.ops.forks.reservations import reservations


@dataclass
class N:
    n: int


AT = rh.Watermark.monotonic(on="at", unit="ms")


class ByClock(rh.KeyedProcessFunction):
    def process_element(self, row: object, ctx: rh.KeyedContext) -> Iterator[N]:
        ctx.timers.register_processing(ctx.processing_time + 1)
        yield N(1)


class Living(rh.KeyedProcessFunction):
    seen = rh.ValueState(int, ttl=rh.TimeToLive("1h", time="processing_time"))

    def process_element(self, row: object, ctx: rh.KeyedContext) -> Iterator[N]:
        yield N(1)


class Plain(rh.KeyedProcessFunction):
    def process_element(self, row: object, ctx: rh.KeyedContext) -> Iterator[N]:
        yield N(1)


def by_chance(row: object) -> N:
    return N(random.randrange(9))


async def asked(row: object) -> N:
    return N(1)


def rows(env: rh.Environment, watermark: rh.Watermark = AT) -> rh.DataStream:
    return env.from_source(rh.collection([{"k": 1, "at": 1}]), watermark, name="rows")


PROGRAMS = {
    "event time": (lambda env: rows(env).key_by("k").process(Plain(), order="event_time"), []),
    "a clock's timers": (
        lambda env: rows(env).key_by("k").process(ByClock(), order="event_time"),
        ["uses processing_time", "uses register_processing"],
    ),
    "a clock's state": (
        lambda env: rows(env).key_by("k").process(Living(), order="event_time"),
        ["its state 'seen' expires by processing time, but a replay has virtual time"],
    ),
    "the order of rows": (
        lambda env: rows(env).key_by("k").running(n=rh.agg.count()),
        ["rows of 2 splits may arrive in another order"],
    ),
    "a clock's windows": (
        lambda env: (
            rows(env)
            .key_by("k")
            .window(rh.Tumbling("1s", time="processing_time"))
            .aggregate(n=rh.agg.count())
        ),
        ["it uses processing time, but a replay has virtual time"],
    ),
    "chance": (lambda env: rows(env).map(by_chance), ["uses the module random"]),
    "others": (lambda env: rows(env).map_async(asked), ["it queries an external system, whose"]),
    "when a row is read": (
        lambda env: rows(env, rh.Watermark.ingestion_time()),
        ["it uses ingestion time, which in a replay differs"],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_reservations_name_their_line(name: str) -> None:
    build, expected = PROGRAMS[name]
    env = rh.Environment(parallelism=1)
    build(env).sink_to(rh.print_sink())
    found = reservations(env.plan("job").operators(), 2)
    assert len(found) == len(expected), [str(each) for each in found]
    for each, says in zip(found, expected, strict=True):
        assert says in each.why
        assert str(each).startswith(__file__)
