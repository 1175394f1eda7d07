"""Figures as text: medians with their spreads, units, tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from benchmarks.disturbance import is_quiet
from rheos.cli.benchmarks.intervals import MIN_ROUNDS, Interval, cell, change, ratio_cell


def middle(runs: Sequence[dict[str, Any]], metric: str) -> float | None:
    """Return the median of a metric over runs; None if no run has it."""
    known = values(runs, metric)
    return median(known) if known else None


def values(runs: Sequence[dict[str, Any]], metric: str) -> list[float]:
    """Return a metric of all quiet runs. `metric` may be a path: "latency_ms.p99"."""
    found = []
    for run in filter(is_quiet, runs):
        value: Any = run
        for part in metric.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            found.append(value)
    return found


def millions(value: float | None) -> str:
    """3 significant digits, in millions, or thousands below one."""
    if value is None:
        return ""
    return f"{digits(value / 1e6)} M" if value >= 1e6 else f"{digits(value / 1e3)} k"


def digits(value: float | None) -> str:
    """3 significant digits, and all of those before the point."""
    if value is None:
        return ""
    places = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{places}f}"


def spread(runs: Sequence[dict[str, Any]], metric: str, text: Any = digits) -> str:
    """Return the median with its interval, or mark it as approximate if there are too few rounds."""
    return cell(values(runs, metric), text)


Runs = Sequence[dict[str, Any]]


def pairs(ours: Runs, theirs: Runs, metric: str) -> list[tuple[float, float]]:
    """Return what both cells had in the same round, for each round in which both were quiet."""
    others = {run.get("round"): run for run in theirs}
    found = []
    for run in ours:
        both = [values([each], metric) for each in (run, others.get(run.get("round"), {}))]
        if all(both):
            found.append((both[0][0], both[1][0]))
    return found


def ratio_of(ours: Runs, theirs: Runs, metric: str) -> str:
    """Return the ratio of two cells with its interval; empty if there are too few rounds."""
    return ratio_cell(pairs(ours, theirs, metric))


def change_of(ours: Runs, theirs: Runs, metric: str) -> Interval | None:
    """Return by which share a cell exceeds another one; None if there are too few rounds."""
    return change(pairs(ours, theirs, metric))


def are_enough(*cells: Runs) -> bool:
    """Return whether each cell has a quiet run in enough rounds for a sentence about it."""
    return all(len({run.get("round") for run in filter(is_quiet, of)}) >= MIN_ROUNDS for of in cells)


def sections(*texts: str) -> str:
    """Join the parts of an experiment; empty ones are left out."""
    return "\n\n".join(text for text in texts if text)


def percent(value: float | None, places: int = 0) -> str:
    return "" if value is None else f"{value * 100:.{places}f} %"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown: the first column to the left, the others to the right."""
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)
