"""Loops in random worlds: rows in a loop are state, each iterates exactly once, and a loop ends when
no rows are left in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pytest

import rheos as rh
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.errors import (
    JobFailedError,
    ProgramError,
    SchemaError,
    UnrestorableError,
    UserFunctionError,
)
from rheos.core.task.config import Guarantee, TaskConfig
from rheos.runtimes.job import JobState
from rheos.runtimes.simulated.faults import Faults, Requests
from rheos.testing import simulate
from tests.worlds.loop_programs import MEETING, SPLITTING, WALKING
from tests.worlds.programs import CheckedProgram
from tests.worlds.worlds import Climate, draw_world


@pytest.mark.parametrize(
    ("program", "climate", "seed"),
    [
        (WALKING, Climate.STALLS, 1),
        (WALKING, Climate.MOVES, 3),
        (SPLITTING, Climate.SWARM, 2),
        (MEETING, Climate.STALLS, 5),
        pytest.param(MEETING, Climate.MOVES, 3, marks=pytest.mark.slow),
        pytest.param(SPLITTING, Climate.STALLS, 1, marks=pytest.mark.slow),
        pytest.param(SPLITTING, Climate.MOVES, 3, marks=pytest.mark.slow),
    ],
    ids=lambda value: value.name if isinstance(value, CheckedProgram) else str(value),
)
def test_loops_survive_random_worlds(program: CheckedProgram, climate: Climate, seed: int) -> None:
    world = draw_world(seed, climate)
    unaligned_after_us = 0 if climate is Climate.STALLS else None
    task = replace(world.task, guarantee=Guarantee.EXACTLY_ONCE, unaligned_after_us=unaligned_after_us)
    inputs = tuple(replace(of, rows=80 // len(world.inputs)) for of in world.inputs)
    world = replace(world, inputs=inputs, task=task).of(program)
    world.run_and_check()


@dataclass
class Number:
    n: int


def numbers(env: rh.Environment, count: int = 40) -> rh.DataStream:
    return env.from_source(rh.collection([Number(n) for n in range(count)]))


def halved(loop: rh.DataStream) -> tuple[rh.DataStream, rh.DataStream]:
    half = loop.filter(pl.col("n") > 1).with_columns(n=pl.col("n") // 2)
    return half, half


def test_rows_beyond_the_last_iteration_are_dropped() -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        return numbers(env, 100).iterate(halved, rounds=2)

    done = simulate(build, faults=Faults())
    rows = sorted((row["round"], row["n"]) for row in done.rows["out"].to_pylist())
    first = [(0, n // 2) for n in range(2, 100)]
    assert rows == sorted([*first, *((1, n // 2) for _, n in first if n > 1)])
    [head] = [of for of in done.status.operators if of.name == "iterate"]
    assert head.counters == {"beyond_rounds": sum(n // 4 > 0 for n in range(100))}


def test_a_loop_with_more_rows_than_its_buffers_makes_progress() -> None:
    """Each row iterates twenty times, through channels that hold one small batch."""

    def down(loop: rh.DataStream) -> tuple[rh.DataStream, rh.DataStream]:
        less = loop.rebalance().with_columns(n=pl.col("n") - 1)
        return less.filter(pl.col("n") > 0), less.filter(pl.col("n") == 0)

    def build(env: rh.Environment) -> rh.DataStream:
        return numbers(env).with_columns(n=pl.col("n") * 0 + 20).iterate(down)

    done = simulate(build, task=TaskConfig(batch_rows=4, credits=1))
    assert done.rows["out"].num_rows == 40


@dataclass
class Rounds:
    n: int
    left: int


class Meet(rh.CoProcessFunction):
    def process_element1(self, row: Any, ctx: rh.ProcessContext) -> Iterator[Rounds]:
        yield Rounds(row.n, row.left - 1)

    def process_element2(self, row: Any, ctx: rh.ProcessContext) -> Iterator[Rounds]:
        yield Rounds(row.n, row.left - 1)


@pytest.mark.parametrize("joins", ["in the body", "at the head"])
def test_new_rows_wait_while_many_rows_iterate(joins: str) -> None:
    """Of 1,500 rows that each iterate eight times, a subtask never holds more than 500, although a
    checkpoint is always in progress."""

    def again(rows: rh.DataStream) -> tuple[rh.DataStream, rh.DataStream]:
        return rows.filter(pl.col("left") > 0), rows.filter(pl.col("left") == 0)

    def build(env: rh.Environment) -> rh.DataStream:
        rows = rh.generator(lambda b: {"n": b.index(), "left": b.index() * 0 + 8}, count=1_500)
        many = env.from_source(rows, name="many")
        if joins == "at the head":
            less = pl.col("left") - 1
            return many.iterate(lambda of: again(of.rebalance().with_columns(left=less)), capacity=500)
        one = env.from_source(rh.collection([Rounds(-1, 8)]), name="one")
        return one.iterate(lambda of: again(many.connect(of).process(Meet())), capacity=500)

    done = simulate(
        build,
        faults=Faults(until_us=0),
        checkpoint=CheckpointConfig(interval_ms=1),
        task=TaskConfig(batch_rows=16, credits=2),
    )
    assert done.rows["out"].num_rows == 1_500 + (joins == "in the body")


def test_an_endless_loop_can_be_stopped_with_its_rows() -> None:
    """It is stopped with a savepoint, and resumed from it as a program whose loop ends."""

    def build(env: rh.Environment, ends: bool) -> rh.DataStream:
        def body(loop: rh.DataStream) -> tuple[rh.DataStream, rh.DataStream]:
            spun = loop.rebalance().with_columns(n=pl.col("n") + 0)
            return (spun.filter(pl.lit(not ends)), spun.filter(pl.lit(ends)))

        return numbers(env).iterate(body)

    stopped = simulate(
        lambda env: build(env, ends=False),
        requests=Requests(stop=2.0, leave=1.0, until_us=3_000_000),
    )
    assert stopped.status.state is JobState.STOPPED
    assert stopped.rows["out"].num_rows == 0
    done = simulate(
        lambda env: build(env, ends=True), from_savepoint=stopped.savepoints[-1], parallelism=3
    )
    assert sorted(done.rows["out"].column("n").to_pylist()) == list(range(40))
    with pytest.raises(UnrestorableError, match="that no longer fit its input") as raised:
        simulate(
            lambda env: numbers(env).with_columns(m=pl.col("n")).iterate(halved),
            from_savepoint=stopped.savepoints[-1],
        )
    assert "rows in a loop are part of savepoints, too: restore the old columns" in str(raised.value)


def test_a_loop_with_too_many_rows_fails_at_the_users_line() -> None:
    def doubling(loop: rh.DataStream) -> tuple[rh.DataStream, rh.DataStream]:
        return loop.union(loop.with_columns(n=pl.col("n") + 1)), loop

    with pytest.raises((UserFunctionError, JobFailedError)) as raised:
        simulate(lambda env: numbers(env).iterate(doubling, capacity=5_000))
    assert "test_loops.py" in str(raised.value)
    assert "rows of feedback are waiting in one subtask; the limit is 5,000" in str(raised.value)


def test_invalid_loops_are_refused_at_the_line_of_iterate() -> None:
    env = rh.Environment(1)
    stream = numbers(env)

    def nested(loop: rh.DataStream) -> tuple[rh.DataStream, rh.DataStream]:
        return loop.iterate(halved), loop

    mistakes: list[tuple[Any, Mapping[str, Any], str]] = [
        (3, {}, "takes a function of a stream, not 3"),
        (lambda loop: loop, {}, "must return .feedback, output., two streams, not <stream"),
        (lambda loop: (stream, loop), {}, "the feedback stream does not originate in the loop"),
        (lambda loop: (loop.select(m="n"), loop), {}, "has other columns than the loop"),
        (lambda loop: (loop.broadcast(), loop), {}, "are broadcast to all subtasks"),
        (nested, {}, "a loop cannot contain another loop"),
        (halved, {"rounds": 0}, "rounds=0 is not a whole number"),
        (halved, {"capacity": True}, "capacity=True is not a whole number"),
    ]
    for body, settings, wanted in mistakes:
        with pytest.raises(ProgramError, match=wanted) as raised:
            stream.iterate(body, **settings)
        assert "test_loops.py" in str(raised.value)
    with pytest.raises(SchemaError, match="iterate\\(\\) counts iterations in the column 'round'"):
        stream.select(round="n").iterate(halved, rounds=3)
    stream.iterate(halved, rounds=3)  # The failed calls before have left no loop around this one.
