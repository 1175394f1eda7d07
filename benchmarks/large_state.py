"""State many times the memory for it: what an access, a checkpoint and a restore cost.

    python benchmarks/large_state.py --memory-mib 16 --times 10

Fills the state of one subtask, without Spark or an exchange, until it is so many times the memory that
it may take; then reads and writes it, in turns all over and within a hundredth of the keys; then takes
checkpoints and restores the last one. The memory printed is the process's, without what it had before
the state.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pyarrow as pa

from rheos.core.graph.state import ValueState
from rheos.core.protocol.snapshots import RestoredFiles, RestoredState
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.keys import KeyCodec
from rheos.core.state.kinds import handle_of
from rheos.core.state.memory import MemoryBackend
from rheos.core.state.rocksdb.backend import RocksDbBackend
from rheos.core.state.rocksdb.files import FILES
from rheos.core.state.scope import KeyScope
from rheos.runtimes.host.io import SystemClock

MIB = 1 << 20
GROUPS = 128
KEYS = KeyCodec(pa.schema([("user", pa.string())]), ("user",))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--memory-mib", type=int, default=16)
    arguments.add_argument("--times", type=float, default=10)
    arguments.add_argument("--value-bytes", type=int, default=200)
    arguments.add_argument("--accesses", type=int, default=100_000)
    arguments.add_argument("--backend", choices=["rocksdb", "memory"], default="rocksdb")
    given = arguments.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rheos-large-state-"))
    try:
        measure(given, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Files(RestoredState):
    """What a checkpoint has left, as files on the disk."""

    def __init__(self, folder: Path) -> None:
        files = {path.name: path.read_bytes for path in folder.iterdir()}
        self.files = [RestoredFiles(range(GROUPS), True, files)]

    def __iter__(self):  # type: ignore[no-untyped-def]
        raise NotImplementedError


def measure(given: argparse.Namespace, folder: Path) -> None:
    users = int(given.memory_mib * MIB * given.times / (given.value_bytes + 20))
    names = [f"user {i:010d}" for i in range(users)]
    process = psutil.Process()
    import rocksdict  # noqa: F401 - it takes memory, too.

    before = process.memory_info().rss

    def line(what: str, *measurements: str) -> None:
        rss = (process.memory_info().rss - before) / MIB
        print(f"{what:34}{rss:8.0f} MiB in memory   {'   '.join(measurements)}", flush=True)

    def backend(name: str) -> KeyedStateBackend:
        if given.backend == "memory":
            return MemoryBackend(KEYS, GROUPS, KeyScope(SystemClock()))
        return RocksDbBackend(
            KEYS,
            GROUPS,
            range(GROUPS),
            KeyScope(SystemClock()),
            folder=str(folder / name),
            writer=name,
            memory_bytes=given.memory_mib * MIB,
        )

    state = ValueState(str)
    state.name = "text"
    kept = backend("1-0")
    handle = handle_of(state, kept)
    kept.restore({})
    size = users * (given.value_bytes + 20) / MIB
    print(f"{users:,} keys, {size:,.0f} MiB of values, for which there are {given.memory_mib} MiB")

    def visit(keys: Sequence[str], use: Callable[[], None]) -> str:
        """How long one took, and how much of it this thread worked."""
        scope, stride = kept.scope, min(kept.stride, 1 << 14)
        began, worked = time.perf_counter(), time.thread_time()
        for first in range(0, len(keys), stride):
            chunk = keys[first : first + stride]
            kept.prepare(chunk)
            for scope.key in chunk:
                use()
        each = 1e6 / len(keys)
        return (
            f"{(time.perf_counter() - began) * each:6.2f} us each, "
            f"{(time.thread_time() - worked) * each:6.2f} of the processor"
        )

    pool = [os.urandom(given.value_bytes // 2).hex() for _ in range(1_000)]

    def write() -> None:
        key = kept.scope.key
        handle.value = pool[int(key[5:]) % 1_000][len(key) :] + key

    def read() -> None:
        assert handle.value is not None

    def update() -> None:
        handle.value = handle.value[1:] + "x"

    rng = random.Random(1)
    line("filled", visit(names, write))
    hot = names[: max(1, users // 100)]
    rng.shuffle(names)
    some = names[: given.accesses]
    line("read all over", visit(some, read))
    line("read and written all over", visit(some, update))
    again = [rng.choice(hot) for _ in range(given.accesses)]
    visit(again, update)
    line("read, a hundredth of the keys", visit(again, read))
    line("read and written, of these", visit(again, update))

    seen: dict[str, int] = {}
    for number in range(4):
        began = time.perf_counter()
        snapshot = kept.snapshot()
        sync = time.perf_counter() - began
        target = folder / f"checkpoint {number}"
        target.mkdir()
        new = 0
        files = [] if snapshot.files is None else snapshot.files.complete()
        for file in files:
            data = file.read()
            (target / file.name).write_bytes(data)
            new += 0 if file.name in seen else len(data)
            seen[file.name] = len(data)
        for part in snapshot.parts:
            table = part.write()
            new += table.nbytes if isinstance(table, pa.Table) else 0
        if snapshot.release is not None:
            snapshot.release()
        whole = sum(seen[file.name] for file in files) or new
        line(
            f"checkpoint {number + 1}",
            f"{sync * 1000:.0f} ms synchronous",
            f"{new / MIB:.1f} MiB new of {whole / MIB:.1f}",
        )
        last = target
        visit(rng.sample(names, users // 100), update)
    kept.close()
    if given.backend == "rocksdb":
        kept = backend("2-0")
        handle = handle_of(state, kept)
        began = time.perf_counter()
        kept.restore({FILES: Files(last)})
        line("restored", f"{time.perf_counter() - began:.2f} s")
        line("read all over", visit(some, read))
        kept.close()


if __name__ == "__main__":
    main()
