"""A server does not answer: a worker or the driver waits for it, or cannot reach it."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import Severity
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import FOR, Detected, JobMoment, number

WAITS_MS = 5_000


def _find(seen: JobMoment) -> Iterator[Detected]:
    if seen.status.state.is_over:
        return
    waits: dict[str, float] = {}
    who: dict[str, list[str]] = {}
    readings = [*seen.of(f.SERVER_WAIT), *seen.of(f.SERVER_AWAY), *seen.of(f.DRIVER_WAIT)]
    for reading in readings:
        for_ms = number(reading)
        if for_ms < WAITS_MS:
            continue
        server, *subtask = reading.at
        waits[server] = max(waits.get(server, 0.0), for_ms)
        who.setdefault(server, []).extend(subtask)
    for server, for_ms in waits.items():
        subtasks = sorted(set(who[server]), key=int)
        waiting = f"subtask {', '.join(subtasks)}" if subtasks else "the driver"
        yield Detected(
            severity=Severity.STUCK,
            what=f"a server does not answer {waiting}, for {FOR}: {server}",
            what_to_do="is the server up, reachable and not overloaded? Calls are made again until it "
            "answers, and what they may have done is looked up first",
            for_ms=for_ms,
            subtask=int(subtasks[0]) if len(subtasks) == 1 else None,
            server=server,
        )


DECLARED = HealthCheck(
    find=_find,
    means="a call to a server has not returned for 5 s, or a client has not reached its server for 5 s",
    cause="the server is down, frozen or overloaded, its disk is full, or the network drops packets",
    remedy="start the server, or repair the way to it. The job waits, and resumes by itself within "
    "seconds of its return",
)
