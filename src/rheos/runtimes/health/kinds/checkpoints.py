"""Checkpoints fail."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import Severity
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.kinds.slow_checkpoints import stuck_after_ms
from rheos.runtimes.health.moment import Detected, JobMoment, number


def _find(seen: JobMoment) -> Iterator[Detected]:
    status = seen.status
    if status.checkpoint_failure is None or status.state.is_over:
        return
    ages_ms = [number(reading) for reading in seen.of(f.SINCE_CHECKPOINT)]
    stuck = max(ages_ms, default=0.0) >= stuck_after_ms(seen.checkpoint)
    yield Detected(
        severity=Severity.STUCK if stuck else Severity.DEGRADED,
        what=f"the newest checkpoint has failed: {status.checkpoint_failure} "
        f"({status.checkpoints_failed:,} have failed so far; {status.checkpoints_completed:,} are "
        "complete)",
        what_to_do="the job continues, and would start again from the newest complete checkpoint. "
        "Sinks that publish with checkpoints publish nothing meanwhile",
    )


DECLARED = HealthCheck(
    find=_find,
    means="the newest checkpoint has failed. Stuck where none completes for several intervals, and for "
    "two minutes at least",
    cause="the checkpoint directory cannot be written (its disk is full, its server is away), a "
    "subtask did not acknowledge in time, or a sink could not stage its rows",
    remedy="make room, or make the directory reachable; the next checkpoint then completes by itself",
)
