"""The kernels of `guard.py`: a fixed amount of work of one operator, by name.

usage: guard_kernels.py

It reads the name of a kernel from each line of standard input, does the work once, and prints the
processor time in ns.
"""

from __future__ import annotations

import os

# One thread, as in a slot; Polars reads it when it is imported.
os.environ["POLARS_MAX_THREADS"] = "1"

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import rheos as rh
from benchmarks.one_operator import opened
from rheos.cli.benchmarks.programs import three_steps
from rheos.core.operators.contract import Operator
from rheos.core.protocol.elements import SWM, TS, WM

Rows = pa.RecordBatch
ROWS = 16_384
SMALL_ROWS = 8
SCHEMA = pa.schema([("k", pa.int64()), ("kind", pa.int64()), ("v", pa.float64()), ("at", pa.int64())])
_HIDDEN = (TS, WM, SWM)


@dataclass
class Row:
    k: int
    kind: int
    v: float
    at: int


@dataclass
class Change:
    k: int
    state: int


class Machine(rh.KeyedProcessFunction):
    state = rh.ValueState(int, default=0)

    def process_element(self, row: Row, ctx: rh.KeyedContext) -> Iterator[Change]:
        self.state.value = state = (self.state.value + row.kind) % 7
        yield Change(row.k, state)


@dataclass(frozen=True)
class Kernel:
    """An operator of a program, and its input."""

    spec: str
    """Name of the class of its description."""
    build: Callable[..., rh.DataStream]
    inputs: int = 1
    batches: int = 40
    rows: int = ROWS

    def work(self) -> Callable[[], None]:
        """Return the work, with the operator and all input ready."""
        env = rh.Environment(1)
        streams = [
            env.from_source(
                rh.collection(SCHEMA.empty_table(), Row),
                rh.Watermark.monotonic(on="at"),
                name=f"input {number}",
            )
            for number in range(self.inputs)
        ]
        self.build(*streams).collect("out")
        kinds = {type(each.spec) for each in env.plan().operators()}
        [kind] = [each for each in kinds if each.__name__ == self.spec]
        operator = opened(env, kind, ROWS)
        given = [_batches(operator, port, self.batches, self.rows) for port in range(self.inputs)]

        def run() -> None:
            for number, together in enumerate(zip(*given, strict=True), 1):
                for port, rows in enumerate(together):
                    for _ in operator.on_batch(port, rows):
                        pass
                for _ in operator.on_watermark(_time_ms(number * self.rows) - 1):
                    pass
            operator.close()

        return run


KERNELS = {
    "filter": Kernel("ExpressionSpec", lambda rows: rows.filter(rh.col("v") < 0.1), batches=400),
    "running totals": Kernel(
        "RunningSpec",
        lambda rows: rows.key_by("k").running(n=rh.agg.count(), total=rh.agg.sum("v")),
        batches=60,
    ),
    "running totals, 8 rows": Kernel(
        "RunningSpec",
        lambda rows: rows.key_by("k").running(n=rh.agg.count(), total=rh.agg.sum("v")),
        batches=1_500,
        rows=SMALL_ROWS,
    ),
    "windows": Kernel(
        "WindowSpec",
        lambda rows: rows.key_by("k").window(rh.Tumbling("1s")).aggregate(total=rh.agg.sum("v")),
    ),
    "python function": Kernel(
        "ProcessSpec", lambda rows: rows.key_by("k").process(Machine()), batches=8
    ),
    "interval join": Kernel(
        "IntervalJoinSpec",
        lambda one, other: one.key_by("k").interval_join(
            other.key_by("k"), between=("-50ms", "50ms"), suffix="_r"
        ),
        inputs=2,
        batches=10,
    ),
    "pattern": Kernel("PatternSpec", lambda rows: rows.key_by("k").detect(three_steps()), batches=20),
}


def _batches(operator: Operator, port: int, count: int, rows: int) -> Sequence[Rows]:
    rng = np.random.default_rng(port + 1)
    wanted = operator.ctx.ports[port].schema
    found = []
    for number in range(count):
        at = _time_ms(number * rows + np.arange(rows))
        columns = {
            "k": rng.integers(0, 10_000, rows),
            "kind": rng.integers(0, 100, rows),
            "v": rng.random(rows),
            "at": at,
            TS: at,
            WM: np.maximum(at - 1, 0),
            SWM: np.maximum(at - 1, 0),
        }
        arrays = [
            pa.array(columns.get(field.name, np.zeros(rows, np.int64)), field.type) for field in wanted
        ]
        found.append(pa.RecordBatch.from_arrays(arrays, schema=wanted))
    return found


def _time_ms(row: Any) -> Any:
    """Return the event time of a row with this number, or of an array of them."""
    return row // 100


def main() -> None:
    pa.set_cpu_count(1)
    for line in sys.stdin:
        work = KERNELS[line.strip()].work()
        gc.collect()
        gc.disable()
        began = time.process_time_ns()
        work()
        print(time.process_time_ns() - began, flush=True)
        gc.enable()


if __name__ == "__main__":
    main()
