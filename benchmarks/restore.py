"""Checkpoint size and restore time against the size of the state, drawn.

usage: restore.py [--sizes MB ...] [--backends memory rocksdb] [--parallelism P]

A keyed function keeps a value of 1,000 random bytes for each key. When all keys are in, one checkpoint
is taken of all, and one after a hundredth of them has changed. The job is then cancelled and started
again in the same session: the time counts from the start until every subtask has its state. What of it
Spark and the imports take is seen from the smallest state. All times in seconds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import rheos as rh

VALUE_BYTES = 1000
INTERVAL = "2s"
_ROWS = pa.schema([("k", pa.int64()), ("data", pa.binary(VALUE_BYTES))])
_OUT = pa.schema([("k", pa.int64())])
_BAR = 40


class Keep(rh.KeyedProcessFunction):
    """Keeps the last value of each key. Shows that it is open by a file."""

    data = rh.ValueState(bytes, default=b"")

    def __init__(self, opened: str) -> None:
        self.opened = opened

    def open(self) -> None:
        tempfile.mkstemp(dir=self.opened)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> None:
        self.data.value = row.data


@dataclass(frozen=True)
class Values:
    """First every key once; then a hundredth of them again and again."""

    keys: int
    splits: int

    def __call__(self, block: Any) -> dict[str, Any]:
        order = block.index() * self.splits + block.split
        again = order % max(self.keys // 100, 1)
        data = block.rng().bytes(VALUE_BYTES * block.rows)
        values = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(VALUE_BYTES), block.rows, [None, pa.py_buffer(data)]
        )
        return {"k": np.where(order < self.keys, order, again), "data": values}


@dataclass(frozen=True)
class Figures:
    backend: str
    state_mb: float
    full_mb: float
    full_s: float
    sync_s: float
    changed_mb: float
    changed_s: float
    restore_s: float


def submit(folder: Path, keys: int, backend: Any, parallelism: int, restore: bool) -> tuple[Any, Path]:
    opened = Path(tempfile.mkdtemp(dir=folder))
    env = rh.Environment(
        parallelism,
        runtime="continuous",
        checkpoint_dir=folder / "checkpoints",
        checkpoint_interval=INTERVAL,
        state=backend,
    )
    # Quick until all keys are in; what follows them shall leave time to look.
    source = rh.generator(
        Values(keys, parallelism), schema=_ROWS, splits=parallelism, block_rows=1024,
        rate_per_s=None if not restore else 1000,
    )  # fmt: skip
    kept = env.from_source(source, name="values").key_by("k")
    kept.process(Keep(str(opened)), returns=_OUT).name("keep").sink_to(rh.files.sink(folder / "out"))
    return env.execute_async("restore"), opened


def until(condition: Callable[[], bool], what: str, within_s: float = 600.0) -> float:
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > within_s:
            raise TimeoutError(f"{what}: not within {within_s:g} s")
        time.sleep(0.005)
    return time.monotonic()


def seen(job: Any) -> int:
    return sum(operator.records_in for operator in job.status().operators if operator.name == "keep")


def newest(job: Any) -> Any:
    return job.checkpoints()[-1] if job.checkpoints() else None


def next_checkpoint(job: Any, after: int) -> Any:
    until(lambda: newest(job) is not None and newest(job).checkpoint > after, "a checkpoint")
    return newest(job)


def measure(keys: int, backend: str, parallelism: int) -> Figures:
    with tempfile.TemporaryDirectory(prefix="rheos-restore-") as name:
        folder = Path(name)
        job, _ = submit(folder, keys, backend, parallelism, restore=False)
        try:
            until(lambda: seen(job) >= keys, "all keys")
            # One may be under way that began before the last key.
            whole = next_checkpoint(job, newest(job).checkpoint + 1 if newest(job) else 1)
            changed = next_checkpoint(job, whole.checkpoint)
        finally:
            job.cancel()
        began = time.monotonic()
        job, opened = submit(folder, keys, backend, parallelism, restore=True)
        try:
            restored = until(lambda: len(list(opened.iterdir())) == parallelism, "restored") - began
        finally:
            job.cancel()
        mb = 1e6
        return Figures(
            backend,
            keys * VALUE_BYTES / mb,
            whole.state_bytes / mb,
            whole.duration_ms / 1000,
            whole.cost.sync_us / 1e6,
            changed.cost.written_bytes / mb,
            changed.duration_ms / 1000,
            restored,
        )


def drawn(measurements: Sequence[Figures]) -> list[str]:
    """A Markdown table, and a bar for each restore."""
    lines = [
        "| backend | state MB | checkpoint MB | took s | held up s | 1 % changed: wrote MB | took s "
        "| start to restored s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {f.backend} | {f.state_mb:,.0f} | {f.full_mb:,.1f} | {f.full_s:.2f} | {f.sync_s:.3f} "
        f"| {f.changed_mb:,.1f} | {f.changed_s:.2f} | {f.restore_s:.2f} |"
        for f in measurements
    ]
    longest = max(f.restore_s for f in measurements)
    lines += ["", "start to restored"]
    lines += [
        f"{f.backend:>8} {f.state_mb:>7,.0f} MB  {'#' * max(round(_BAR * f.restore_s / longest), 1)} "
        f"{f.restore_s:.2f} s"
        for f in measurements
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1, 10, 50, 200, 1000, 2000])
    parser.add_argument("--backends", nargs="+", default=["memory", "rocksdb"])
    parser.add_argument("--parallelism", type=int, default=2)
    given = parser.parse_args()
    measurements = []
    warm_up = True
    for backend in given.backends:
        for size in given.sizes:
            keys = max(round(size * 1e6 / VALUE_BYTES), given.parallelism)
            if warm_up:
                measure(100, backend, given.parallelism)
                warm_up = False
            print(f"{backend}, {size:g} MB", file=sys.stderr)
            measurements.append(measure(keys, backend, given.parallelism))
    print("\n".join(drawn(measurements)))


if __name__ == "__main__":
    main()
