"""A job that was lost between two checkpoints, and is restarted from files that were modified."""

from __future__ import annotations

from functools import cache

from rheos.core.errors import CheckpointError
from rheos.core.protocol.state_config import Backend
from rheos.runtimes.simulated.runtime import SimulatedJob
from tests.compat.make_golden import with_checkpoints
from tests.compat.programs import released
from tests.compat.worlds import Rows, begin

LOG = "kept/log"

Files = dict[str, bytes]
Published = dict[str, dict[str, Rows]]


def entry(number: int) -> str:
    return f"{LOG}/{number:010d}.json"


@cache
def _lost() -> tuple[Files, Published]:
    kept = with_checkpoints(Backend.MEMORY)
    return dict(kept.world.store.files), {name: sink.published for name, sink in kept.sinks.items()}


def lost() -> Files:
    """The checkpoint directory, as its driver left it."""
    return dict(_lost()[0])


def newest(files: Files) -> int:
    """The number of the newest entry of the log."""
    return max(int(path[-15:-5]) for path in files if path.startswith(LOG))


def error_of(files: Files) -> CheckpointError:
    """The job is started again, and must refuse; nothing more is published, and no file is lost."""
    before = _lost()[1]
    kept = begin(released, published=before, interval_ms=50)
    kept.world.store.files.update(files)
    error: CheckpointError | None = None
    try:
        SimulatedJob(kept.world).wait()
    except CheckpointError as refused:
        error = refused
    assert error is not None, "it was not refused"
    assert {name: sink.published for name, sink in kept.sinks.items()} == before
    missing = {path for path in files if path not in kept.world.store.files}
    assert not missing, "nothing is deleted on doubt"
    return error


def rows_of(files: Files) -> int:
    """The job is started again, and takes them: how many rows of one output there are in the end."""
    kept = begin(released, files=files, published=_lost()[1], interval_ms=50)
    kept.world.run()
    return len(kept.rows()["sums"])
