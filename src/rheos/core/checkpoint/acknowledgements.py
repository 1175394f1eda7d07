"""Checks the files that a subtask reports as written before the checkpoint counts them (CP33).

The log stores the names of the files, and later the job opens and deletes the files by these names. If
an entry named a foreign file, the job could never read it back.
"""

from __future__ import annotations

from collections.abc import Collection

from rheos.core.checkpoint.names import handle_problem
from rheos.core.checkpoint.savepoint import STATE
from rheos.core.protocol.control import Acknowledge
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.snapshots import StateHandle


def problem(
    share: Acknowledge, operators: Collection[OperatorId], parallelism: int, folder: str
) -> str | None:
    """Return why the report is impossible; None if it is valid. `folder` is the folder of the job's
    state, `parallelism` that of the attempt."""
    parts: list[tuple[StateHandle, str]] = [
        *((handle, folder) for handle in share.handles),
        *((handle, STATE) for handle in share.savepoint_handles),
    ]
    for handle, below in parts:
        if (wrong := handle_problem(handle, parallelism, below)) is not None:
            return wrong
    for operator in (*(part.operator for part, _ in parts), *(c.operator for c in share.committables)):
        if operator not in operators:
            return f"the plan has no operator {operator!r}"
    return None
