"""The keyed process operator alone: a Python function with state per record, over 10,000 keys.

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
from rheos.errors import Site
from rheos.graph.functions import KeyedContext
from rheos.graph.nodes import MAIN, ProcessSpec, StreamType
from rheos.host.io import SystemClock
from rheos.operators.contract import OperatorContext, OutputType, PortType
from rheos.operators.process import ProcessOperator
from rheos.protocol.ids import Attempt, JobId, OperatorId
from rheos.protocol.types import schema_of
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


def operator(fn: rh.KeyedProcessFunction) -> ProcessOperator:
    given, made = StreamType(schema_of(Event), False, Event), StreamType(schema_of(Alert), False, Alert)
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
        ports=(PortType(given, ("user",), given.schema),),
        outputs={MAIN: OutputType(made, made.schema)},
        clock=clock,
        io=SimIo(clock.monotonic_us, lambda: 0),
        batch_rows=ROWS,
    )
    made_operator = ProcessOperator(ctx, ProcessSpec(fn, "arrival", Event))
    made_operator.open({})
    return made_operator


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
    print(f"{'function':<24}{'M records/s':>12}")
    for name, fn in (("returns None", Silent()), ("yields one record", Talking())):
        process = operator(fn)
        began = time.process_time()
        for i in range(batches):
            for _ in process.on_batch(0, inputs[i % 16]):
                pass
        print(f"{name:<24}{batches * ROWS / (time.process_time() - began) / 1e6:>12.2f}")


if __name__ == "__main__":
    main()
