"""Findings about load: chains that are always busy, hot keys, and memory that is nearly used up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import FindingKind, Severity
from rheos.core.plan.outline import OutlinedChain
from rheos.runtimes.health.moment import DetectedFinding, JobMoment, chain_name, health_check, number

BUSY = 0.8
"""Share of its time from which a subtask counts as always busy."""
HELD_UP = 0.2
UNEVEN = 2.0
"""Factor by which a subtask's rows exceed its fair share."""


@dataclass(frozen=True)
class Bottleneck:
    """A chain that causes backpressure, or its source's lag."""

    chain: OutlinedChain
    busy: dict[int, float]
    """Share of its time in which each subtask works."""
    subtask: int
    """Number of the busiest subtask."""
    held: float
    """Share of their time in which upstream chains are blocked."""
    lag_rows: float | None
    """Number of records that wait in the source of a chain that has no upstream chain; else None."""


@dataclass(frozen=True)
class Skew:
    """Hot keys, by which the busiest subtask has more than its share of the rows."""

    keys: list[str]
    part: float
    fair: float


def bottlenecks(seen: JobMoment) -> Iterator[Bottleneck]:
    """Yield the chains that are always busy and block upstream chains. If a chain is blocked itself,
    the cause is downstream of it."""
    if not seen.runs:
        return
    for chain in seen.outline.chains:
        busy = seen.shares(f.BUSY, chain.id)
        if not busy or max(busy.values()) < BUSY or _blocked_share(seen, chain.id) >= HELD_UP:
            continue
        subtask = max(busy, key=lambda each: busy[each])
        senders = {e.source for e in seen.outline.edges if e.target == chain.id and not e.feedback}
        held = max((_blocked_share(seen, sender) for sender in senders), default=0.0)
        if senders and held >= HELD_UP:
            yield Bottleneck(chain, busy, subtask, held, None)
        elif not senders and (rows := _lag_rows(seen, chain)):
            yield Bottleneck(chain, busy, subtask, 0.0, rows)


def skew_of(seen: JobMoment, found: Bottleneck) -> Skew | None:
    """Return the skew of a bottleneck, or None. It is skewed if its busiest subtask has far more than
    its share of the rows of a hash exchange, and other subtasks have idle time."""
    for edge in seen.outline.edges:
        if edge.target != found.chain.id or edge.exchange != "hash":
            continue
        received = seen.rates(f.RECEIVED_ROWS, edge.id)
        total, width = sum(received.values()), len(received)
        if width < 2 or not total:
            continue
        part, fair = received.get(found.subtask, 0.0) / total, 1 / width
        if part >= min(UNEVEN * fair, (1 + fair) / 2) and min(found.busy.values()) < BUSY:
            return Skew(edge.keys, part, fair)
    return None


def _blocked_share(seen: JobMoment, chain: str) -> float:
    return max(seen.shares(f.BLOCKED, chain).values(), default=0.0)


def _lag_rows(seen: JobMoment, chain: OutlinedChain) -> float:
    source = chain.operators[0].id
    return sum(number(r) for r in seen.of_place(f.SOURCE_LAG_ROWS, source))


@health_check(
    FindingKind.BACKPRESSURE,
    means="a chain is busy more than 80 % of the time without being backpressured itself, and the "
    "upstream chains are backpressured more than 20 % of the time. Or its source has a lag. "
    "Either lasts for 3 s",
    cause="a function, a state access or a server of the chain is slow, or the parallelism is too low",
    remedy="profile the named subtask; make that function faster, or rescale the job",
    shown_after_ms=3_000,
)
def _backpressure(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect chains that are always busy, and block upstream chains."""
    for found in bottlenecks(seen):
        if skew_of(seen, found) is not None:
            continue
        after = (
            f"slows down upstream operators ({found.held:.0%} of their time)"
            if found.lag_rows is None
            else f"has a lag of {found.lag_rows:,.0f} records"
        )
        yield DetectedFinding(
            severity=Severity.DEGRADED,
            what=f"{chain_name(found.chain)} is busy {found.busy[found.subtask]:.0%} of the time and "
            f"{after}",
            what_to_do=(
                f"profile subtask {found.subtask}: the widest frame is the function that "
                "takes the time. If it calls an external system, that system is slow; "
                "otherwise raise the parallelism"
            ),
            operator=found.chain.operators[-1].id,
        )


@health_check(
    FindingKind.SKEW,
    means="a chain is a bottleneck, its busiest subtask has twice its even share of the rows, and "
    "other subtasks are partly idle; for 3 s",
    cause="one value of the key, or a few, have most rows",
    remedy="aggregate by a finer key first, or filter out a meaningless value",
    shown_after_ms=3_000,
)
def _skew(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect subtasks with far more than their share of the rows because of hot keys."""
    for found in bottlenecks(seen):
        skew = skew_of(seen, found)
        if skew is None:
            continue
        keys = ", ".join(skew.keys)
        yield DetectedFinding(
            severity=Severity.DEGRADED,
            what=f"subtask {found.subtask} of {chain_name(found.chain)} has {skew.part:.0%} of the "
            f"rows by {keys}, although its even share is {skew.fair:.0%}, and is busy "
            f"{found.busy[found.subtask]:.0%} of the time: a few values of {keys} have most rows",
            what_to_do="more subtasks do not help. Aggregate by a finer key first, filter out a "
            "meaningless value (empty, unknown), or use a window's built-in aggregates",
            operator=found.chain.operators[0].id,
            subtask=found.subtask,
        )


NEARLY_FULL = 0.9
_GB = 1 << 30


@health_check(
    FindingKind.MEMORY,
    means="the container of a worker, or its machine, uses more than 90 % of its memory; for 3 s",
    cause="state in memory grows, a batch or a key is very large, or another process grows",
    remedy='limit the state (`ttl`), keep it on disk (`state="rocksdb"`), or add memory',
    shown_after_ms=3_000,
)
def _memory(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect that the memory of a worker's machine or container is nearly used up."""
    if not seen.runs:
        return
    limits = {reading.at: number(reading) for reading in seen.of(f.MEMORY_LIMIT)}
    own = {reading.at: number(reading) for reading in seen.of(f.MEMORY)}
    for reading in seen.of(f.MEMORY_USED):
        used, limit = number(reading), limits.get(reading.at, 0.0)
        if not limit or used < NEARLY_FULL * limit:
            continue
        subtask = int(reading.at[0])
        yield DetectedFinding(
            severity=Severity.DEGRADED,
            what=f"the machine or container of subtask {subtask} uses {used / limit:.0%} of its "
            f"{limit / _GB:.1f} GB of memory; the worker itself uses "
            f"{own.get(reading.at, 0.0) / _GB:.1f} GB. At the limit the system kills a process",
            what_to_do="find what grows: `rheos metrics` shows state and keys. Set a ttl, "
            'state="rocksdb" or more subtasks; or raise the memory limit',
            subtask=subtask,
        )
