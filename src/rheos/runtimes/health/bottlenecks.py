"""Chains that work nearly all of their time and hold others up; and whether hot keys are the reason.
Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rheos.core.metrics import declarations as f
from rheos.core.plan.outline import OutlinedChain
from rheos.runtimes.health.moment import JobMoment, number

BUSY = 0.8
"""Share of its time in which a subtask works that does hardly anything else."""
HELD_UP = 0.2
UNEVEN = 2.0
"""How many times its fair part of the rows one subtask has."""


@dataclass(frozen=True)
class Bottleneck:
    """A chain that is the cause of back-pressure, or of its source's lag."""

    chain: OutlinedChain
    busy: dict[int, float]
    """Share of its time in which each subtask works."""
    subtask: int
    """The busiest."""
    held: float
    """Share of its time in which what is upstream is held up."""
    lag_rows: float | None
    """Of a chain without a sender: how many records its source is behind; else None."""


@dataclass(frozen=True)
class Skew:
    """The busiest subtask has more than its part of the rows by some keys."""

    keys: list[str]
    part: float
    fair: float


def bottlenecks(seen: JobMoment) -> Iterator[Bottleneck]:
    """Yield the chains that work nearly all of their time and hold others up.

    Where a chain is held up itself, the cause is downstream of it.
    """
    if not seen.runs:
        return
    for chain in seen.outline.chains:
        busy = seen.shares(f.BUSY, chain.id)
        if not busy or max(busy.values()) < BUSY or _held(seen, chain.id) >= HELD_UP:
            continue
        subtask = max(busy, key=lambda each: busy[each])
        senders = {e.source for e in seen.outline.edges if e.target == chain.id and not e.feedback}
        held = max((_held(seen, sender) for sender in senders), default=0.0)
        if senders and held >= HELD_UP:
            yield Bottleneck(chain, busy, subtask, held, None)
        elif not senders and (rows := _lag_rows(seen, chain)):
            yield Bottleneck(chain, busy, subtask, 0.0, rows)


def skew_of(seen: JobMoment, found: Bottleneck) -> Skew | None:
    """Return the skew of a bottleneck: its busiest subtask has far more rows by a key than is its part,
    and others have time. None if that is not so."""
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


def _held(seen: JobMoment, chain: str) -> float:
    return max(seen.shares(f.BLOCKED, chain).values(), default=0.0)


def _lag_rows(seen: JobMoment, chain: OutlinedChain) -> float:
    source = chain.operators[0].id
    return sum(number(r) for r in seen.of_place(f.SOURCE_LAG_ROWS, source))
