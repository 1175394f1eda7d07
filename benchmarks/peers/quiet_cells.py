"""Cells of a table, from the runs that nothing disturbed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.disturbance import is_quiet
from rheos.cli.benchmarks.intervals import cell, ratio_cell

Run = dict[str, Any]
"""Measurements by the names of `rheos bench --json`."""
Metric = Callable[[Run], float | None]


def median_cell(runs: Sequence[Run], metric: Metric, form: str) -> str:
    """Return the median of a metric with its interval, or `none`. `form` is a format, such as `.2f`."""
    known = [value for run in runs if is_quiet(run) and (value := metric(run)) is not None]
    return cell(known, f"{{:{form}}}".format) or "none"


def quiet_ratio_cell(ours: Sequence[Run], theirs: Sequence[Run], metric: Metric) -> str:
    """Return the ratio of a metric, from the rounds in which both runs were quiet. It is empty if these
    are too few."""
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if is_quiet(a) and is_quiet(b)]
    return ratio_cell([(metric(a) or 0.0, metric(b) or 0.0) for a, b in pairs])
