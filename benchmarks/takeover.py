"""How long a job takes to go on under a driver that stands by when its own is killed.

usage: python benchmarks/takeover.py [TIMES] [--away] [--state MB] [--ahead]

Two drivers of one job, each by `rheos run --standby`; the one that runs it is killed with SIGKILL after
some checkpoints. With --away they have process ids of their own, as on two hosts, so that the one that
stands by can only watch the note of the other; that needs root. With --state, a function stores values
of 1,000 bytes, until its state is so large; then 20,000 of them change every second. With --ahead, the
slots of the driver that stands by restore the checkpoints ahead. Parts follow one another:

    noticed     the other driver says that it takes the job over
    claimed     its attempt is in the log: Spark's session is there
    running     its first checkpoint is in the log: workers have the program and their state
    published   the sink has published a new file
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import CheckpointCompleted, LogEntry, decode_entry
from rheos.core.protocol.ids import JobId
from rheos.runtimes.host.stores import open_store

JOB = """
import sys
import rheos as rh

env = rh.Environment(2, runtime="continuous", checkpoint_interval="500ms")
numbers = env.from_source(
    rh.generator(lambda block: {"k": block.index() % 1000}, rate_per_s=10_000, splits=2)
)
numbers.key_by("k").running(n=rh.agg.count()).sink_to(rh.files.sink(sys.argv[1]))
env.execute("takeover")
"""
LARGE_JOB = """
import os
import sys
import rheos as rh

KEYS = int(sys.argv[2]) * 1_000

class Keep(rh.KeyedProcessFunction):
    data = rh.ValueState(bytes, default=b"")

    def open(self):
        self.rest = os.urandom(992)

    def process_element(self, row, ctx):
        seen = int.from_bytes(self.data.value[:8], "little") + 1
        self.data.value = seen.to_bytes(8, "little") + self.rest
        if row.k % 10 == 0:
            yield {"k": row.k, "n": seen}

env = rh.Environment(2, runtime="continuous", checkpoint_interval="1s")
every = env.from_source(rh.generator(lambda block: {"k": block.index()}, count=KEYS))
some = rh.generator(
    lambda block: {"k": block.rng().integers(0, KEYS, block.rows)}, rate_per_s=20_000
)
kept = every.union(env.from_source(some)).key_by("k").process(Keep(), returns={"k": int, "n": int})
kept.sink_to(rh.files.sink(sys.argv[1]))
env.execute("takeover")
"""
_WITHIN_S = 180.0


class Driver:
    """One of the two, and what it says."""

    def __init__(self, folder: Path, name: str, given: argparse.Namespace) -> None:
        self.said = folder / f"{name}.log"
        rheos = str(Path(sys.executable).parent / "rheos")
        ahead = ["--restore-ahead"] if given.ahead else []
        arguments = ["out", str(given.state)]
        command = [rheos, "run", "job.py", "--checkpoint-dir", "kept", "--standby", *ahead, *arguments]
        if given.away:
            command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *command]
        with self.said.open("w") as out:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                stdout=out,
                stderr=out,
                env={**os.environ, "RHEOS_HOME": str(folder)},
            )

    def says(self, what: str) -> float:
        def said() -> bool:
            assert self.process.poll() is None, self.said.read_text()
            return what in self.said.read_text()

        return until(said)

    def memory_mb(self) -> float:
        """Of the driver, and of all that it has started."""
        own = psutil.Process(self.process.pid)
        return sum(each.memory_info().rss for each in (own, *own.children(recursive=True))) / 1e6

    def kill(self) -> float:
        """Its JVM and workers see that it is gone, and follow."""
        own = psutil.Process(self.process.pid)
        rest = own.children(recursive=True)
        at = time.monotonic()
        (rest[0] if rest and "unshare" in own.name() else own).send_signal(signal.SIGKILL)
        self.process.wait()
        return at

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def until(condition: Callable[[], bool]) -> float:
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > _WITHIN_S:
            raise TimeoutError(f"it did not come about within {_WITHIN_S:g} s")
        time.sleep(0.02)
    return time.monotonic()


def entries(folder: Path) -> list[LogEntry]:
    store = open_store(str(folder / "kept"))
    log = JobLog(store, JobId("takeover"))
    paths = sorted(store.list(log.folder))
    return [decode_entry(store.get(path), path).entry for path in paths]


def stored_bytes(folder: Path) -> int:
    """Return the size of the newest checkpoint."""
    completed = [entry for entry in entries(folder) if isinstance(entry, CheckpointCompleted)]
    return sum(handle.size_bytes for handle in completed[-1].handles) if completed else 0


def parts(folder: Path, given: argparse.Namespace) -> tuple[dict[str, float], float]:
    """Seconds since the kill, by part; and the megabytes of the driver that stood by."""
    (folder / "job.py").write_text(LARGE_JOB if given.state else JOB)
    first = Driver(folder, "first", given)
    second: Driver | None = None
    try:
        until(lambda: first.process.poll() is not None or len(entries(folder)) >= 4)
        until(lambda: stored_bytes(folder) >= given.state * 1e6)
        second = Driver(folder, "second", given)
        second.says("standing by")
        began = len(entries(folder))
        # Its slots have started, and follow the checkpoints.
        until(lambda: len(entries(folder)) >= began + (40 if given.ahead else 10))
        waits_mb = second.memory_mb()
        killed = first.kill()
        owner = entries(folder)[-1].owner
        at = {"noticed": second.says("taking over the job")}
        at["claimed"] = until(lambda: entries(folder)[-1].owner != owner)
        old = set((folder / "out").glob("part-*"))
        newest = lambda: entries(folder)[-1]  # noqa: E731
        at["running"] = until(
            lambda: newest().owner != owner and isinstance(newest(), CheckpointCompleted)
        )
        at["published"] = until(lambda: bool(set((folder / "out").glob("part-*")) - old))
        return {part: moment - killed for part, moment in at.items()}, waits_mb
    finally:
        for driver in (first, second):
            if driver is not None:
                driver.end()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("times", nargs="?", type=int, default=3)
    parser.add_argument("--away", action="store_true")
    parser.add_argument("--state", type=int, default=0, metavar="MB")
    parser.add_argument("--ahead", action="store_true")
    given = parser.parse_args()
    runs = []
    for _ in range(given.times):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(parts(Path(folder), given))
    waits_mb = statistics.median(mb for _, mb in runs)
    where = "elsewhere" if given.away else "on the same host"
    print(
        f"{given.times} times, {where}; the driver that stands by has {waits_mb:,.0f} MB; seconds since"
    )
    print("the kill, median (least to most), and of which this part")
    before = [0.0] * given.times
    for part in runs[0][0]:
        moments = [at[part] for at, _ in runs]
        step = statistics.median(m - b for m, b in zip(moments, before, strict=True))
        span = f"{statistics.median(moments):6.2f} ({min(moments):.2f} to {max(moments):.2f})"
        print(f"  {part:<12}{span}{step:10.2f}")
        before = moments


if __name__ == "__main__":
    main()
