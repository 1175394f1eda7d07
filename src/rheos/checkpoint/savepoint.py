"""Savepoints: a job's whole state in one folder, which needs nothing beside it and never expires.

    <savepoint>/savepoint.json                                 the manifest, written last
    <savepoint>/state/<operator>/<subtask>-<state>-<n>.arrow   the state, as FULL parts

A savepoint is taken with a checkpoint, at the same barrier. Its manifest is written only once that
checkpoint is in the log and all sinks have committed it (CP13): what a savepoint holds is published,
and who starts from it has nothing to commit. A folder without a manifest is no savepoint.
"""

from __future__ import annotations

import msgspec

from rheos.checkpoint.log import CheckpointCompleted, Origin, safe_name
from rheos.protocol.ids import JobId, OperatorId

MANIFEST = "savepoint.json"


def part_path(operator: OperatorId, subtask: int, state: str, name: str) -> str:
    """Where a piece of a part (`0.arrow`, `1.arrow`, ...) lies, below the savepoint's folder."""
    return f"state/{safe_name(operator)}/{subtask}-{safe_name(state)}-{safe_name(name)}"


class Savepoint(msgspec.Struct, frozen=True, kw_only=True):
    """What the manifest says."""

    id: str
    """Unique, also among copies of one job."""
    job: JobId
    name: str
    """The job's name."""
    version: str
    """Of the Rheos that wrote it."""
    taken_ms: int
    """Wall-clock time, ms since the epoch."""
    entry: CheckpointCompleted
    """The checkpoint it was taken with; its handles are the savepoint's own, their paths are below the
    savepoint's folder, and it lists no committables."""


class Restore(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt starts from: a checkpoint of the job itself, or a savepoint."""

    entry: CheckpointCompleted
    origin: Origin | None = None
    """The savepoint whose folder the paths are below; None: the job's own checkpoint directory."""
