"""The report of late rows, rejected records and dropped timers at the end of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rheos.runtimes.job import OperatorStatus


class _Cause(NamedTuple):
    """Meaning of a counter: its name for one and for several, its predicate, and what to do."""

    one: str
    several: str
    what: str
    advice: str


CAUSES = {
    "late": _Cause(
        "row",
        "rows",
        "late",
        'late rows are in .side_output("late"), and a larger bound of the watermark leaves fewer',
    ),
    "skipped": _Cause(
        "record", "records", "rejected", 'rejected records are in .side_output("rejected")'
    ),
    "outside_windows": _Cause(
        "row", "rows", "in no window", "use windows without gaps, or filter such rows out"
    ),
    "dropped_processing_timers": _Cause(
        "timer of processing time",
        "timers of processing time",
        "not due",
        "the input ended before these timers, so their results are missing: use event time",
    ),
}
"""Meaning of counters, by name. Rows in `late_purged` are also in `late`, and those in
`ahead` in `skipped`."""


def dropped_rows(operators: Sequence[OperatorStatus]) -> str | None:
    """Return one line with the counts of each operator and what to do; None if all counts are zero."""
    parts, advice = [], []
    for name, cause in CAUSES.items():
        counts = [(each.name, count) for each in operators if (count := each.counters.get(name))]
        for operator, count in counts:
            rows = f"{cause.one} was" if count == 1 else f"{cause.several} were"
            parts.append(f"{count:,} {rows} {cause.what} at {operator!r}")
        if counts:
            advice.append(cause.advice)
    return f"{', '.join(parts)} ({'; '.join(advice)})" if parts else None
