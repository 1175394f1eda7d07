"""Writes the snapshots of this version, to be kept for ever: `python -m tests.compat.make_golden`.

Run it once for each release, and commit the folder `tests/compat/<version>`. A folder that is there is
never written again: a reader that no longer takes it is wrong.

    savepoint/        a savepoint of the program, taken in the middle of its input
    checkpoints/      its checkpoint directory, as it lies there when the driver is lost
    published.json    what its sinks had published by then, of each
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from tests.compat.programs import released
from tests.compat.worlds import Kept, begin

FOLDER = Path(__file__).parent
MIDDLE_US = 220_000
"""When about half of the rows have been read."""
LATER_US = 320_000
"""When there have been several checkpoints, and there is still more to read."""


def main() -> None:
    folder = FOLDER / version("rheos")
    if folder.exists():
        sys.exit(f"{folder} is there already, and is not made anew")
    taken, directory = with_savepoint()
    write(folder / "savepoint", below(taken.world.store.files, f"{directory}/"))
    lost = with_checkpoints()
    write(folder / "checkpoints", lost.world.store.files)
    published = {"savepoint": taken, "checkpoints": lost}
    told = {
        name: {of: sink.published for of, sink in kept.sinks.items()}
        for name, kept in published.items()
    }
    (folder / "published.json").write_text(json.dumps(told, indent=1, sort_keys=True))


def with_savepoint() -> tuple[Kept, str]:
    """Publishes with the savepoint alone."""
    kept = begin(released)
    until(kept, MIDDLE_US)
    return kept, kept.job().savepoint("savepoints")


def with_checkpoints() -> Kept:
    """Loses its driver between two checkpoints."""
    kept = begin(released, interval_ms=10)
    until(kept, LATER_US)
    return kept


def until(kept: Kept, us: int) -> None:
    clock = kept.world.clock
    kept.world.run_until(lambda: clock.monotonic_us() >= us)
    assert not kept.world.master.done


def below(files: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    return {path.removeprefix(prefix): data for path, data in files.items() if path.startswith(prefix)}


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


if __name__ == "__main__":
    main()
