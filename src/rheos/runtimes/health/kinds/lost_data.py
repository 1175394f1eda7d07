"""A server came back without rows that a sink had delivered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rheos.core.metrics.health import Severity
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import Detected, JobMoment
from rheos.runtimes.job import OperatorStatus

COUNTER = "lost_data"
"""Counter of the sinks that notice it."""


def _find(seen: JobMoment) -> Iterator[Detected]:
    before = seen.past[0].operators if seen.past else ()
    for operator in seen.status.operators:
        if _count((operator,), operator.id) > _count(before, operator.id):
            yield Detected(
                severity=Severity.DEGRADED,
                what=f"the server of {operator.name!r} was restarted without the rows that the sink "
                "wrote last",
                what_to_do="restore a copy of the server's data, or write the rows again from a "
                "savepoint before; have the server keep its data on disk",
                operator=operator.id,
            )


def _count(operators: Iterable[OperatorStatus], id: str) -> int:
    return next((each.counters.get(COUNTER, 0) for each in operators if each.id == id), 0)


DECLARED = HealthCheck(
    find=_find,
    means="within the last ten minutes a sink that delivers at once has connected to a restarted "
    "server (Redis) that no longer has the keys that the sink wrote last",
    cause="the server keeps its data in memory alone, or writes it to disk now and then, and has "
    "crashed",
    remedy="restore a copy, or write the rows again from a savepoint before; have the server keep each "
    "command on disk (`appendonly yes`)",
)
