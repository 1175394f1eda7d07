"""Findings about servers: those that do not respond, output that waits for them, and rows they lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import FindingKind, Severity
from rheos.core.protocol.accumulators import Accumulated
from rheos.runtimes.health.moment import FOR, DetectedFinding, JobMoment, health_check, number
from rheos.runtimes.job import OperatorStatus, WaitKind

CALL_MS = 5_000


@health_check(
    FindingKind.SERVER,
    means="a call to a server has not returned for 5 s, or a client has not reached its server for 5 s",
    cause="the server is down, frozen or overloaded, its disk is full, or the network drops packets",
    remedy="start the server, or repair the connection to it. The job waits, and resumes within "
    "seconds of its return",
)
def _server(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect servers that do not respond to a worker or the driver."""
    if seen.status.state.is_over:
        return
    waits: dict[str, float] = {}
    who: dict[str, list[str]] = {}
    readings = [*seen.of(f.SERVER_WAIT), *seen.of(f.SERVER_AWAY), *seen.of(f.DRIVER_WAIT)]
    for reading in readings:
        for_ms = number(reading)
        if for_ms < CALL_MS:
            continue
        server, *subtask = reading.at
        waits[server] = max(waits.get(server, 0.0), for_ms)
        who.setdefault(server, []).extend(subtask)
    for server, for_ms in waits.items():
        subtasks = sorted(set(who[server]), key=int)
        waiting = f"subtask {', '.join(subtasks)}" if subtasks else "the driver"
        yield DetectedFinding(
            severity=Severity.STUCK,
            what=f"a server does not answer {waiting}, for {FOR}: {server}",
            what_to_do="check that the server is up, reachable and not overloaded. Rheos repeats calls "
            "until it responds, and first looks up what they have already done",
            for_ms=for_ms,
            subtask=int(subtasks[0]) if len(subtasks) == 1 else None,
            server=server,
        )


WAITS_FOR_SERVER_MS = 5_000
WAITS_FOR_REQUEST_MS = 30_000


@health_check(
    FindingKind.WAITING,
    means="the recovery of the job, or a sink whose output the driver publishes, has waited for 5 s. "
    "Or a savepoint, a stop or a rescale has waited for 30 s",
    cause="the target of a sink does not respond, or a subtask has not acknowledged the checkpoint",
    remedy="start the server that it waits for; check the named subtask",
)
def _waiting(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect waits: of the recovery or a sink for a server, or of a savepoint, a stop or a rescale."""
    for wait in seen.status.waits:
        for_ms = seen.metrics.at_ms - wait.since_ms
        match wait.kind:
            case WaitKind.CALL | WaitKind.WORKERS:
                continue  # The kinds `server` and `not_running` report them.
            case WaitKind.RECOVERY | WaitKind.PUBLISHING:
                least_ms, severity = WAITS_FOR_SERVER_MS, Severity.STUCK
            case WaitKind.REQUEST:
                least_ms, severity = WAITS_FOR_REQUEST_MS, Severity.DEGRADED
            case _:
                assert_never(wait.kind)
        if for_ms >= least_ms:
            yield DetectedFinding(
                severity=severity,
                what=f"{wait.what} (for {FOR})",
                what_to_do="start the server that it waits for, or repair the connection to it. If a "
                "savepoint waits for rows upstream of a slow operator, wait longer, or set "
                "unaligned_after",
                for_ms=for_ms,
                about=wait.what,
            )


UNPUBLISHED_MS = 5_000
SLOWER = 3
"""Factor over the time of its slow commits after which a sink counts as stuck."""


@health_check(
    FindingKind.PUBLISHING,
    means="the output of a complete checkpoint has waited to be published for 5 s, and for three "
    "times the duration of the sink's slow commits",
    cause="the target of the sink is unavailable, rejects the commit, or is slow",
    remedy="start the target or repair the connection to it. The sink then publishes each waiting row "
    "once",
)
def _publishing(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect sinks that publish nothing, while rows arrive and checkpoints complete."""
    if not seen.runs:
        return
    for _, operator in seen.operators():
        waits_ms = seen.most(f.UNPUBLISHED, operator.id)
        if waits_ms is None or waits_ms < max(UNPUBLISHED_MS, SLOWER * _slow_ms(seen, operator.id)):
            continue
        epochs = seen.most(f.EPOCHS_WAITING, operator.id) or 0
        yield DetectedFinding(
            severity=Severity.STUCK,
            what=f"the sink {operator.name!r} has published nothing for {FOR}: its target does not "
            f"respond, or is slow. The output of {epochs:,.0f} complete checkpoints is waiting",
            what_to_do=(
                "start the target or repair the connection to it: the sink retries every "
                "second, and then publishes each waiting row once. `rheos logs` shows "
                "its last error"
            ),
            for_ms=waits_ms,
            operator=operator.id,
        )


def _slow_ms(seen: JobMoment, operator: str) -> float:
    """Return the duration of a sink's slow commits: their 95th percentile."""
    values = [r.value for r in seen.of_place(f.COMMIT_DURATION, operator)]
    found = [value.quantile(0.95) for value in values if isinstance(value, Accumulated)]
    return max((each for each in found if each is not None), default=0.0)


LOST_DATA_COUNTER = "lost_data"
"""Counter of the sinks that notice lost rows."""


@health_check(
    FindingKind.LOST_DATA,
    means="within the last ten minutes, a sink that delivers immediately has connected to a "
    "restarted server (Redis) without the last keys that it wrote",
    cause="the server keeps its data only in memory, or saves it to disk only occasionally, and has "
    "crashed",
    remedy="restore a copy, or write the rows again from an earlier savepoint; configure the server "
    "to save each command to disk (`appendonly yes`)",
)
def _lost_data(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect servers that were restarted without rows that a sink had delivered."""
    before = seen.past[0].operators if seen.past else ()
    for operator in seen.status.operators:
        if _count((operator,), operator.id) > _count(before, operator.id):
            yield DetectedFinding(
                severity=Severity.DEGRADED,
                what=f"the server of {operator.name!r} was restarted without the last rows that the "
                "sink wrote",
                what_to_do=(
                    "restore a copy of the server's data, or write the rows again from an "
                    "earlier savepoint; configure the server to keep its data on disk"
                ),
                operator=operator.id,
            )


def _count(operators: Iterable[OperatorStatus], id: str) -> int:
    return next((each.counters.get(LOST_DATA_COUNTER, 0) for each in operators if each.id == id), 0)
