"""A chain of operators works all of its time, and holds up what is upstream of it."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics.health import Severity
from rheos.runtimes.health.bottlenecks import bottlenecks, skew_of
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import Detected, JobMoment, chain_name


def _find(seen: JobMoment) -> Iterator[Detected]:
    for found in bottlenecks(seen):
        if skew_of(seen, found) is not None:
            continue
        after = (
            f"holds up what is upstream of it ({found.held:.0%} of its time)"
            if found.lag_rows is None
            else f"has a lag of {found.lag_rows:,.0f} records"
        )
        yield Detected(
            severity=Severity.DEGRADED,
            what=f"{chain_name(found.chain)} works {found.busy[found.subtask]:.0%} of its time and "
            f"{after}",
            what_to_do=f"profile subtask {found.subtask}: the widest frame is the function that takes "
            "the time. Where that is a system outside, it is slow; else more subtasks have less each",
            operator=found.chain.operators[-1].id,
        )


DECLARED = HealthCheck(
    find=_find,
    means="a chain works for more than 80 % of its time and is not held up itself, and what is "
    "upstream of it is held up for more than 20 % of its time, or its source has a lag; for 3 s",
    cause="a function, a state access or a server of the chain is slow, or subtasks are too few",
    remedy="profile the subtask that it names; make that function faster, or rescale the job",
    shown_after_ms=3_000,
)
