"""Sources that receive nothing, splits that hold the watermark back, and late rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import FindingKind, Severity
from rheos.runtimes.health.kinds.load import HELD_UP
from rheos.runtimes.health.moment import (
    FOR,
    DetectedFinding,
    JobMoment,
    PastTotals,
    SplitStanding,
    health_check,
    open_splits,
    span,
)
from rheos.runtimes.job import OperatorStatus

QUIET_MS = 60_000
LONGER = 3
"""Minimum factor between the time for which a source is quiet and its longest pause so far."""


@health_check(
    FindingKind.NO_INPUT,
    means="a source that has received rows in this attempt has received none for 60 s, and for three "
    "times its longest pause so far. Its splits are open, and it is not backpressured",
    cause="the producer of the input has stopped, or the source's server is unavailable",
    remedy="start the producer, or the server",
)
def _no_input(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect sources that had rows and now receive none."""
    if not seen.runs:
        return
    for chain, operator in seen.operators():
        quiet_ms = seen.least(f.SINCE_RECORD, operator.id)
        pause_ms = seen.most(f.LONGEST_PAUSE, operator.id) or 0.0
        if quiet_ms is None or quiet_ms < max(QUIET_MS, LONGER * pause_ms):
            continue
        if not seen.most(f.OPEN_SPLITS, operator.id):
            continue  # All input is read.
        if max(seen.shares(f.BLOCKED, chain.id).values(), default=0.0) >= HELD_UP:
            continue  # It may not read because of backpressure.
        yield DetectedFinding(
            severity=Severity.DEGRADED,
            what=f"the source {operator.name!r} has received no row for {FOR}; before that, its "
            f"longest pause was {span(pause_ms)}",
            what_to_do=(
                "check the producer of the input, and whether the server responds. If "
                "such pauses are normal, nothing is wrong: the next one is not reported"
            ),
            for_ms=quiet_ms,
            operator=operator.id,
        )


STANDS_MS = 10_000
ADVANCES_MS = 5_000


@health_check(
    FindingKind.WATERMARK,
    means="the event time of a split has not advanced for 10 s and is older than that of other "
    "splits of its source. Those do advance, and the split is not idle",
    cause="a partition receives no rows, or a producer writes old times into it",
    remedy="repair the producer of the split, or set `idle_after` on the watermark",
)
def _watermark(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect splits that hold the watermark back while others of their source advance."""
    if not seen.runs:
        return
    splits: dict[str, list[SplitStanding]] = {}
    chains = {operator.id: chain.id for chain, operator in seen.operators()}
    for source, split in open_splits(seen.metrics.operators, seen.of):
        # Backpressure alone explains why such a split does not advance.
        held = seen.shares(f.BLOCKED, chains.get(source, "")).get(split.subtask, 0.0)
        if not split.idle and held < HELD_UP:
            splits.setdefault(source, []).append(split)
    for source, of_source in splits.items():
        onward = [split for split in of_source if split.stands_ms < ADVANCES_MS]
        marks = [each.watermark_ms for each in onward if each.watermark_ms is not None]
        if not marks:
            continue
        for split in of_source:
            at = split.watermark_ms
            if split.stands_ms < STANDS_MS or (at is not None and at >= min(marks)):
                continue
            ahead = "" if at is None else f", and are up to {span(max(marks) - at)} ahead of it"
            yield DetectedFinding(
                severity=Severity.STUCK,
                what=f"split {split.split!r} of {split.source!r} (subtask {split.subtask}) has not "
                f"advanced for {FOR}, and holds back the watermark: no window downstream fires. "
                f"The other splits of its source advance{ahead}",
                what_to_do="check the producer of the split. If it may be idle for long, set an idle "
                "timeout on the watermark (idle_after)",
                for_ms=split.stands_ms,
                operator=source,
                subtask=split.subtask,
                about=split.split,
            )


LAST_MINUTE_US = 60_000_000
LEAST_LATE_ROWS = 100
"""Minimum number of late rows in the last minute for a finding."""
LATE_SHARE = 0.01
RISEN = 2.0
"""Minimum factor by which the share of late rows has grown."""


@health_check(
    FindingKind.LATE,
    means="in the last minute more than 100 rows, and more than 1 % of all, were late at an "
    "operator; that is twice the share of the nine minutes before",
    cause="a source sends old rows (a device was offline, a topic is replayed), or one split is far "
    "ahead of others",
    remedy="allow more lateness or out-of-orderness, align the splits, or read late rows as a side "
    "output",
)
def _late(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect that the share of late rows grows."""
    before = [past for past in seen.past if seen.now_us - past.at_us >= LAST_MINUTE_US]
    if not seen.runs or not before:
        return
    start, recent = before[0], before[-1]
    for operator in seen.status.operators:
        late, rows = _growth_of(operator, recent)
        if late < LEAST_LATE_ROWS or late < LATE_SHARE * rows:
            continue
        late_before, rows_before = _growth_of(_status_of(recent.operators, operator.id), start)
        share, share_before = late / max(rows, late), late_before / max(rows_before, late_before, 1)
        if share < RISEN * share_before:
            continue
        yield DetectedFinding(
            severity=Severity.DEGRADED,
            what=f"{late:,} rows were late at {operator.name!r} in the last minute, {share:.1%} of "
            f"all; before, it was {share_before:.1%}. They are dropped unless the program reads "
            "them as a side output",
            what_to_do="check whether a split is ahead of the others, or contains old rows: `rheos "
            "why-not` shows the splits. Allow more lateness, or a larger out-of-orderness of "
            "the watermark",
            operator=operator.id,
        )


def _status_of(operators: Iterable[OperatorStatus], id: str) -> OperatorStatus | None:
    return next((each for each in operators if each.id == id), None)


def _growth_of(operator: OperatorStatus | None, past: PastTotals) -> tuple[int, int]:
    """Return the number of late rows and of all rows of an operator since an earlier moment."""
    before = None if operator is None else _status_of(past.operators, operator.id)
    if operator is None or before is None:
        return 0, 0
    late = operator.counters.get("late", 0) - before.counters.get("late", 0)
    return max(late, 0), max(operator.records_in - before.records_in, 0)
