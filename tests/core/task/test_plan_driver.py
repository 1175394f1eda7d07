"""A plan that runs in the calling thread has the rows, times and ends of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
import pytest

import rheos as rh
from rheos.api.environment import Environment
from rheos.core.operators.contract import Operator
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.task.contexts import OperatorContexts
from rheos.core.task.plan_driver import PlanDriver
from rheos.core.task.tree import OperatorTree
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.io import InstantIo
from rheos.testing import MemorySink, simulate
from tests.core.task.test_contexts import constructed_in

Streams = Mapping[str, rh.DataStream]


def clicks(env: rh.Environment, *times: int, idle: bool = False) -> rh.DataStream:
    watermark = rh.Watermark.monotonic(on="at", idle_after="1s" if idle else None)
    rows = [{"page": "home" if at % 2 else "cart", "at": at} for at in times]
    return env.from_source(rh.collection(rows), watermark=watermark)


def windows(env: rh.Environment) -> Streams:
    counts = (
        clicks(env, 1, 4, 12, 3, 15, 31)
        .key_by("page")
        .window(rh.Tumbling("10ms"))
        .aggregate(n=rh.agg.count())
    )
    return {"counts": counts, "late": counts.side_output("late")}


def two_inputs(env: rh.Environment) -> Streams:
    """Return a program in which the slower input holds the windows."""
    both = clicks(env, 1, 12, 25, 48).union(clicks(env, 2, 3, 4, 5))
    return {"counts": both.key_by("page").window(rh.Tumbling("10ms")).aggregate(n=rh.agg.count())}


def loop(env: rh.Environment) -> Streams:
    """Return a program whose rows circulate until they are small, and then the loop ends."""
    numbers = env.from_source(rh.collection([{"n": n} for n in (1, 7, 20)]))

    def halved(rows: rh.DataStream) -> tuple[rh.DataStream, rh.DataStream]:
        smaller = rows.with_columns(n=pl.col("n") // 2)
        return smaller.filter(pl.col("n") > 2), smaller.filter(pl.col("n") <= 2)

    return {"small": numbers.iterate(halved)}


@pytest.mark.parametrize("program", [windows, two_inputs, loop])
def test_rows_equal_those_of_a_simulated_job(program: Callable[[rh.Environment], Streams]) -> None:
    simulated = simulate(program).rows
    assert {name: _counted(rows) for name, rows in driven(program).items()} == {
        name: _counted(rows.to_pylist()) for name, rows in simulated.items()
    }


def _counted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def driven(program: Callable[[rh.Environment], Streams]) -> dict[str, list[dict[str, Any]]]:
    env = Environment(2, max_parallelism=8)
    sinks = {name: MemorySink() for name in program(Environment(1))}
    for name, stream in program(env).items():
        stream.sink_to(sinks[name], name=name)
    plan = env.plan("driven")
    clock = SimClock()
    contexts = OperatorContexts(
        job=JobId("driven"),
        attempt=Attempt(1),
        max_parallelism=plan.max_parallelism,
        clock=clock,
        io=InstantIo(),
        batch_rows=2,
    )

    def make(planned: PlannedOperator) -> Operator:
        spec = planned.spec
        if isinstance(spec, SourceSpec):
            return spec.operator(contexts.of(planned), list(spec.source.splits()))
        return spec.operator(contexts.of(planned))

    driver = PlanDriver(
        plan,
        attempt=Attempt(1),
        clock=clock,
        make_tree=lambda chain, outputs: OperatorTree(chain, make, outputs),
        batch_rows=2,
    )
    driver.open({})
    while not all(chain.ended for chain in driver.sources.values()):
        for source in driver.sources:
            driver.poll(source)
    driver.snapshot(CheckpointId(1))
    driver.close()
    return {
        name: [row for rows in sink.target.staged.values() for row in rows.to_pylist()]
        for name, sink in sinks.items()
    }


def test_event_time_is_merged_in_one_place() -> None:
    """Check that there is a single merger, which a second driver of plans would use."""
    assert list(constructed_in("WatermarkMerger")) == ["core/task/inputs.py"]
