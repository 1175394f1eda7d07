"""Durable progress of a job, which a strike cannot undo."""

from __future__ import annotations

from rheos.core.errors import RheosError
from rheos.ops.control.commands import JobClient
from rheos.ops.control.registry import Registry

_ANSWER_WITHIN_S = 2.0


def newest_checkpoint(driver: int) -> int:
    """Return the number of the newest completed checkpoint of the job that the process `driver` runs,
    for `Plan.progress`. Return 0 if there is no checkpoint, or if the job does not answer."""
    for record in Registry().records():
        if record.process.pid == driver:
            try:
                kept = JobClient(record, _ANSWER_WITHIN_S).checkpoints()
            except RheosError:
                return 0
            return max((int(info.checkpoint) for info in kept), default=0)
    return 0
