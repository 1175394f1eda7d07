"""Checks of workers' reports before they are used. Reports arrive through a socket, and the metrics
that are stored for a week must stay bounded. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite

from rheos.core.metrics.declarations import METRICS, Kind, Metric
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.control import Progress
from rheos.core.protocol.readings import Reading

MAX_READINGS = 100_000
"""Maximum number of readings in a report. A report has one for each metric of each operator."""
MAX_NAME = 1024
"""Maximum length of a label."""
MAX_PLACES = 10_000
"""Maximum number of remembered places of metrics. Others are checked each time."""
MAX_BUCKETS = 4096
"""Maximum number of buckets; a real histogram has fewer."""


@dataclass(frozen=True, slots=True)
class ReportShape:
    """The operators, edges and metrics that reports may contain."""

    operators: frozenset[str]
    chains: frozenset[str]
    edges: frozenset[str]
    parallelism: int
    places: set[tuple[str, tuple[str, ...]]] = field(default_factory=set, compare=False)
    """Metrics and labels that were checked before, up to `MAX_PLACES`. All subtasks report the same."""


def report_problem(report: Progress, shape: ReportShape) -> str | None:
    """Return why the report cannot be valid; None if it may be."""
    if not 0 <= report.subtask < shape.parallelism:
        return f"subtask {report.subtask} does not exist"
    by_operator = (report.records_in, report.records_out, report.watermark_ms)
    named = (report.counters, report.accumulated, report.gauges)
    if sum(len(all) for all in (*by_operator, *named)) + len(report.readings) > MAX_READINGS:
        return f"it has more than {MAX_READINGS} readings"
    for operator in (id for metrics in by_operator for id in metrics):
        if operator not in shape.operators:
            return f"the plan has no operator {operator[:MAX_NAME]!r}"
    for path in (path for metrics in named for path in metrics):
        operator, _, name = path.rpartition("/")
        if operator not in shape.operators or not 0 < len(name) <= MAX_NAME:
            return f"the plan has no operator for {path[:MAX_NAME]!r}"
    if min((*report.records_in.values(), *report.records_out.values(), 0)) < 0:
        return "a row count is negative"
    if any(len(added.buckets) > MAX_BUCKETS for added in report.accumulated.values()):
        return f"a histogram has more than {MAX_BUCKETS} buckets"
    return _first(_reading_problem(reading, shape) for reading in report.readings)


def _reading_problem(reading: Reading, shape: ReportShape) -> str | None:
    metric = METRICS.get(reading.metric)
    place = (reading.metric, reading.at)
    if metric is not None and place in shape.places:
        return _value_problem(metric, reading)
    if metric is None or not metric.scope.of_subtask:
        return f"workers do not report a metric {reading.metric[:MAX_NAME]!r}"
    labels = metric.scope.labels[:-1]
    if len(labels) != len(reading.at):
        return (
            f"{metric.name} has {len(labels)} labels in addition to the subtask, not {len(reading.at)}"
        )
    for label, value in zip(labels, reading.at, strict=True):
        if not _is_known(label, value, shape):
            return f"{metric.name} has {label} {value[:MAX_NAME]!r}, which is not in the plan"
    if len(shape.places) < MAX_PLACES:
        shape.places.add(place)
    return _value_problem(metric, reading)


def _is_known(label: str, value: str, shape: ReportShape) -> bool:
    match label:
        case "operator" | "source" | "sink":
            return value in shape.operators
        case "chain":
            return value in shape.chains
        case "edge":
            return value in shape.edges
        case _:
            return len(value) <= MAX_NAME


def _value_problem(metric: Metric, reading: Reading) -> str | None:
    value = reading.value
    if isinstance(value, Accumulated) != (metric.kind is Kind.HISTOGRAM):
        return f"{metric.name} is a {metric.kind.value}"
    if isinstance(value, Accumulated):
        if min(value.n, *value.buckets.values(), 0) < 0 or len(value.buckets) > MAX_BUCKETS:
            return f"{metric.name} is not a histogram"
    elif not isfinite(value) or (metric.kind is Kind.COUNTER and value < 0):
        return f"{metric.name} cannot be {value}"
    return (
        None
        if reading.per_s is None
        else f"{metric.name} contains a rate, which only the driver computes"
    )


def _first(problems: Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem is not None), None)
