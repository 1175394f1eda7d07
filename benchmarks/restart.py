"""How long a job takes to run again after a worker was killed, on a warm session, and where it goes.

usage: python benchmarks/restart.py [TIMES] [PARALLELISM] [--state MB] [--ahead]

A keyed function with state, fed without end; a worker is killed with SIGKILL after some checkpoints.
With --state, the function first stores values of 1,000 bytes, until its state is so large.
Then 20,000 of the values change every second.
With --ahead, further slots restore each checkpoint, and the restart takes them.
Times are on one clock, which all processes of a machine share. The parts follow one another:

    noticed        the master stops the attempt: Spark has seen that the worker is gone
    next attempt   what is left of the stage has ended, the restart delay is over, the log is read
    shipped        the claim is in the log, Spark has placed the tasks, started a process where one
                   is missing, and the last one has unpickled the program: imports are in here
    connected      all workers have joined
    restored       every subtask has its state and is open
    first record   every subtask has processed a record after the restored checkpoint
    published      its checkpoint is complete, and the sink has published a new file
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

import rheos as rh
from rheos.ops.control.controlled_jobs import ControlledJob
from rheos.runtimes.driver.driven_job import MasterDrivenJob

COUNTED = pa.schema([("k", pa.int64()), ("n", pa.int64())])
CHECKPOINTS = "200ms"


VALUE_BYTES = 1_000
RATE = 20_000
"""Number of rows per second."""
SMALL_KEYS = 1_000


class Noted(rh.KeyedProcessFunction):
    """Notes when it was unpickled, opened and first called."""

    def __init__(self, notes: str) -> None:
        self.notes = notes

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.note("made")

    def note(self, what: str) -> None:
        with open(Path(self.notes, str(os.getpid())), "a") as file:
            file.write(f"{what} {time.monotonic()}\n")

    def open(self) -> None:
        self.called = False
        self.note("open")

    def note_call(self) -> None:
        if not self.called:
            self.called = True
            self.note("first")


class Count(Noted):
    """Counts per key."""

    seen = rh.ValueState(int, default=0)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[dict[str, int]]:
        self.note_call()
        self.seen.value += 1
        if self.seen.value % 10 == 0:
            yield {"k": row.k, "n": self.seen.value}


class Keep(Noted):
    """Stores a value of `VALUE_BYTES` for each key, which contains the number of its rows."""

    data = rh.ValueState(bytes, default=b"")

    def open(self) -> None:
        super().open()
        self.rest = os.urandom(VALUE_BYTES - 8)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[dict[str, int]]:
        self.note_call()
        seen = int.from_bytes(self.data.value[:8], "little") + 1
        self.data.value = seen.to_bytes(8, "little") + self.rest
        if row.k % 10 == 0:
            yield {"k": row.k, "n": seen}


@dataclass(frozen=True)
class Keys:
    """Keys at random, or each key once."""

    keys: int
    once: bool = False

    def __call__(self, block: Any) -> dict[str, Any]:
        return {"k": block.index() if self.once else block.rng().integers(0, self.keys, block.rows)}


def submit(
    folder: str,
    parallelism: int,
    slots: int | None = None,
    state_mb: int = 0,
    *,
    ahead: bool = False,
) -> tuple[rh.JobHandle, Path, Path]:
    """Start the job. Return it, the folder of its notes and that of its output.

    Args:
        folder: parent of these folders.
        parallelism: number of subtasks.
        slots: number of slots of the session, if the job is to grow.
        state_mb: size of the state. If 0, it is a number for each of `SMALL_KEYS`.
        ahead: whether further slots restore each checkpoint ahead.
    """
    notes, out = Path(tempfile.mkdtemp(dir=folder)), Path(tempfile.mkdtemp(dir=folder))
    master = None if slots is None else f"local[{slots + 1}]"
    env = rh.Environment(
        parallelism,
        runtime="continuous",
        checkpoint_interval=interval(state_mb),
        master=master,
        restore_ahead=ahead,
    )
    keys = state_mb * 1_000_000 // VALUE_BYTES or SMALL_KEYS
    numbers = env.from_source(rh.generator(Keys(keys), rate_per_s=RATE))
    if state_mb:
        numbers = env.from_source(rh.generator(Keys(keys, once=True), count=keys)).union(numbers)
    function = Keep(str(notes)) if state_mb else Count(str(notes))
    counted = numbers.key_by("k").process(function, returns=COUNTED)
    counted.sink_to(rh.files.sink(out))
    return env.execute_async("restart"), notes, out


def interval(state_mb: int) -> str:
    """Return the checkpoint interval. The first checkpoint of a large state takes longer than the usual
    one."""
    return "1s" if state_mb else CHECKPOINTS


def until(condition: Callable[[], bool]) -> float:
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > 120:
            raise TimeoutError("it did not come about within 120 s")
        time.sleep(0.002)
    return time.monotonic()


def is_prepared(job: rh.JobHandle) -> bool:
    assert isinstance(job, ControlledJob)
    assert isinstance(job.job, MasterDrivenJob)
    return job.job.master.prepared_for_restart


def running(job: rh.JobHandle, attempt: int) -> bool:
    status = job.status()
    return status.attempt == attempt and status.state is rh.JobState.RUNNING


def noted(notes: Path, what: str) -> list[float]:
    """When each process first did it."""
    lines = ([line.split() for line in file.read_text().splitlines()] for file in notes.iterdir())
    return [float(first) for words in lines for first in [t for w, t in words if w == what][:1]]


def parts(
    folder: str, parallelism: int, state_mb: int, *, ahead: bool
) -> tuple[float, dict[str, float], bool]:
    """Seconds from the start to the first record, each part of a restart, and whether the killed
    worker's successor was a fresh process."""
    began = time.monotonic()
    job, notes, out = submit(folder, parallelism, state_mb=state_mb, ahead=ahead)
    until(lambda: len(noted(notes, "first")) == parallelism)
    start_s = max(noted(notes, "first")) - began
    until(lambda: state_mb * 1e6 <= max((done.state_bytes for done in job.checkpoints()), default=0))
    stored = job.status().checkpoints_completed
    until(lambda: job.status().checkpoints_completed >= stored + 3)
    if ahead:
        until(lambda: is_prepared(job))
    workers = [file for file in sorted(notes.iterdir()) if "first" in file.read_text()]
    for worker in notes.iterdir():
        worker.unlink()
    wall, killed = time.time(), time.monotonic()
    os.kill(int(workers[0].name), signal.SIGKILL)
    at = {"noticed": until(lambda: not running(job, 1))}
    at["next attempt"] = until(lambda: job.status().attempt == 2)
    old = set(out.glob("part-*"))
    at["connected"] = until(lambda: running(job, 2))
    until(lambda: len(noted(notes, "first")) == parallelism)
    if not ahead:  # Prepared slots have unpickled the program before.
        at["shipped"] = max(noted(notes, "made"))
    at["restored"] = max(noted(notes, "open"))
    at["first record"] = max(noted(notes, "first"))
    at["published"] = until(lambda: bool(set(out.glob("part-*")) - old))
    pids = [int(file.name) for file in notes.iterdir()]
    fresh = any(psutil.Process(pid).create_time() >= wall - 0.02 for pid in pids)
    job.cancel()
    return start_s, {part: moment - killed for part, moment in at.items()}, fresh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("times", type=int, nargs="?", default=5)
    parser.add_argument("parallelism", type=int, nargs="?", default=2)
    parser.add_argument("--state", type=int, default=0, metavar="MB")
    parser.add_argument("--ahead", action="store_true")
    given = parser.parse_args()
    times, parallelism = given.times, given.parallelism
    with tempfile.TemporaryDirectory() as folder:
        warm, notes, _ = submit(folder, parallelism, ahead=given.ahead)
        until(lambda: len(noted(notes, "first")) == parallelism)
        warm.cancel()
        runs = [parts(folder, parallelism, given.state, ahead=given.ahead) for _ in range(times)]
    fresh = sum(new for _, _, new in runs)
    print(f"{times} times, parallelism {parallelism}, {fresh} with a fresh process; seconds, median")
    print(f"(least to most); a checkpoint every {interval(given.state)}")
    show("submit -> first record", [start for start, _, _ in runs])
    print("SIGKILL of a worker ->             after it   of which this part")
    before = [0.0] * times
    for part in sorted(runs[0][1], key=lambda part: runs[0][1][part]):
        moments = [at[part] for _, at, _ in runs]
        steps = [moment - last for moment, last in zip(moments, before, strict=True)]
        show(f"  {part}", moments, f"{statistics.median(steps):10.2f}")
        before = moments


def show(what: str, seconds: list[float], more: str = "") -> None:
    span = f"{statistics.median(seconds):6.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
    print(f"{what:<32}{span}{more}")


if __name__ == "__main__":
    main()
