"""The job of the drill: orders, counted per user. Files switch its faults on.

python -m tests.ops.dashboard.drill FOLDER    runs the job; FOLDER/faults has the files"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import rheos as rh
from rheos.core.connectors.contract import Sink, SinkContext, SinkWriter
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId
from tests.ops.chaos import torn

START_MS = 1_800_000_000_000
RATE = 2000
USERS = 97


@dataclass(frozen=True)
class Faults:
    folder: Path

    def __contains__(self, name: str) -> bool:
        return (self.folder / name).exists()


@dataclass(frozen=True)
class Orders:
    faults: Faults

    def __call__(self, block: rh.Block) -> dict[str, Any]:
        n = block.number()
        at = START_MS + n
        if "stuck-partition" in self.faults and block.split == 1:
            at = np.full(block.rows, START_MS)
        user = np.zeros(block.rows, np.int64) if "hot-key" in self.faults else n % USERS
        return {"n": n, "user": user, "at": at}


@dataclass(frozen=True)
class Priced:
    faults: Faults

    def __call__(self, order: Any) -> dict[str, Any]:
        if "poisoned-record" in self.faults and order.n % 100 == 0:
            raise ValueError("an order without a price")
        return {"n": order.n, "user": order.user}


class PerUser(rh.KeyedProcessFunction):
    count = rh.ValueState(int, default=0)

    def __init__(self, faults: Faults) -> None:
        self.faults = faults

    def process_element(self, order: Any, ctx: Any) -> Any:
        if "hot-key" in self.faults:
            time.sleep(2 / RATE)  # Half of all orders are more than one subtask can process.
        self.count.value += 1
        yield {"user": order.user, "orders": self.count.value}


@dataclass(frozen=True)
class DiscardingSink(Sink, SinkWriter):
    """Sink that discards its rows, slowly if that fault is on."""

    faults: Faults

    def open(self, ctx: SinkContext) -> SinkWriter:
        return self

    def write(self, batch: Batch) -> None:
        for _ in range(batch.num_rows):
            if "slow-sink" not in self.faults:
                return
            time.sleep(3 / RATE)  # Half of the orders take 1.5 times as long as available.

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        return []

    def close(self) -> None:
        pass

    def describe(self) -> str:
        return "a shelf"


def build(env: rh.Environment, faults: Faults) -> None:
    schema = pa.schema([(name, pa.int64()) for name in ("n", "user", "at")])
    source = rh.generator(Orders(faults), rate_per_s=RATE, splits=2, schema=schema)
    watermark = rh.Watermark.bounded_out_of_orderness("1s", on="at", unit="ms")
    orders = env.from_source(source, watermark, name="orders")
    priced = orders.map(Priced(faults), returns={"n": int, "user": int}).name("priced")
    counted = priced.key_by("user").process(PerUser(faults), returns={"user": int, "orders": int})
    counted.name("per user").sink_to(DiscardingSink(faults), uid="shelf")
    windows = priced.key_by("user").window(rh.Tumbling("10s")).aggregate(n=rh.agg.count())
    windows.sink_to(DiscardingSink(Faults(faults.folder / "never")), uid="windows")


def main(folder: Path) -> None:
    env = rh.Environment(
        2,
        runtime="continuous",
        checkpoint_dir=f"torn://{folder / 'checkpoints'}",
        checkpoint_interval="500ms",
        batch_rows=256,  # Few rows wait, so that a fault shows soon.
        restart=rh.restart.fixed_delay(1000, delay="500ms"),
    )
    build(env, Faults(torn.faults_of(folder / "checkpoints")))
    env.execute("drill")


if __name__ == "__main__":
    from tests.ops.dashboard import drill  # Workers import the contents of this file by this name.

    drill.main(Path(sys.argv[1]))
