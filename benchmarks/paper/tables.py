"""Figures as text: medians with their spreads, units, tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any


def middle(runs: Sequence[dict[str, Any]], metric: str) -> float | None:
    """Return the median of a metric over runs; None if no run has it."""
    known = values(runs, metric)
    return median(known) if known else None


def values(runs: Sequence[dict[str, Any]], metric: str) -> list[float]:
    """`metric` may be a path: "latency_ms.p99"."""
    found = []
    for run in runs:
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
    """The median, and the least and the largest where there are several runs."""
    known = values(runs, metric)
    if not known:
        return ""
    if len(known) == 1:
        return str(text(known[0]))
    return f"{text(median(known))} ({text(min(known))} to {text(max(known))})"


def percent(value: float | None, places: int = 0) -> str:
    return "" if value is None else f"{value * 100:.{places}f} %"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown: the first column to the left, the others to the right."""
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)
