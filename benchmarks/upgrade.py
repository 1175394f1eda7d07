"""The pause of a job's output while it is handed over to a changed program.

usage: python benchmarks/upgrade.py [TIMES] [--state MB] [--rate ROWS] [--back] [--function]

A job of two subtasks with a running count per key publishes files every half second. First it reads
without a limit until it has the state. Then it starts again, and reads ROWS per second. `rheos upgrade`
hands it over to a program with one more aggregate. With --back, `rheos rollback` then hands it back.
With --function, the job counts in a function with a map of two large values and a timer per key. Each
row moves the timer and replaces one of the values.
Parts follow one another, in seconds since the log named the successor:

    claimed     the attempt of the new driver is in the log: nothing of the old one runs any more
    running     its first checkpoint is in the log: its workers have the program and their state
    published   the sink has published a new file

The pause is the time between the last file of the old program and the first one of the new program. It
contains the interval of half a second that passes between any two files.

A timeline follows, from the protocol traces of both drivers. It has the milliseconds of each step of
the pause, from the barrier of the last checkpoint until output of the new program is committed.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import CheckpointCompleted, LogEntry, decode_entry
from rheos.core.protocol.ids import JobId
from rheos.ops.control.commands import JobClient
from rheos.ops.control.registry import Registry
from rheos.runtimes.host.stores import open_store

JOB = """
import sys
import numpy as np
import rheos as rh

keys, new, rate, kind = int(sys.argv[1]), sys.argv[2] == "new", int(sys.argv[3]), sys.argv[4]


class Count(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=0)
    due = rh.ValueState(int, default=0)
    pads = rh.MapState(int, str)

    def process_element(self, row, ctx):
        self.n.value += 1
        self.pads[self.n.value % 2] = f"{ctx.key} {self.n.value}".zfill(4_000)
        ctx.timers.delete_processing(self.due.value)
        self.due.value = 4_000_000_000_000 + self.n.value
        ctx.timers.register_processing(self.due.value)
        yield {"k": ctx.key, "n": self.n.value}

    def on_timer(self, timestamp, ctx):
        return ()


env = rh.Environment(2, runtime="continuous", checkpoint_interval="500ms", checkpoint_dir="kept")


def made(block):
    columns = {"k": block.index() % keys}
    if kind == "running":
        columns["pad"] = np.char.zfill(block.index().astype("U"), 200)
    return columns


rows = env.from_source(rh.generator(made, rate_per_s=rate or None, splits=2))
aggregates = {"n": rh.agg.count(), "pad": rh.agg.max("pad")}
if new:
    aggregates["more"] = rh.agg.count()
keyed = rows.key_by("k")
if kind == "function":
    counts = keyed.process(Count(), returns={"k": int, "n": int}).uid("counts")
else:
    counts = keyed.running(**aggregates).uid("counts")
counts.filter(rh.col("k") % 500 == 0).sink_to(rh.files.sink("out"), uid="files")
env.execute("orders")
"""
_BYTES_PER_KEY = {"running": 250, "function": 8_300}
_ROWS_PER_S = {"running": 50_000, "function": 5_000}
"""Rates that two slots on two cores can process while another program starts."""
_WITHIN_S = 300.0


class Driver:
    """A driver of the job, and its output."""

    def __init__(self, folder: Path, name: str, *command: str) -> None:
        self.output = folder / f"{name}.log"
        rheos = str(Path(sys.executable).parent / "rheos")
        with self.output.open("w") as out:
            self.process = subprocess.Popen(
                [rheos, *command],
                cwd=folder,
                stdout=out,
                stderr=out,
                env={**os.environ, "RHEOS_HOME": str(folder)},
            )

    def trace(self) -> list[str]:
        """Return the lines of its protocol trace; an empty list if it has ended."""
        records = [each for each in Registry().records() if each.process.pid == self.process.pid]
        return list(JobClient(records[0]).decisions()) if records else []

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


class Step(NamedTuple):
    """A step of a handover, and the line of a protocol trace that ends it."""

    name: str
    is_of_successor: bool
    """Whether the successor writes the line, and not the incumbent."""
    pattern: str


STEPS = (
    Step("the last checkpoint begins", False, r"TriggerCheckpoint"),
    Step("its state is written", False, r"Acknowledge\(.*-> AppendLog"),
    Step("the log names the successor", False, r"LogAppended\("),
    Step("its output is committed", False, r"Z HANDING_OVER"),
    Step("all slots have left", False, r"SlotsLeft\(|AttemptEnded\("),
    Step("the successor is notified", True, r"OtherGone\("),
    Step("the log has the claim", True, r"RECOVERING +LogAppended\("),
    Step("recovery is complete", True, r"Recovered\("),
    Step("the slots are connected", True, r"AttemptRunning\("),
    Step("the first checkpoint begins", True, r"TriggerCheckpoint"),
    Step("its state is written", True, r"Acknowledge\(.*-> AppendLog"),
    Step("the log has it", True, r"LogAppended\("),
    Step("its output is committed", True, r"Committed\("),
)
"""Steps of a handover. After they are connected, the slots read the rest of the state and open sources
and sinks. The first checkpoint waits for that."""


def timeline(incumbent: Driver, successor: Driver) -> dict[str, float]:
    """Return the milliseconds of each step of the last handover, numbered in order."""
    traces = {False: incumbent.trace(), True: successor.trace()}
    requests = [number for number, line in enumerate(traces[False]) if "after=HAND_OVER" in line]
    place = {False: max(requests, default=0), True: 0}
    steps: dict[str, float] = {}
    before: datetime | None = None
    for number, step in enumerate(STEPS):
        lines = traces[step.is_of_successor]
        found = [
            at
            for at in range(place[step.is_of_successor], len(lines))
            if re.search(step.pattern, lines[at])
        ]
        if not found:
            continue  # The trace of a driver that has ended is lost.
        place[step.is_of_successor] = found[0] + 1
        moment = datetime.fromisoformat(lines[found[0]].split(" ", 1)[0])
        if before is not None:
            steps[f"{number:2} {step.name}"] = (moment - before).total_seconds() * 1000
        before = moment
    return steps


def until(condition: Callable[[], bool], *drivers: Driver) -> float:
    """Return the time at which the condition holds. Raise TimeoutError, or AssertionError if a driver
    has ended with an error."""
    began = time.monotonic()
    while not condition():
        for driver in drivers:
            assert driver.process.poll() in (None, 0), driver.output.read_text()
        if time.monotonic() - began > _WITHIN_S:
            raise TimeoutError(f"it did not happen within {_WITHIN_S:g} s")
        time.sleep(0.01)
    return time.monotonic()


def newest(folder: Path) -> LogEntry | None:
    """Return the newest entry of the job's log."""
    store = open_store(str(folder / "kept"))
    paths = sorted(store.list(JobLog(store, JobId("orders")).folder))
    return decode_entry(store.get(paths[-1]), paths[-1]).entry if paths else None


def state_mb(folder: Path) -> float:
    entry = newest(folder)
    if not isinstance(entry, CheckpointCompleted):
        return 0.0
    return sum(handle.size_bytes for handle in entry.handles) / 1e6


def files(folder: Path) -> dict[Path, float]:
    """Return the published files, with the wall-clock time of their publication."""
    return {path: path.stat().st_ctime for path in (folder / "out").glob("part-*")}


def handover(folder: Path, new: Driver, old: Driver) -> dict[str, float]:
    """Return the seconds of each part of one handover, which the command `new` requests."""
    first = newest(folder)
    assert first is not None
    try:
        named: list[LogEntry] = []

        def is_named() -> bool:
            entry = newest(folder)
            if isinstance(entry, CheckpointCompleted) and entry.successor is not None:
                named.append(entry)
            return bool(named) or (entry is not None and entry.owner != first.owner)

        named_s = until(is_named, new, old)
        at = {
            "claimed": until(lambda: (e := newest(folder)) is not None and e.owner != first.owner, new)
        }
        before = files(folder)
        at["running"] = until(
            lambda: isinstance(e := newest(folder), CheckpointCompleted) and e.owner != first.owner,
            new,
        )
        at["published"] = until(lambda: bool(files(folder).keys() - before.keys()), new)
        after = [at_s for path, at_s in files(folder).items() if path not in before]
        pause = min(after) - max(before.values())
        return {**{part: moment - named_s for part, moment in at.items()}, "pause": pause}
    except BaseException:
        print(new.output.read_text(), old.output.read_text(), file=sys.stderr)
        raise


class Handover(NamedTuple):
    parts: dict[str, float]
    """Seconds of each part."""
    steps: dict[str, float]
    """Milliseconds of each step."""


drivers: list[Driver] = []


def begin(folder: Path, name: str, *command: str) -> Driver:
    """Start a driver, which `run_once` ends."""
    drivers.append(Driver(folder, name, *command))
    return drivers[-1]


def run_once(folder: Path, mb: float, rate: int, back: bool, kind: str) -> tuple[list[Handover], float]:
    """Return the handovers, and the megabytes of state."""
    os.environ["RHEOS_HOME"] = str(folder)
    keys = max(1_000, int(mb * 1e6 / _BYTES_PER_KEY[kind]))
    (folder / "job.py").write_text(JOB)
    (folder / "job_v2.py").write_text(JOB)
    try:
        if mb:
            fills = begin(folder, "fills", "run", "job.py", str(keys), "old", "0", kind)
            began = time.monotonic()
            until(lambda: state_mb(folder) >= 0.95 * mb, fills)
            print(f"the state was filled after {time.monotonic() - began:.0f} s", file=sys.stderr)
            fills.end()
        before = len(files(folder))
        old = begin(folder, "old", "run", "job.py", str(keys), "old", str(rate), kind)
        until(lambda: len(files(folder)) >= before + 8, old)
        # It is kept so that its trace can be read.
        command = ["upgrade", "orders", "job_v2.py", "--keep", "10m"]
        new = begin(folder, "new", *command, str(keys), "new", str(rate), kind)
        parts = handover(folder, new, old)
        handovers = [Handover(parts, timeline(old, new))]
        if back:
            time.sleep(3)
            parts = handover(folder, begin(folder, "back", "rollback", "orders"), old)
            handovers.append(Handover(parts, timeline(new, old)))
        return handovers, state_mb(folder)
    finally:
        for driver in drivers:
            driver.end()
        drivers.clear()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("times", nargs="?", type=int, default=3)
    parser.add_argument("--state", type=float, default=0.0, help="state in MB")
    parser.add_argument(
        "--rate", type=int, help="rows per second; by default 50,000, and 5,000 of a function"
    )
    parser.add_argument("--back", action="store_true")
    parser.add_argument("--function", action="store_true", help="state of a function, with timers")
    given = parser.parse_args()
    kind = "function" if given.function else "running"
    rate = _ROWS_PER_S[kind] if given.rate is None else given.rate
    runs = []
    for _ in range(given.times):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(run_once(Path(folder), given.state, rate, given.back, kind))
    size_mb = statistics.median(mb for _, mb in runs)
    print(
        f"{given.times} times, {size_mb:,.0f} MB of state, parallelism 2; seconds since the log named"
    )
    print("the successor, and milliseconds of each step, median (least to most)")
    for number, name in enumerate(["upgrade", "rollback"][: len(runs[0][0])]):
        handovers = [each[number] for each, _ in runs]
        for part in handovers[0].parts:
            print(f"  {name:<10}{part:<32}{spread([each.parts[part] for each in handovers], 2)}")
        for step in handovers[0].steps:
            known = [each.steps[step] for each in handovers if step in each.steps]
            print(f"  {name:<10}{step:<32}{spread(known, 0)}")


def spread(values: list[float], digits: int) -> str:
    """Return the median, the least and the most of some values."""
    median, least, most = statistics.median(values), min(values), max(values)
    return f"{median:8.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


if __name__ == "__main__":
    main()
