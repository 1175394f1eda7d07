"""Timers fire among the rows: one split gives the result of a watermark after each record, whatever its
batches. The oracle is a loop over the records."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rheos as rh
from rheos import testing
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.graph.functions import KeyedContext
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from rheos.core.protocol.state_config import Backend
from rheos.core.state.keys import KeyCodec
from rheos.core.task.config import TaskConfig
from tests.core.operators.steps import BOUND_MS, DecisionLog, Step, heard, keyed_steps, stories

GAP_MS = 25


class Sessions(rh.KeyedProcessFunction):
    """Ends a user's session after a pause; each output contains the watermark."""

    until = rh.ValueState(int, default=0)
    steps = rh.ValueState(int, default=0)

    def process_element(self, step: Step, ctx: KeyedContext) -> Iterator[DecisionLog]:
        ctx.timers.delete(self.until.value)
        self.until.value = max(self.until.value, step.at + GAP_MS)
        ctx.timers.register(self.until.value)
        self.steps.value += 1
        if step.at % 4 == 0:
            # Mostly before the watermark: the timer must fire when the watermark advances, not earlier.
            ctx.timers.register(step.at - GAP_MS)
        yield DecisionLog(step.user, f"step {self.steps.value} at {step.at}, behind {ctx.watermark}")

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[DecisionLog]:
        yield DecisionLog(
            ctx.key, f"over at {timestamp} after {self.steps.value}, behind {ctx.watermark}"
        )
        self.until.clear()
        self.steps.clear()
        # Some are due at once, some among the next rows.
        if timestamp % 3 == 0:
            ctx.timers.register(timestamp + 1 + timestamp % 5 * 10)


def steps(seed: int, rows: int) -> list[Step]:
    rng = np.random.default_rng(seed)
    users = rng.integers(0, 6, rows).tolist()
    times = (np.arange(rows) * 7 + rng.integers(0, 60, rows)).tolist()
    return [Step(user, at) for user, at in zip(users, times, strict=True)]


class Oracle:
    """Oracle that calls `Sessions` and processes the watermark after each record."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []
        self.until: dict[int, int] = {}
        self.steps: dict[int, int] = {}
        self.timers: list[tuple[int, bytes, int]] = []
        self.live: set[tuple[int, int]] = set()
        self.watermark = MIN_TIMESTAMP_MS
        self.encode = KeyCodec(pa.schema([("user", pa.int64())]), ("user",)).encode

    def register(self, at: int, user: int) -> None:
        if (at, user) not in self.live:
            self.live.add((at, user))
            heapq.heappush(self.timers, (at, self.encode(user), user))

    def row(self, step: Step) -> None:
        user = step.user
        self.live.discard((self.until.get(user, 0), user))
        self.until[user] = max(self.until.get(user, 0), step.at + GAP_MS)
        self.register(self.until[user], user)
        if step.at % 4 == 0:
            self.register(step.at - GAP_MS, user)
        self.steps[user] = self.steps.get(user, 0) + 1
        self.told.append((user, f"step {self.steps[user]} at {step.at}, behind {self.watermark}"))

    def advance(self, watermark: int) -> None:
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        while self.timers and self.timers[0][0] <= self.watermark:
            at, _, user = heapq.heappop(self.timers)
            if (at, user) not in self.live:
                continue
            self.live.discard((at, user))
            said = self.steps.pop(user, 0)
            self.told.append((user, f"over at {at} after {said}, behind {self.watermark}"))
            self.until.pop(user, None)
            if at % 3 == 0:
                self.register(at + 1 + at % 5 * 10, user)


def oracle(given: list[Step]) -> list[tuple[int, str]]:
    """Compute the result for one split."""
    told, latest = Oracle(), MIN_TIMESTAMP_MS
    for step in given:
        told.row(step)
        latest = max(latest, step.at)
        told.advance(latest - BOUND_MS - 1)
    told.advance(MAX_TIMESTAMP_MS)
    return told.told


def sessions(env: rh.Environment, given: list[Step]) -> rh.DataStream:
    return keyed_steps(env, given).process(Sessions())


@pytest.mark.thinned(3)
@pytest.mark.parametrize("batch_rows", [1, 2, 7, 64, 8192])
@pytest.mark.parametrize("backend", [Backend.MEMORY, Backend.ROCKSDB])
def test_one_split_has_the_same_result_for_any_batches(batch_rows: int, backend: Backend) -> None:
    given = steps(batch_rows, 300)
    assert heard(lambda env: sessions(env, given), batch_rows, backend) == oracle(given)


def by_user(told: list[tuple[int, str]]) -> dict[int, list[str]]:
    """Return the output per user, without the watermark of timers, which may differ by one mark."""
    found: dict[int, list[str]] = {}
    for user, text in told:
        found.setdefault(user, []).append(text.partition(", behind")[0] if "over" in text else text)
    return found


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", range(8))
def test_the_result_is_the_same_after_restarts_and_another_process(seed: int) -> None:
    """Check rows that pass another process, and restores from aligned checkpoints."""

    class Passing(rh.KeyedProcessFunction):
        def process_element(self, step: Step, ctx: KeyedContext) -> Iterator[Step]:
            yield step

    given = steps(seed, 200)

    def build(env: rh.Environment) -> rh.DataStream:
        watermark = rh.Watermark.bounded_out_of_orderness(f"{BOUND_MS}ms", on="at")
        paced = rh.generator(
            lambda block: {
                "user": [given[i].user for i in block.index().tolist()],
                "at": [given[i].at for i in block.index().tolist()],
            },
            count=len(given),
            splits=1,
            rate_per_s=400,
            schema=Step,
        )
        rows = env.from_source(paced, watermark=watermark)
        return rows.key_by("user").process(Passing()).key_by("user").process(Sessions())

    done = testing.simulate(
        build,
        seed=seed,
        parallelism=1,
        task=TaskConfig(batch_rows=(1, 5, 64)[seed % 3]),
        checkpoint=CheckpointConfig(interval_ms=50),
    )
    assert by_user(stories(done.out)) == by_user(oracle(given))


@dataclass
class Reading:
    k: str
    i: int
    at: int


@dataclass
class Called:
    what: str
    rows: int
    watermark: int


class Overdue(rh.KeyedProcessFunction):
    """Registers a timer for a time before the watermark at the second row."""

    n = rh.ValueState(int, default=0)

    def process_element(self, row: Reading, ctx: rh.KeyedContext) -> Iterator[Called]:
        self.n.value += 1
        if row.i == 1:
            ctx.timers.register(10)
        yield Called("row", self.n.value, ctx.watermark)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Called]:
        yield Called("timer", self.n.value, ctx.watermark)


@rh.compiled
class CompiledOverdue(Overdue):
    n = rh.ValueState(int, default=0)

    def process_element(self, row: Reading, ctx: rh.KeyedContext) -> Iterator[Called]:
        self.n.value = self.n.value + 1
        if row.i == 1:
            ctx.timers.register(10)
        yield Called("row", self.n.value, ctx.watermark)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Called]:
        yield Called("timer", self.n.value, ctx.watermark)


@pytest.mark.parametrize("batch_rows", [1, 2, 1000])
@pytest.mark.parametrize("function", [Overdue, CompiledOverdue])
def test_an_overdue_timer_fires_as_the_watermark_advances(function: Any, batch_rows: int) -> None:
    """Compare with the calls and watermarks of Flink 2.3 for these rows."""
    env = rh.Environment(1, runtime="simulated", batch_rows=batch_rows)
    given = [Reading("a", i, at) for i, at in enumerate([100, 50, 60, 130, 131])]
    rows = env.from_source(
        rh.collection(given), watermark=rh.Watermark.bounded_out_of_orderness("0s", on="at")
    )
    rows.key_by("k").process(function()).collect("out")
    called = env.execute("overdue").collected["out"].to_pylist()
    assert [(c["what"], c["rows"], c["watermark"]) for c in called][1:] == [
        ("row", 2, 99),
        ("row", 3, 99),
        ("row", 4, 99),
        ("timer", 4, 129),
        ("row", 5, 129),
    ]
