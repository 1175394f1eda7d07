"""A source that had rows receives none."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import Severity
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import FOR, Detected, JobMoment, span

QUIET_MS = 60_000
LONGER = 3
"""How many times longer than its longest pause so far a source is quiet before that is a finding."""
HELD_UP = 0.2


def _find(seen: JobMoment) -> Iterator[Detected]:
    if not seen.runs:
        return
    for chain, operator in seen.operators():
        quiet_ms = seen.least(f.SINCE_RECORD, operator.id)
        pause_ms = seen.most(f.LONGEST_PAUSE, operator.id) or 0.0
        if quiet_ms is None or quiet_ms < max(QUIET_MS, LONGER * pause_ms):
            continue
        if not seen.most(f.OPEN_SPLITS, operator.id):
            continue  # All of it is read.
        if max(seen.shares(f.BLOCKED, chain.id).values(), default=0.0) >= HELD_UP:
            continue  # It may not read: that is back-pressure.
        yield Detected(
            severity=Severity.DEGRADED,
            what=f"the source {operator.name!r} has received no row for {FOR}; before that, its "
            f"longest pause was {span(pause_ms)}",
            what_to_do="look at what writes into the source, and whether the server that it reads "
            "answers. Where such a pause is ordinary, nothing is wrong: it is not reported again",
            for_ms=quiet_ms,
            operator=operator.id,
        )


DECLARED = HealthCheck(
    find=_find,
    means="a source that has had rows in this attempt has received none for 60 s, and for three times "
    "its longest pause so far, though its splits are open and nothing holds it up",
    cause="what writes into the source has stopped, or the source's server is away",
    remedy="start the writer, or the server",
)
