"""The memory of a worker's machine or container is nearly used up."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import Severity
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import Detected, JobMoment, number

NEAR = 0.9
_GB = 1 << 30


def _find(seen: JobMoment) -> Iterator[Detected]:
    if not seen.runs:
        return
    limits = {reading.at: number(reading) for reading in seen.of(f.MEMORY_LIMIT)}
    own = {reading.at: number(reading) for reading in seen.of(f.MEMORY)}
    for reading in seen.of(f.MEMORY_USED):
        used, limit = number(reading), limits.get(reading.at, 0.0)
        if not limit or used < NEAR * limit:
            continue
        subtask = int(reading.at[0])
        yield Detected(
            severity=Severity.DEGRADED,
            what=f"where subtask {subtask} runs, {used / limit:.0%} of {limit / _GB:.1f} GB of memory "
            f"are in use; the worker itself uses {own.get(reading.at, 0.0) / _GB:.1f} GB. Beyond the "
            "limit the system kills a process",
            what_to_do="find what grows: `rheos metrics` shows state and keys. Set a ttl, "
            'state="rocksdb" or more subtasks; or raise the memory limit',
            subtask=subtask,
        )


DECLARED = HealthCheck(
    find=_find,
    means="the container of a worker, or its machine, uses more than 90 % of its memory; for 3 s",
    cause="state in memory grows, a batch or a key is very large, or another process grows",
    remedy='bound the state (`ttl`), keep it on disk (`state="rocksdb"`), or add memory',
    shown_after_ms=3_000,
)
