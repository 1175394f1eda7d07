"""Processor time of checkpoints and restores of one subtask's state, stage by stage.

usage: python -m benchmarks.checkpoint_parts [--keys N] [--value-bytes N] [--rounds N]

Two states in memory: the running count and sum of integer keys that arrive at random, and one value of
bytes for each key of a Python function. In each round, half of the keys change, and the whole state is
written into files of a local store, read, and restored. Times are those of the thread that does it, per
key: the median of the rounds and its interval. Stages, in their order:

    held up     the synchronous part, for which processing stops
    tables      the rows, as Arrow tables in the order of their key groups
    encode      the files of these tables, in memory
    checksum    of these files
    write       to the disk, synced
    read        from the disk, with the checksum
    restore     an empty state from these files
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.cli.benchmarks.intervals import MIN_ROUNDS, median_interval
from rheos.core import aggregates as agg
from rheos.core.graph.state import ValueState
from rheos.core.operators.running_state import KeptAggregates, MemoryRunningState
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.format import decode, encode
from rheos.core.state.keys import KeyCodec
from rheos.core.state.kinds import handle_of
from rheos.core.state.memory import MemoryBackend
from rheos.core.state.rocksdb.backend import RocksDbBackend
from rheos.core.state.scope import KeyScope
from rheos.runtimes.host.io import SystemClock
from rheos.runtimes.host.memory_tuning import freed_memory_kept
from rheos.runtimes.host.stores import LocalStore

GROUPS = 128
BATCH_ROWS = 1 << 16
STAGES = ("held up", "tables", "encode", "checksum", "write", "read", "restore")


class RunningTotals:
    """The state of running aggregates."""

    name = "running count and sum"

    def __init__(self, keys: int) -> None:
        self._schema = pa.schema([("k", pa.int64()), ("v", pa.float64())])
        self._rng = np.random.default_rng(1)
        self._keys = self._rng.integers(0, 1 << 60, keys)
        self._state = self._empty()
        self._add(self._keys)

    def _empty(self) -> MemoryRunningState:
        kept = KeptAggregates(self._schema, ("k",), {"count": agg.count(), "sum": agg.sum("v")})
        return MemoryRunningState(kept, name="running", max_parallelism=GROUPS)

    def _add(self, keys: np.ndarray) -> None:
        for begin in range(0, len(keys), BATCH_ROWS):
            some = keys[begin : begin + BATCH_ROWS]
            columns = [pa.array(some), pa.array(some.astype(float))]
            batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
            self._state.run(self._state.slots_of(batch.columns[:1]), batch)

    def change(self) -> None:
        self.change_some(len(self._keys) // 2)
        self._state.force_full()

    def change_some(self, keys: int) -> None:
        """Change this number of keys, chosen at random."""
        self._add(self._rng.permutation(self._keys)[:keys])

    def snapshot(self) -> SnapshotPart:
        return self._state.snapshot()

    def take(self) -> Snapshot:
        """Return the next snapshot."""
        return Snapshot([self.snapshot()])

    def restore(self, tables: Iterator[pa.Table]) -> None:
        self._empty().restore(tables)


class Values:
    """The state of a Python function with one value per key, in memory, or in RocksDB in a folder."""

    def __init__(
        self, keys: int, value_bytes: int, folder: Path | None = None, memory_bytes: int = 0
    ) -> None:
        self.name = f"values of {value_bytes:,} bytes"
        self._codec = KeyCodec(pa.schema([("k", pa.int64())]), ("k",))
        self._rng = np.random.default_rng(1)
        self._backend, self._handle = self._empty(folder, memory_bytes)
        self._pool = [os.urandom(value_bytes) for _ in range(1_000)]
        self._keys = keys
        self._put(range(keys))

    def _empty(
        self, folder: Path | None = None, memory_bytes: int = 0
    ) -> tuple[KeyedStateBackend, Any]:
        scope = KeyScope(SystemClock())
        backend: KeyedStateBackend
        if folder is None:
            backend = MemoryBackend(self._codec, GROUPS, scope)
        else:
            backend = RocksDbBackend(
                self._codec,
                GROUPS,
                range(GROUPS),
                scope,
                folder=str(folder),
                writer="1-0",
                memory_bytes=memory_bytes,
            )
        declared = ValueState(bytes)
        declared.name = "data"
        handle = handle_of(declared, backend)
        if folder is not None:
            backend.restore({})
        return backend, handle

    def _put(self, keys: Sequence[int]) -> None:
        stride = min(self._backend.stride, len(keys))
        for begin in range(0, len(keys), stride):
            some = keys[begin : begin + stride]
            self._backend.prepare(some)
            for self._backend.scope.key in some:
                self._handle.value = self._pool[self._backend.scope.key % len(self._pool)]

    def change(self) -> None:
        self._put(range(0, self._keys, 2))
        self._backend.force_full()

    def change_some(self, keys: int) -> None:
        """Change this number of keys, chosen at random."""
        self._put(self._rng.permutation(self._keys)[:keys].tolist())

    def snapshot(self) -> SnapshotPart:
        [part] = self.take().parts
        return part

    def take(self) -> Snapshot:
        """Return the next snapshot."""
        return self._backend.snapshot()

    def restore(self, tables: Iterator[pa.Table]) -> None:
        self._empty()[0].restore({"data": tables})


def stages(state: RunningTotals | Values, store: LocalStore) -> list[tuple[str, float]]:
    """Return the processor time of each step of a checkpoint and a restore, in seconds."""

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        began = time.thread_time()
        made = work()
        spent.append((stage, time.thread_time() - began))
        return made

    spent: list[tuple[str, float]] = []
    part = timed("held up", state.snapshot)
    written = timed("tables", part.write)
    tables = iter([written] if isinstance(written, pa.Table) else written)
    paths: list[str] = []
    while (table := timed("tables", partial(next, tables, None))) is not None:
        paths.append(f"state/{len(paths)}.arrow")
        data = timed("encode", partial(encode, table, part.kind, part.mode))
        timed("checksum", partial(zlib.crc32, data))
        timed("write", partial(store.put, paths[-1], data))
        del data

    def read() -> Iterator[pa.Table]:
        for path in paths:
            data = timed("read", partial(store.get, path))
            timed("read", partial(zlib.crc32, data))
            yield decode(data, range(GROUPS))

    timed("restore", partial(state.restore, read()))
    # Files are read in the course of the restore.
    spent.append(("restore", -sum(took_s for stage, took_s in spent if stage == "read")))
    for path in paths:
        store.delete(path)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--keys", type=int, default=4_000_000)
    parser.add_argument("--value-bytes", type=int, default=1_000)
    parser.add_argument("--values", type=int, default=250_000, help="number of keys with values")
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    given = parser.parse_args()
    states: list[tuple[RunningTotals | Values, int]] = [
        (RunningTotals(given.keys), given.keys),
        (Values(given.values, given.value_bytes), given.values),
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(1) as thread,
        freed_memory_kept(),
    ):
        store = LocalStore(folder)
        rounds: list[list[dict[str, float]]] = [[] for _ in states]
        for _ in range(given.rounds):
            for (state, keys), measured in zip(states, rounds, strict=True):
                state.change()
                spent = dict.fromkeys(STAGES, 0.0)
                for stage, took_s in thread.submit(stages, state, store).result():
                    spent[stage] += took_s * 1e9 / keys
                measured.append(spent)
    print("| ns of processor time per key | " + " | ".join(state.name for state, _ in states) + " |")
    print("|---|" + "---:|" * len(states))
    for stage in STAGES:
        cells = [_cell([spent[stage] for spent in measured]) for measured in rounds]
        print(f"| {stage} | " + " | ".join(cells) + " |")


def _cell(values: list[float]) -> str:
    interval = median_interval(values)
    return "too few rounds" if interval is None else interval.text("{:,.0f}".format)


if __name__ == "__main__":
    main()
