"""Parts that all exports of metrics share: labels, bounds of histograms, expressions for Prometheus."""

from __future__ import annotations

from typing import assert_never

from rheos.core.metrics.declarations import Kind, Merge, Metric, Unit
from rheos.core.metrics.model import MetricsReport
from rheos.core.protocol.readings import Reading

_STEPS = (1, 2, 5)
_MS_BOUNDS = [step * 10.0**power for power in range(6) for step in _STEPS]
_BOUNDS = [step * 10.0**power for power in range(-3, 10) for step in _STEPS]
_OPERATORS = ("operator", "source", "sink")


def label_names(metric: Metric) -> list[str]:
    """Return the label names: `job`, those of the metric's scope, and the names of operators."""
    labels = metric.scope.labels
    return ["job", *labels, *(f"{label}_name" for label in labels if label in _OPERATORS)]


def label_values(metric: Metric, job: MetricsReport, reading: Reading) -> list[str]:
    """Return the values for a reading, in the order of `label_names`."""
    named = zip(metric.scope.labels, reading.at, strict=True)
    names = [job.operators.get(value, "") for label, value in named if label in _OPERATORS]
    return [job.job, *reading.at, *names]


def bounds_of(metric: Metric) -> list[float]:
    """Return the bounds of a histogram's buckets. They are fixed, so that those of several exports,
    subtasks and attempts can be combined."""
    return _MS_BOUNDS if metric.unit is Unit.MS else _BOUNDS


# --- expressions of Prometheus over the exported metrics ----------------------------------------------


PREFIX = "rheos_"
QUANTILES = (0.5, 0.99)
_MERGES = {
    Merge.SUM: "sum",
    Merge.MEAN: "avg",
    Merge.MOST: "max",
    Merge.LEAST: "min",
    Merge.LAST: "max",
}


def exported_name(metric: Metric) -> str:
    """Return the name of the metric's family in Prometheus."""
    return f"{PREFIX}{metric.name}"


def sample_name(metric: Metric) -> str:
    """Return the name of the samples that expressions use."""
    match metric.kind:
        case Kind.COUNTER:
            return f"{exported_name(metric)}_total"
        case Kind.GAUGE:
            return exported_name(metric)
        case Kind.HISTOGRAM:
            return f"{exported_name(metric)}_bucket"
        case _:
            assert_never(metric.kind)


def shown_labels(metric: Metric) -> list[str]:
    """Return the labels by which a graph tells lines apart: without subtasks, and operators by name."""
    labels = label_names(metric)
    return [each for each in labels if each != "subtask" and f"{each}_name" not in labels]


def expressions(metric: Metric, matchers: str, window: str) -> dict[str, str]:
    """Return the expressions that show a metric, by what distinguishes them: "" or a quantile.

    A counter is shown as its growth per second, a counter of milliseconds as a share of time. A gauge
    is combined over subtasks as its declaration specifies, a histogram shown by its quantiles.

    Args:
        metric: the metric.
        matchers: label matchers that select the series, such as `job=~"$job"`.
        window: the range of rates, such as `5m`.
    """
    series = f"{sample_name(metric)}{{{matchers}}}"
    by = ", ".join(shown_labels(metric))
    match metric.kind:
        case Kind.COUNTER:
            rate = f"sum by ({by}) (rate({series}[{window}]))"
            return {"": f"{rate} / 1000" if metric.unit is Unit.MS else rate}
        case Kind.GAUGE:
            return {"": f"{_MERGES[metric.across]} by ({by}) ({series})"}
        case Kind.HISTOGRAM:
            return {
                f"p{quantile * 100:g}": f"histogram_quantile({quantile:g}, "
                f"sum by (le, {by}) (rate({series}[{window}])))"
                for quantile in QUANTILES
            }
        case _:
            assert_never(metric.kind)
