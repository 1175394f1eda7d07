"""Writes the snapshots of this version, to be kept for ever: `python -m tests.compat.make_golden`.

Run it once for each release, and commit the folder `tests/compat/<version>`. A folder that is there is
never written again: a reader that no longer takes it is wrong.

    savepoint.zip     a savepoint of the program, taken in the middle of its input
    checkpoints.zip   its checkpoint directory, as it lies there when the driver is lost
    rocksdb.zip       the same, with state kept in RocksDB
    surface.txt       the names, commands, REST operations and metrics that users may rely on

Each zip also has `published.json`, the rows that the sinks had published by then. RocksDB writes the
host name into its files; `unshare --uts` gives it another.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from rheos.core.checkpoint.log import JobLog
from rheos.core.protocol.snapshots import PartMode
from rheos.core.protocol.state_config import Backend
from tests.compat.programs import released
from tests.compat.surface import surface
from tests.compat.worlds import JOB, Kept, begin

FOLDER = Path(__file__).parent
PUBLISHED = "published.json"
SURFACE = "surface.txt"
MIDDLE_US = 220_000
"""When about half of the rows have been read."""
LATER_US = 320_000
"""When there have been several checkpoints, and there is still more to read."""


BACKENDS = {"checkpoints": Backend.MEMORY, "rocksdb": Backend.ROCKSDB}
"""Of the checkpoint directories."""


def main() -> None:
    folder = FOLDER / version("rheos")
    if folder.exists():
        sys.exit(f"{folder} is there already, and is not made again")
    folder.mkdir()
    taken, directory = with_savepoint()
    pack(folder / "savepoint.zip", below(taken.world.store.files, f"{directory}/"), taken)
    for kind, backend in BACKENDS.items():
        lost = with_checkpoints(backend)
        pack(folder / f"{kind}.zip", lost.world.store.files, lost)
    (folder / SURFACE).write_text("".join(f"{line}\n" for line in sorted(surface())))


def with_savepoint() -> tuple[Kept, str]:
    """Publishes with the savepoint alone."""
    kept = begin(released)
    until(kept, MIDDLE_US)
    return kept, kept.job().savepoint("savepoints")


def with_checkpoints(backend: Backend) -> Kept:
    """Loses its driver between two checkpoints; in the first world whose newest one has a delta."""
    for seed in range(7, 40):
        kept = begin(released, interval_ms=10, backend=backend, seed=seed)
        until(kept, LATER_US)
        completed = JobLog(kept.world.store, JOB).read().completed
        if completed and any(handle.mode is PartMode.DELTA for handle in completed[-1].entry.handles):
            return kept
    raise AssertionError("no world has a delta in its newest checkpoint")


def until(kept: Kept, us: int) -> None:
    clock = kept.world.clock
    kept.world.run_until(lambda: clock.monotonic_us() >= us)
    assert not kept.world.master.done


def below(files: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    return {path.removeprefix(prefix): data for path, data in files.items() if path.startswith(prefix)}


def pack(archive: Path, files: Mapping[str, bytes], kept: Kept) -> None:
    told = {output: sink.published for output, sink in kept.sinks.items()}
    with zipfile.ZipFile(archive, "x", zipfile.ZIP_DEFLATED) as packed:
        for path, data in {**files, PUBLISHED: json.dumps(told).encode()}.items():
            packed.writestr(path, data)


if __name__ == "__main__":
    main()
