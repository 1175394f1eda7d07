"""Operators with a keyed function alone: a Python function with state per record, over 10,000 keys; of
one stream, of two, and beside a broadcast one.

Rates are per second of CPU time, so that a busy machine does not show.

usage: python benchmarks/process_loop.py [BATCHES]
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import rheos as rh
from rheos.core.errors import Site
from rheos.core.graph.functions import KeyedContext
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.operators.contract import Operator, OperatorContext, OperatorSpec, OutputType, PortType
from rheos.core.operators.keyed_broadcast_process import KeyedBroadcastProcessSpec
from rheos.core.operators.keyed_co_process import KeyedCoProcessSpec
from rheos.core.operators.process import ProcessSpec
from rheos.core.protocol.ids import Attempt, JobId, OperatorId
from rheos.core.protocol.types import schema_of
from rheos.runtimes.host.io import SystemClock
from rheos.runtimes.simulated.io import SimIo

ROWS = 16_384
KEYS = 10_000


@dataclass
class Event:
    user: int
    kind: int


@dataclass
class Alert:
    user: int
    state: int


class Silent(rh.KeyedProcessFunction):
    state = rh.ValueState(int, default=0)

    def process_element(self, event: Event, ctx: KeyedContext) -> None:
        self.state.value = (self.state.value + event.kind) % 7


class Talking(rh.KeyedProcessFunction):
    state = rh.ValueState(int, default=0)

    def process_element(self, event: Event, ctx: KeyedContext) -> Iterator[Alert]:
        self.state.value = state = (self.state.value + event.kind) % 7
        yield Alert(event.user, state)


class Connected(rh.KeyedCoProcessFunction):
    """As Talking. No rows of the second stream come."""

    state = rh.ValueState(int, default=0)

    def process_element1(self, event: Event, ctx: KeyedContext) -> Iterator[Alert]:
        self.state.value = state = (self.state.value + event.kind) % 7
        yield Alert(event.user, state)

    def process_element2(self, event: Event, ctx: KeyedContext) -> None: ...


class Ruled(rh.KeyedBroadcastProcessFunction):
    """As Talking, by what is in broadcast state."""

    state = rh.ValueState(int, default=0)
    steps = rh.BroadcastState(int, int)

    def process_element(self, event: Event, ctx: KeyedContext) -> Iterator[Alert]:
        self.state.value = state = (self.state.value + self.steps[event.kind]) % 7
        yield Alert(event.user, state)

    def process_broadcast_element(self, event: Event, ctx: rh.ProcessContext) -> None:
        self.steps[event.kind] = event.kind


def operator(spec: OperatorSpec, second: PortType | None = None) -> Operator:
    made = StreamType(schema_of(Alert), False, Alert)
    clock = SystemClock()
    ctx = OperatorContext(
        job=JobId("bench"),
        attempt=Attempt(1),
        operator=OperatorId("process"),
        name="process",
        site=Site(__file__, 1),
        subtask=0,
        parallelism=1,
        max_parallelism=128,
        ports=(KEYED,) if second is None else (KEYED, second),
        outputs={MAIN: OutputType(made, made.schema)},
        clock=clock,
        io=SimIo(clock.monotonic_us, lambda: 0),
        batch_rows=ROWS,
    )
    made_operator = spec.operator(ctx)
    made_operator.open({})
    return made_operator


GIVEN = StreamType(schema_of(Event), False, Event)
KEYED = PortType(GIVEN, ("user",), GIVEN.schema)
ALL = PortType(GIVEN, (), GIVEN.schema, broadcast=True)


def operators() -> dict[str, Operator]:
    both = (Event, Event)
    ruled = operator(KeyedBroadcastProcessSpec(Ruled(), both, ()), ALL)
    rules = pa.RecordBatch.from_pylist([{"user": 0, "kind": kind} for kind in range(5)], GIVEN.schema)
    assert not list(ruled.on_batch(1, rules))
    return {
        "returns None": operator(ProcessSpec(Silent(), "arrival", Event)),
        "yields one record": operator(ProcessSpec(Talking(), "arrival", Event)),
        "of two streams": operator(KeyedCoProcessSpec(Connected(), both, ()), KEYED),
        "by broadcast state": ruled,
    }


def main() -> None:
    batches = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rng = np.random.default_rng(1)
    inputs = [
        pa.record_batch(
            {"user": rng.integers(0, KEYS, ROWS), "kind": rng.integers(0, 5, ROWS)},
            schema=schema_of(Event),
        )
        for _ in range(16)
    ]
    # As the worker does.
    gc.freeze()
    gc.set_threshold(500_000, 10, 10)
    made = operators()
    spent: dict[str, list[float]] = {name: [] for name in made}
    for i in range(batches):
        for name, process in made.items():
            began = time.process_time()
            for _ in process.on_batch(0, inputs[i % 16]):
                pass
            spent[name].append(time.process_time() - began)
    print(f"{'function':<24}{'M records/s':>12}")
    for name, times in spent.items():
        print(f"{name:<24}{batches * ROWS / sum(times) / 1e6:>12.2f}")


if __name__ == "__main__":
    main()
