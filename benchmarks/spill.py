"""What state costs that is larger than its memory: running aggregates and windows, on disk.

usage: spill.py [SECONDS_PER_CASE]

Rows come in batches of 16,384, with keys drawn evenly. A snapshot is taken every `--every` seconds of a
case, and its files are read, as a checkpoint would. RSS is what the process takes beyond what it took
before the case.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

# One thread, as in a slot; Polars reads it when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import pyarrow as pa
from running_kernel import SCHEMA as RUNNING_SCHEMA
from running_kernel import SPEC, running_context
from window_kernel import ONE_COUNT, VALUES, Case, window_context

from rheos.core.graph.windows import Tumbling
from rheos.core.operators.contract import Operator
from rheos.core.operators.running import RunningOperator
from rheos.core.operators.window.operator import WindowAggregateOperator
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.state_config import MIB, Backend, StateConfig

ROWS = 16_384
SNAPSHOT_EVERY_S = 5.0


def rss_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def snapshot(operator: Operator, number: int, known: set[str]) -> tuple[float, int]:
    """How long the synchronous part took, and what is written."""
    begin = time.perf_counter()
    taken = operator.snapshot(CheckpointId(number))
    took = time.perf_counter() - begin
    written = 0
    for file in taken.files:
        if file.name not in known:
            known.add(file.name)
            written += len(file.read())
    if taken.release is not None:
        taken.release()
    for part in taken.parts:
        tables = part.write()
        written += sum(t.nbytes for t in ([tables] if isinstance(tables, pa.Table) else tables))
    return took, written


def running(keys: int, backend: Backend, state_bytes: int, seconds: float, folder: str) -> str:
    context = replace(
        running_context(),
        state=StateConfig(backend),
        state_bytes=state_bytes,
        scratch=f"{folder}/{backend.value}-{keys}-{state_bytes}",
    )
    operator = RunningOperator(context, SPEC)
    operator.open({})
    rng = np.random.default_rng(7)

    def batch(of: np.ndarray) -> pa.RecordBatch:  # type: ignore[type-arg]
        columns = [pa.array(of * 0x5851F42D4C957F2D), pa.array(rng.random(len(of)))]
        return pa.record_batch([*columns, pa.array(np.arange(len(of)))], schema=RUNNING_SCHEMA)

    with np.errstate(over="ignore"):
        for begin in range(0, keys, ROWS):
            drain(operator.on_batch(0, batch(np.arange(begin, min(begin + ROWS, keys)))))
        batches = [batch(rng.integers(0, keys, ROWS)) for _ in range(64)]
    return measure(operator, batches, seconds)


def measure(operator: Operator, batches: list[pa.RecordBatch], seconds: float) -> str:
    known: set[str] = set()
    snapshot(operator, 1, known)
    rows, number = 0, 1
    longest = 0.0
    written = 0
    begin = at = time.perf_counter()
    next_snapshot = begin + SNAPSHOT_EVERY_S
    while at < begin + seconds:
        for batch in batches[:8]:
            drain(operator.on_batch(0, batch))
            rows += batch.num_rows
        batches = batches[8:] + batches[:8]
        at = time.perf_counter()
        if at >= next_snapshot:
            number += 1
            next_snapshot += SNAPSHOT_EVERY_S
            took, size = snapshot(operator, number, known)
            longest, written = max(longest, took), written + size
    speed = rows / (time.perf_counter() - begin) / 1e6
    text = f"{speed:6.2f} M rows/s"
    if number > 1:
        text += f"   snapshot {longest * 1000:6.0f} ms, {written / (number - 1) / MIB:6.1f} MiB"
    operator.close()
    return text


def windows(case: Case, state_bytes: int | None, rows: int, folder: str) -> str:
    """Fills one window, and fires it."""
    context = window_context(case)
    if state_bytes is not None:
        context = replace(
            context, state_bytes=state_bytes, scratch=f"{folder}/window-{case.name}-{state_bytes}"
        )
    operator = WindowAggregateOperator(context, WindowSpec(case.window, 0, case.aggregates))
    operator.open({})
    rng = np.random.default_rng(7)
    schema = context.ports[0].schema
    most = 0
    begin = time.perf_counter()
    for _ in range(rows // ROWS):
        columns = [
            pa.array(rng.integers(0, case.keys, ROWS)).cast(pa.string()),
            pa.array(rng.random(ROWS)),
            pa.array(rng.integers(0, 1 << 40, ROWS)),
            pa.array(rng.integers(0, case.window.size_ms, ROWS)),
            pa.array(np.full(ROWS, -1)),
        ]
        drain(operator.on_batch(0, pa.record_batch(columns, schema=schema)))
        most = max(most, rss_bytes())
    filled = time.perf_counter()
    state = sum(segment.size_bytes for store in operator._stores() for segment in store)
    came = sum(out.batch.num_rows for out in operator.on_watermark(case.window.size_ms))
    fired = time.perf_counter()
    most = max(most, rss_bytes())
    operator.close()
    taken = rows // ROWS * ROWS
    return (
        f"{taken / (filled - begin) / 1e6:6.2f} M rows/s   state {state / MIB:5.0f} MiB   "
        f"fires {came:>8} rows in {fired - filled:5.2f} s   most RSS {most / MIB:5.0f} MiB"
    )


def drain(outs: Iterator[object]) -> None:
    for _ in outs:
        pass


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 6.0
    with tempfile.TemporaryDirectory() as folder:
        for keys, backend, size in (
            (100_000, Backend.MEMORY, 256 * MIB),
            (100_000, Backend.ROCKSDB, 256 * MIB),
            (100_000, Backend.ROCKSDB, 4 * MIB),
            (1_000_000, Backend.ROCKSDB, 32 * MIB),
        ):
            before = rss_bytes()
            text = running(keys, backend, size, seconds, folder)
            print(
                f"running {keys:>9} keys {backend.value:>8} {size // MIB:>4} MiB {text}"
                f"   RSS {(rss_bytes() - before) / MIB:+5.0f} MiB",
                flush=True,
            )
            gc.collect()
        rows = int(200_000 * seconds)
        case = Case("values", VALUES, window=Tumbling("1h"), keys=100_000)
        count = Case("count", ONE_COUNT, window=Tumbling("1h"), keys=10_000_000)
        for which in (case, count):
            for size_bytes in (8 * MIB, None):
                held = "in memory" if size_bytes is None else f"{size_bytes // MIB} MiB"
                print(f"window {which.name:>6} {held:>9} {windows(which, size_bytes, rows, folder)}")


if __name__ == "__main__":
    main()
