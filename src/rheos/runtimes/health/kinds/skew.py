"""One subtask has far more rows than is its part: some keys are hot."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics.health import Severity
from rheos.runtimes.health.bottlenecks import bottlenecks, skew_of
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import Detected, JobMoment, chain_name


def _find(seen: JobMoment) -> Iterator[Detected]:
    for found in bottlenecks(seen):
        skew = skew_of(seen, found)
        if skew is None:
            continue
        keys = ", ".join(skew.keys)
        yield Detected(
            severity=Severity.DEGRADED,
            what=f"subtask {found.subtask} of {chain_name(found.chain)} has {skew.part:.0%} of the "
            f"rows by {keys}, where {skew.fair:.0%} is its part, and works "
            f"{found.busy[found.subtask]:.0%} of its time: a few values of {keys} have most rows",
            what_to_do="more subtasks do not help. Aggregate by a finer key first, leave out a value "
            "that means nothing (empty, unknown), or use a window's built-in aggregates",
            operator=found.chain.operators[0].id,
            subtask=found.subtask,
        )


DECLARED = HealthCheck(
    find=_find,
    means="a chain is a bottleneck, its busiest subtask has twice its part of the rows, and other "
    "subtasks have time; for 3 s",
    cause="one value of the key, or a few, have most rows",
    remedy="aggregate by a finer key first, or leave out a value that means nothing",
    shown_after_ms=3_000,
)
