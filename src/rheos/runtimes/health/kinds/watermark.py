"""A split holds the watermark back while others of its source advance."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import Severity
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import FOR, Detected, JobMoment, span
from rheos.runtimes.health.splits import SplitStanding, open_splits

STANDS_MS = 10_000
ADVANCES_MS = 5_000
HELD_UP = 0.2
"""Share of its time held up by others from which on a split stands for that reason."""


def _find(seen: JobMoment) -> Iterator[Detected]:
    if not seen.runs:
        return
    splits: dict[str, list[SplitStanding]] = {}
    chains = {operator.id: chain.id for chain, operator in seen.operators()}
    for source, split in open_splits(seen.metrics.operators, seen.of):
        # A split whose rows have nowhere to go stands for that reason.
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
            yield Detected(
                severity=Severity.STUCK,
                what=f"split {split.split!r} of {split.source!r} (subtask {split.subtask}) has not "
                f"advanced for {FOR}, and holds the watermark: no window downstream fires. The others "
                f"of its source advance{ahead}",
                what_to_do="look at what writes into the split. If it may be quiet for long, set an "
                "idle timeout on the watermark (idle_after)",
                for_ms=split.stands_ms,
                operator=source,
                subtask=split.subtask,
                about=split.split,
            )


DECLARED = HealthCheck(
    find=_find,
    means="the event time of a split has not advanced for 10 s and is older than that of other "
    "splits of its source, which advance; the split is not idle",
    cause="a partition receives nothing, or a writer writes old times into it",
    remedy="repair what writes into the split, or declare `idle_after` for the watermark",
)
