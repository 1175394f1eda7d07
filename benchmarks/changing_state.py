"""Cost of checkpoints of large state, by the share of its keys that change between two of them.

usage: python -m benchmarks.changing_state [--mb N] [--shares N ...] [--intervals S ...] [--rounds N]

The state is that of one slot. In each round a share of the keys changes, and a checkpoint writes the
changes into files of a local store. The chain of parts decides when it writes all keys again: the cost
is the mean of the checkpoints of a chain. The cost at an interval is the processor time of a checkpoint
as a share of that of one core. It contains the synchronous parts, for which processing stops, and the
writes in other threads. Kinds of state:

    sums       the running count and sum of integer keys, in arrays: 24 bytes a key
    values     a value of 1,000 bytes a key of a Python function, in memory
    rocksdb    the same in RocksDB; its own threads are included

The floor is the processor time of one copy in memory and one write to the disk of the same bytes.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.checkpoint_parts import RunningTotals, Values
from rheos.cli.benchmarks.intervals import MIN_ROUNDS, median_interval
from rheos.core.checkpoint.snapshot_writer import SnapshotWriter
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.snapshots import Snapshot
from rheos.core.state.format import encode
from rheos.runtimes.host.io import ThreadedIo
from rheos.runtimes.host.memory_tuning import collecting_seldom, freed_memory_kept
from rheos.runtimes.host.stores import LocalStore

OPERATOR = OperatorId("state")
PIECE_BYTES = 16 << 20
MEMORY_BYTES = 256 << 20
"""Memory of RocksDB."""


class State(Protocol):
    """Keyed state whose keys can be changed."""

    def change_some(self, keys: int) -> None:
        """Change this number of keys, chosen at random."""

    def take(self) -> Snapshot:
        """Return the next snapshot."""


@dataclass(frozen=True)
class Cost:
    """Cost of one checkpoint: processor times in seconds, and bytes written."""

    held_s: float
    """Processor time while processing stops."""
    processor_s: float
    written_bytes: int


class Checkpoints:
    """Writes the checkpoints of one state into a store, and deletes files that no chain needs."""

    def __init__(self, store: LocalStore, state: State) -> None:
        self._store = store
        self._state = state
        self._woken = threading.Event()
        self._io = ThreadedIo(1, self._woken.set)
        self._writer = SnapshotWriter(JobId("job"), Attempt(1), 0, store, self._io, encode)
        self._paths: set[str] = set()
        self._number = 0

    def take(self) -> Cost:
        self._number += 1
        began = time.process_time()
        snapshot = self._state.take()
        pending = self._writer.begin(CheckpointId(self._number), [(OPERATOR, snapshot)])
        done = pending.done()
        held_s = time.process_time() - began
        while not done:
            self._woken.wait()
            self._woken.clear()
            stopped = time.process_time()
            done = pending.done()
            held_s += time.process_time() - stopped
        processor_s = time.process_time() - began
        assert not pending.failures()
        paths = {handle.path for handle in pending.handles() if handle.path}
        for path in self._paths - paths:
            self._store.delete(path)
        self._paths = paths
        return Cost(held_s, processor_s, pending.written_bytes())

    def close(self) -> None:
        self._io.close()


def floor_s(store: LocalStore, size_bytes: int) -> float:
    """Return the processor time of a copy and a write of this number of bytes."""
    data = np.random.default_rng(1).integers(0, 256, PIECE_BYTES, np.uint8)
    pieces = max(size_bytes // PIECE_BYTES, 1)
    began = time.process_time()
    for _ in range(pieces):
        store.put("floor", data.copy().data)
    took_s = time.process_time() - began
    store.delete("floor")
    return took_s * size_bytes / (pieces * PIECE_BYTES)


def states(mb: float, kinds: Sequence[str], folder: Path) -> dict[str, tuple[Callable[[], State], int]]:
    """Return functions that fill the states, and their numbers of keys."""
    sums, values = int(mb * 1e6 / 24), int(mb * 1e6 / 1000)
    made: dict[str, tuple[Callable[[], State], int]] = {
        "sums": (lambda: RunningTotals(sums), sums),
        "values": (lambda: Values(values, 1000), values),
        "rocksdb": (lambda: Values(values, 1000, folder / "rocksdb", MEMORY_BYTES), values),
    }
    return {kind: made[kind] for kind in kinds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mb", type=float, default=500, help="state of the slot")
    parser.add_argument("--kinds", nargs="+", default=["sums", "values", "rocksdb"])
    parser.add_argument("--shares", type=int, nargs="+", default=[100, 10, 1], help="in per cent")
    parser.add_argument("--intervals", type=int, nargs="+", default=[5, 10, 30, 60], help="in seconds")
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    given = parser.parse_args()
    intervals = " | ".join(f"{interval} s" for interval in given.intervals)
    print(f"| state | changed | MB written | held up, ms | floor, ms | processor, ms | {intervals} |")
    print("|---|---:|---:|---:|---:|---:|" + "---:|" * len(given.intervals))
    with tempfile.TemporaryDirectory() as name, freed_memory_kept(), collecting_seldom():
        store = LocalStore(str(Path(name, "store")))
        for kind, (fill, keys) in states(given.mb, given.kinds, Path(name)).items():
            state = fill()
            with closing(Checkpoints(store, state)) as checkpoints:
                checkpoints.take()
                for share in given.shares:
                    # A chain is as long as its changes add up to all keys.
                    length = min(100 // share, 10)
                    rounds = []
                    for _ in range(given.rounds):
                        costs = []
                        for _ in range(length):
                            state.change_some(keys * share // 100)
                            costs.append(checkpoints.take())
                        rounds.append(costs)
                    print(_line(kind, share, rounds, store, given.intervals), flush=True)


def _line(
    kind: str, share: int, rounds: Sequence[Sequence[Cost]], store: LocalStore, intervals: Sequence[int]
) -> str:
    def means(of: Callable[[Cost], float]) -> list[float]:
        return [sum(map(of, costs)) / len(costs) for costs in rounds]

    def cell(values: Sequence[float], form: Callable[[float], str]) -> str:
        interval = median_interval(values)
        return "too few rounds" if interval is None else interval.text(form)

    size = means(lambda cost: cost.written_bytes)
    total_s = means(lambda cost: cost.processor_s)
    floors = [floor_s(store, int(bytes_)) for bytes_ in size]
    cells = [
        kind,
        f"{share} %",
        f"{sorted(size)[len(size) // 2] / 1e6:,.0f}",
        cell([1000 * held_s for held_s in means(lambda cost: cost.held_s)], "{:,.0f}".format),
        cell([1000 * value for value in floors], "{:,.0f}".format),
        cell([1000 * value for value in total_s], "{:,.0f}".format),
    ]
    cells += [cell([value / interval for value in total_s], "{:.1%}".format) for interval in intervals]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
