"""What all exports of metrics share: their labels, and the bounds of histograms. Pure."""

from __future__ import annotations

from rheos.core.metrics.declarations import Metric, Unit
from rheos.core.metrics.model import MetricsReport
from rheos.core.protocol.readings import Reading

_STEPS = (1, 2, 5)
_MS_BOUNDS = [step * 10.0**power for power in range(6) for step in _STEPS]
_BOUNDS = [step * 10.0**power for power in range(-3, 10) for step in _STEPS]
_OPERATORS = ("operator", "source", "sink")


def label_names(metric: Metric) -> list[str]:
    """The job, the labels of the metric's scope, and beside ids of operators their names."""
    labels = metric.scope.labels
    return ["job", *labels, *(f"{label}_name" for label in labels if label in _OPERATORS)]


def label_values(metric: Metric, job: MetricsReport, reading: Reading) -> list[str]:
    """For a reading, in the order of `label_names`."""
    named = zip(metric.scope.labels, reading.at, strict=True)
    names = [job.operators.get(value, "") for label, value in named if label in _OPERATORS]
    return [job.job, *reading.at, *names]


def bounds_of(metric: Metric) -> list[float]:
    """Of a histogram's buckets: fixed, so that those of several exports, subtasks and attempts can be
    put together."""
    return _MS_BOUNDS if metric.unit is Unit.MS else _BOUNDS
