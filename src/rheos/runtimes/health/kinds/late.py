"""More and more rows are late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rheos.core.metrics.health import Severity
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import Detected, JobMoment, Past
from rheos.runtimes.job import OperatorStatus

RECENT_US = 60_000_000
LEAST_ROWS = 100
"""Late rows of the last minute below which nothing is said."""
SHARE = 0.01
RISEN = 2.0
"""How many times the earlier share the share of late rows is, at least."""


def _find(seen: JobMoment) -> Iterator[Detected]:
    before = [past for past in seen.past if seen.now_us - past.at_us >= RECENT_US]
    if not seen.runs or not before:
        return
    start, recent = before[0], before[-1]
    for operator in seen.status.operators:
        late, rows = _grown(operator, recent)
        if late < LEAST_ROWS or late < SHARE * rows:
            continue
        late_before, rows_before = _grown(_of(recent.operators, operator.id), start)
        share, share_before = late / max(rows, late), late_before / max(rows_before, late_before, 1)
        if share < RISEN * share_before:
            continue
        yield Detected(
            severity=Severity.DEGRADED,
            what=f"{late:,} rows came late to {operator.name!r} in the last minute, {share:.1%} of "
            f"all; before that it were {share_before:.1%}. Where the program does not read them as a "
            "side output, they are dropped",
            what_to_do="which split runs ahead of the others, or sends old rows? `rheos why-not` shows "
            "the splits. Allow more lateness, or a larger out-of-orderness of the watermark",
            operator=operator.id,
        )


def _of(operators: Iterable[OperatorStatus], id: str) -> OperatorStatus | None:
    return next((each for each in operators if each.id == id), None)


def _grown(operator: OperatorStatus | None, past: Past) -> tuple[int, int]:
    """Return the late rows and all rows of an operator since an earlier moment."""
    before = None if operator is None else _of(past.operators, operator.id)
    if operator is None or before is None:
        return 0, 0
    late = operator.counters.get("late", 0) - before.counters.get("late", 0)
    return max(late, 0), max(operator.records_in - before.records_in, 0)


DECLARED = HealthCheck(
    find=_find,
    means="in the last minute more than 100 rows, and more than 1 % of all, came late to an operator; "
    "that is twice the share of the nine minutes before",
    cause="a source sends old rows (a device was offline, a topic is replayed), or one split is far "
    "ahead of others",
    remedy="allow more lateness or out-of-orderness, align the splits, or read late rows as a side "
    "output",
)
