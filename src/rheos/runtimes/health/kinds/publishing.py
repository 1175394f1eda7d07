"""A sink publishes nothing, while rows arrive and checkpoints complete."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import Severity
from rheos.core.protocol.accumulated import Accumulated
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import FOR, Detected, JobMoment

UNPUBLISHED_MS = 5_000
SLOWER = 3
"""How many times longer than its slow commits a sink takes before it counts as stuck."""


def _find(seen: JobMoment) -> Iterator[Detected]:
    if not seen.runs:
        return
    for _, operator in seen.operators():
        waits_ms = seen.most(f.UNPUBLISHED, operator.id)
        if waits_ms is None or waits_ms < max(UNPUBLISHED_MS, SLOWER * _slow_ms(seen, operator.id)):
            continue
        epochs = seen.most(f.EPOCHS_WAITING, operator.id) or 0
        yield Detected(
            severity=Severity.STUCK,
            what=f"the sink {operator.name!r} has published nothing for {FOR}: its target does not "
            f"answer, or is slow. The output of {epochs:,.0f} complete checkpoints waits",
            what_to_do="start the target or repair the way to it: the sink tries again every second, "
            "and publishes what waits, each row once. `rheos logs` has its last error",
            for_ms=waits_ms,
            operator=operator.id,
        )


def _slow_ms(seen: JobMoment, operator: str) -> float:
    """Return how long the slow commits of a sink take: their 95th percentile."""
    values = [r.value for r in seen.of_place(f.COMMIT_DURATION, operator)]
    found = [value.quantile(0.95) for value in values if isinstance(value, Accumulated)]
    return max((each for each in found if each is not None), default=0.0)


DECLARED = HealthCheck(
    find=_find,
    means="the output of a complete checkpoint has waited for 5 s to be published, and for three times "
    "as long as the sink's slow commits take",
    cause="the target of the sink is away, refuses the commit, or is slow",
    remedy="start the target or repair the way to it. What waits is published then, each row once",
)
