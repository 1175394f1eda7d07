"""Work of a chain's head on batches that wait, and state of operators downstream of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rheos.api.environment import Environment
from rheos.api.streams import DataStream
from rheos.connectors.generator import Block, generator
from rheos.core.operators.contract import AsyncOperator, Operator, Out, StartedWork
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator, ToEdge, ToOperator
from rheos.core.protocol.elements import Barrier, BarrierKind, Batch
from rheos.core.protocol.ids import Attempt, ChainId, ChannelId, CheckpointId
from rheos.core.protocol.snapshots import IN_FLIGHT
from rheos.core.task.config import TaskConfig
from rheos.core.task.early_work import EarlyWork
from rheos.core.task.in_flight_rows import InFlight
from rheos.core.task.inputs import InputGate
from rheos.core.task.tree import OperatorTree
from rheos.testing import MemoryLookup
from rheos.testing.memory import MemorySink
from tests.core.operators.contexts import context
from tests.core.task.cluster import Job
from tests.core.task.test_tree import ROWS, SCHEMA, Passing, Written
from tests.core.task.test_tree import planned as operator

A, B = ChannelId(0, 0, 0), ChannelId(0, 1, 0)
CHAIN = Chain(ChainId(0), (operator("head", 3, ToOperator(1)), operator("behind", 4, ToEdge(8))), (0,))


@dataclass
class Tries:
    """Unavailable system, with the times of calls and of the next retry."""

    now_us: int = 0
    at_us: list[int] = field(default_factory=list)
    again_us: int = 0


class Trying(AsyncOperator):
    """Retries each second, and never receives an answer."""

    tries: Tries

    def begin(self, port: int, batch: Batch) -> StartedWork:
        return _Trying(self.tries)


class _Trying(StartedWork):
    def __init__(self, tries: Tries) -> None:
        self._tries = tries

    def ready(self) -> bool:
        tries = self._tries
        if tries.now_us >= tries.again_us:
            tries.at_us.append(tries.now_us)
            tries.again_us = tries.now_us + 1_000_000
        return False

    def wake_after_us(self) -> int | None:
        return max(self._tries.again_us - self._tries.now_us, 0)

    def finish(self, batch: Batch) -> Iterator[Out]:
        raise AssertionError("it is never ready")


def ahead_of(gate: InputGate, tries: Tries) -> tuple[EarlyWork, Written]:
    def make(planned: PlannedOperator) -> Operator:
        ctx = context(SCHEMA, SCHEMA)
        if planned.name == "behind":
            return Passing(ctx)
        head = Trying(ctx)
        head.tries = tries
        return head

    written = Written()
    tree: OperatorTree[Any] = OperatorTree(CHAIN, make, written)
    return EarlyWork(tree, gate, None), written


def test_work_continues_for_a_channel_blocked_by_a_barrier() -> None:
    """Check this while nothing requests its batches, and the worker sleeps until the next retry."""
    tries = Tries()
    gate = InputGate([(A, 0), (B, 0)], lambda: 0)
    ahead, _ = ahead_of(gate, tries)
    gate.offer(A, Barrier(CheckpointId(1), Attempt(1), BarrierKind.CHECKPOINT))
    gate.offer(A, ROWS)
    gate.offer(A, ROWS)
    taken = ahead.take()
    assert taken is not None
    channel, barrier = taken
    assert isinstance(barrier, Barrier)
    assert gate.interpret(channel, barrier) == []
    sleeps = []
    for _ in range(3):
        assert ahead.take() is None
        sleeps.append(ahead.wake_after_us())
        tries.now_us += sleeps[-1] or 0
    assert sleeps == [1_000_000] * 3
    assert tries.at_us == [0, 1_000_000, 2_000_000]


def test_rows_in_flight_skip_operators_upstream_of_theirs() -> None:
    tries = Tries()
    ahead, written = ahead_of(InputGate([(A, 0)], lambda: 0), tries)
    head, behind = (InFlight.to(planned, 0, [ROWS], sent=True) for planned in CHAIN.operators)
    assert ahead.restored(head) is None
    assert tries.at_us == [0]
    work = ahead.restored(behind)
    assert work is not None
    assert list(work) == ["edge 8 has no room"]
    assert written.batches == [(8, [1, 2, 3])]


# --- a program that changes -------------------------------------------------------------------------

COUNTRIES = MemoryLookup(["n"], [{"n": n, "country": of} for n in range(200) for of in ("a", "b")])
AT_ONCE = TaskConfig(batch_rows=8, credits=1, buffer_timeout_us=0, unaligned_after_us=0)


def planned_for(sink: MemorySink, *, united: bool) -> PhysicalPlan:
    """Return a plan of rows that are looked up. With `united`, a second stream joins them, so that the
    downstream operators are a separate chain."""
    env = Environment(1, max_parallelism=16)

    def looked_up(first: int) -> DataStream:
        def numbers(block: Block) -> dict[str, Any]:
            return {"n": block.number() + first}

        rows = env.from_source(generator(numbers, count=100, splits=1), uid=f"numbers {first}")
        return rows.lookup(COUNTRIES, on="n").uid(f"countries {first}")

    rows = looked_up(0).union(looked_up(100)) if united else looked_up(0)
    rows.with_columns(twice=pl.col("n") * 2).uid("twice").sink_to(sink, uid="out")
    return env.plan("job")


def test_looked_up_rows_remain_so_if_the_program_drops_a_union() -> None:
    sink = MemorySink()
    job = Job(planned_for(sink, united=True), AT_ONCE, parallelism=1)
    job.cluster.run(150)
    job.cluster.network.held = True
    job.cluster.run(400)
    job.take()
    assert job.newest is not None
    held = {handle.operator for handle in job.newest.handles if handle.state.startswith(IN_FLIGHT)}
    assert held >= {"twice", "countries 0"}
    job.plan = planned_for(sink, united=False)
    job.restart(1)
    (rows,) = job.finish().values()
    got = [(row["n"], row["country"]) for row in rows]
    assert [(n, of) for n, of in got if n < 100] == [(n, of) for n in range(100) for of in ("a", "b")]
    # What the dropped stream had given before goes on its way.
    dropped = [(n, of) for n, of in got if n >= 100]
    assert dropped == [(100 + n, of) for n in range(len(dropped) // 2) for of in ("a", "b")]
