"""How long a job takes to start, and to run again after a worker was killed, on a warm session.

usage: python benchmarks/restart.py [TIMES] [PARALLELISM]

A keyed function with state, fed without end; a worker is killed with SIGKILL after a checkpoint. Time
counts until the master sees all subtasks connected ("running"), and until every subtask has its state
and is open ("open"); after a kill also until the master stops the attempt ("noticed").
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import rheos as rh

COUNTED = pa.schema([("k", pa.int64()), ("n", pa.int64())])


class Count(rh.KeyedProcessFunction):
    """Counts per key, and leaves its process id where the script finds it."""

    seen = rh.ValueState(int, default=0)

    def __init__(self, pids: str) -> None:
        self.pids = pids

    def open(self) -> None:
        Path(self.pids, str(os.getpid())).touch()

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[dict[str, int]]:
        self.seen.value += 1
        if self.seen.value % 1000 == 0:
            yield {"k": row.k, "n": self.seen.value}


def submit(folder: str, parallelism: int) -> tuple[rh.JobHandle, Path]:
    pids = Path(tempfile.mkdtemp(dir=folder))
    env = rh.Environment(parallelism, runtime="continuous", checkpoint_interval="200ms")
    numbers = rh.generator(lambda block: {"k": block.index() % 1000}, rate_per_s=20_000)
    counted = env.from_source(numbers).key_by("k").process(Count(str(pids)), returns=COUNTED)
    counted.sink_to(rh.files.sink(Path(folder, "out")))
    return env.execute_async("restart"), pids


def until(condition: Callable[[], bool]) -> float:
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > 30:
            raise TimeoutError("it did not come about within 30 s")
        time.sleep(0.005)
    return time.monotonic()


def running(job: rh.JobHandle, attempt: int) -> bool:
    status = job.status()
    return status.attempt == attempt and status.state is rh.JobState.RUNNING


def phase(
    job: rh.JobHandle, pids: Path, attempt: int, parallelism: int, began: float
) -> tuple[float, float]:
    connected = until(lambda: running(job, attempt)) - began
    opened = until(lambda: len(list(pids.iterdir())) == parallelism) - began
    return connected, opened


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    parallelism = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    starts: list[tuple[float, float]] = []
    restarts: list[tuple[float, float]] = []
    noticed: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        warm, pids = submit(folder, parallelism)
        until(lambda: len(list(pids.iterdir())) == parallelism)
        warm.cancel()
        for _ in range(times):
            began = time.monotonic()
            job, pids = submit(folder, parallelism)
            starts.append(phase(job, pids, 1, parallelism, began))
            until(lambda job=job: job.status().checkpoints_completed >= 2)
            workers = list(pids.iterdir())
            for worker in workers:
                worker.unlink()
            began = time.monotonic()
            os.kill(int(workers[0].name), signal.SIGKILL)
            noticed.append(until(lambda job=job: not running(job, 1)) - began)
            restarts.append(phase(job, pids, 2, parallelism, began))
            job.cancel()
    print(f"{times} times, parallelism {parallelism}; seconds, median (least to most)")
    show("submit -> running", [connected for connected, _ in starts])
    show("submit -> open", [opened for _, opened in starts])
    show("SIGKILL of a worker -> noticed", noticed)
    show("SIGKILL of a worker -> running", [connected for connected, _ in restarts])
    show("SIGKILL of a worker -> open", [opened for _, opened in restarts])


def show(what: str, seconds: list[float]) -> None:
    span = f"{statistics.median(seconds):6.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
    print(f"{what:<32}{span}")


if __name__ == "__main__":
    main()
