"""The kinds of findings. A new one is a member of `FindingKind`, a file, and a line of `KINDS`."""

from __future__ import annotations

from rheos.core.metrics.health import FindingKind
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.kinds import (
    backpressure,
    checkpoints,
    driver,
    failed,
    late,
    lost_data,
    memory,
    no_input,
    not_running,
    publishing,
    restarts,
    server,
    silent,
    skew,
    slow_checkpoints,
    waiting_calls,
    watermark,
)

KINDS: dict[FindingKind, HealthCheck] = {
    FindingKind.FAILED: failed.DECLARED,
    FindingKind.NOT_RUNNING: not_running.DECLARED,
    FindingKind.RESTARTS: restarts.DECLARED,
    FindingKind.DRIVER: driver.DECLARED,
    FindingKind.SERVER: server.DECLARED,
    FindingKind.WAITING: waiting_calls.DECLARED,
    FindingKind.PUBLISHING: publishing.DECLARED,
    FindingKind.LOST_DATA: lost_data.DECLARED,
    FindingKind.SILENT: silent.DECLARED,
    FindingKind.CHECKPOINTS: checkpoints.DECLARED,
    FindingKind.SLOW_CHECKPOINTS: slow_checkpoints.DECLARED,
    FindingKind.WATERMARK: watermark.DECLARED,
    FindingKind.NO_INPUT: no_input.DECLARED,
    FindingKind.BACKPRESSURE: backpressure.DECLARED,
    FindingKind.SKEW: skew.DECLARED,
    FindingKind.LATE: late.DECLARED,
    FindingKind.MEMORY: memory.DECLARED,
}
