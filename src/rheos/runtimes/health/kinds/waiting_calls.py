"""The job waits: its recovery or a sink for a server, or a savepoint, a stop or a rescale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from rheos.core.metrics.health import Severity
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import FOR, Detected, JobMoment
from rheos.runtimes.job import WaitKind

SERVER_MS = 5_000
REQUEST_MS = 30_000


def _find(seen: JobMoment) -> Iterator[Detected]:
    for wait in seen.status.waits:
        for_ms = seen.metrics.at_ms - wait.since_ms
        match wait.kind:
            case WaitKind.CALL:
                continue  # The kind `server` has it.
            case WaitKind.RECOVERY | WaitKind.PUBLISHING:
                least_ms, severity = SERVER_MS, Severity.STUCK
            case WaitKind.REQUEST:
                least_ms, severity = REQUEST_MS, Severity.DEGRADED
            case _:
                assert_never(wait.kind)
        if for_ms >= least_ms:
            yield Detected(
                severity=severity,
                what=f"{wait.what} (for {FOR})",
                what_to_do="start the server that it waits for, or repair the way to it. A savepoint "
                "that waits for rows in front of a slow operator needs patience, or unaligned_after",
                for_ms=for_ms,
                about=wait.what,
            )


DECLARED = HealthCheck(
    find=_find,
    means="the recovery of the job, or a sink whose output the driver publishes, has waited for 5 s; "
    "or a savepoint, a stop or a rescale has waited for 30 s",
    cause="the target of a sink does not answer, or a subtask has not acknowledged the checkpoint",
    remedy="start the server that it waits for; look at the subtask that it names",
)
