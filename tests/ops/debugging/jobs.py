"""Jobs that have run in a simulated world and are then debugged; the calls of their functions are in
a log."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rheos.api.overrides import Overrides
from rheos.api.program_file import planned_program
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.log import JobLog
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.state_config import Backend, StateConfig
from rheos.core.task.config import TaskConfig
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job import JobConfig
from rheos.runtimes.simulated.faults import Requests
from rheos.runtimes.simulated.world import World
from rheos.testing.slow_source import SlowSource

PROGRAM = '''
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

import rheos as rh


@dataclass
class Order:
    user: str
    amount: int
    at: int


@dataclass
class Total:
    user: str
    amount: int


@dataclass
class Big:
    amount: int


class Sessions(rh.KeyedProcessFunction):
    """Sums up the orders of a user until none has come for 10 ms."""

    side_outputs = {"big": Big}
    total = rh.ValueState(int, default=0)
    last = rh.ValueState(int, default=0)
    amounts = rh.ListState(int)
    by_size = rh.MapState(str, int)

    def _log(self, kind, what, ctx, before, out):
        if (log := os.environ.get("CALLS")) is None:
            return
        with open(log, "a") as file:
            line = {"kind": kind, "what": what, "key": ctx.key, "time": ctx.timestamp}
            line |= {"before": before, "after": self._state(), "out": out}
            file.write(json.dumps(line) + "\\n")

    def _state(self):
        return [self.total.value, self.last.value, list(self.amounts), dict(self.by_size.items())]

    def process_element(self, order: Order, ctx: rh.KeyedContext) -> Iterator[Total]:
        before = self._state()
        if order.amount < 0:
            raise ValueError("no such amount")
        self.total.value += order.amount
        self.amounts.append(order.amount)
        size = "large" if order.amount > 5 else "small"
        self.by_size[size] = self.by_size.get(size, 0) + 1
        if self.last.value:
            ctx.timers.delete(self.last.value + 10)
        self.last.value = max(order.at, self.last.value)
        ctx.timers.register(self.last.value + 10)
        if order.amount > 5:
            ctx.output("big", Big(order.amount))
        self._log("row", [order.user, order.amount, order.at], ctx, before, [])
        return
        yield

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Total]:
        before = self._state()
        total = Total(ctx.key, self.total.value)
        self.total.clear()
        self.last.clear()
        self.amounts.clear()
        self.by_size.clear()
        yield total
        self._log("timer", timestamp, ctx, before, [[total.user, total.amount]])


env = rh.Environment(parallelism=2)
orders = env.from_source(
    rh.files.source("in/*.jsonl", schema=Order, discover="1s"),
    rh.Watermark.bounded_out_of_orderness("2ms", on="at", unit="ms"), name="orders", uid="orders",
)
keyed = orders.filter(rh.col("amount") < 1000).key_by("user")
sessions = keyed.process(Sessions()).uid("sessions")
sessions.sink_to(rh.print_sink(), name="out", uid="out")
sessions.side_output("big").sink_to(rh.print_sink(), name="big", uid="big")
windows = keyed.window(rh.Tumbling("10ms")).aggregate(n=rh.agg.count(), amount=rh.agg.sum("amount"))
windows.uid("windows").sink_to(rh.print_sink(), name="windows", uid="windows-out")
env.execute("orders")
'''


def write_input(name: str, *rows: tuple[str, int, int]) -> None:
    lines = [json.dumps({"user": u, "amount": a, "at": at}) for u, a, at in rows]
    Path("in").mkdir(exist_ok=True)
    Path(f"in/{name}.jsonl").write_text("\n".join(lines) + "\n")


def run_job(
    program: str = "job.py",
    *,
    backend: Backend = Backend.MEMORY,
    seed: int = 1,
    **checkpoint: Any,
) -> list[int]:
    """Run the job on the current input, a few rows at a time, and keep all of its checkpoints in
    `kept`. Return their numbers."""
    plan = planned_program(Path(program), [], Overrides())
    config = JobConfig(
        job=JobId("orders"),
        checkpoint=CheckpointConfig(**{"interval_ms": 3, "retain": 99, **checkpoint}),
        state=StateConfig(backend),
        task=TaskConfig(batch_rows=2),
        until_now=True,
        history=None,
    )
    world = World(_slowed(plan, seed), config, seed, requests=Requests(leave=1.0))
    world.run()
    store = open_store("kept")
    for path, data in world.store.files.items():
        store.put(path, data)
    return [kept.entry.checkpoint for kept in JobLog(store, config.job).read().completed]


def _slowed(plan: PhysicalPlan, seed: int) -> PhysicalPlan:
    """Return the plan with slow sources, so that checkpoints fall between their rows."""

    def slowed(planned: PlannedOperator) -> PlannedOperator:
        spec = planned.spec
        if not isinstance(spec, SourceSpec):
            return planned
        return replace(planned, spec=replace(spec, source=SlowSource(spec.source, seed)))

    chains = [replace(c, operators=tuple(map(slowed, c.operators))) for c in plan.chains]
    return replace(plan, chains=tuple(chains))


def calls(log: str = "calls.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(log).read_text().splitlines()]
