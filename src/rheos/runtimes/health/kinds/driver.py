"""The driver does nothing: its main loop does not step."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import Severity
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import FOR, Detected, JobMoment

STANDS_MS = 10_000


def _find(seen: JobMoment) -> Iterator[Detected]:
    if seen.stepped_us is None or seen.status.state.is_over:
        return
    for_ms = (seen.now_us - seen.stepped_us) / 1000
    if for_ms < STANDS_MS:
        return
    calls = [reading.at[0] for reading in seen.of(f.DRIVER_WAIT)]
    where = f" ({calls[0]})" if calls else ""
    yield Detected(
        severity=Severity.STUCK,
        what=f"the driver has done nothing for {FOR}: it is in a call that does not return, such as "
        f"one to a server or to the checkpoint directory{where}. No checkpoint completes meanwhile",
        what_to_do="do the checkpoint directory, and the servers that the job publishes to, answer? "
        "The driver continues when the call returns",
        for_ms=for_ms,
    )


DECLARED = HealthCheck(
    find=_find,
    means="the driver's main loop has not stepped for 10 s",
    cause="a call of the driver blocks: to the checkpoint directory, or to a server while it recovers",
    remedy="make the server or the directory answer; else restart the driver, which resumes the job "
    "from its newest checkpoint",
)
