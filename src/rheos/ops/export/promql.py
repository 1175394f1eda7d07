"""Expressions of Prometheus over the exported metrics, made from their declarations. Pure."""

from __future__ import annotations

from typing import assert_never

from rheos.core.metrics.figures import Figure, Kind, Merge, Unit
from rheos.ops.export.exported import label_names

PREFIX = "rheos_"
QUANTILES = (0.5, 0.99)
_MERGES = {
    Merge.SUM: "sum",
    Merge.MEAN: "avg",
    Merge.MOST: "max",
    Merge.LEAST: "min",
    Merge.LAST: "max",
}


def exported_name(figure: Figure) -> str:
    """Return the name of the metric's family, as Prometheus has it."""
    return f"{PREFIX}{figure.name}"


def sample_name(figure: Figure) -> str:
    """Return the name of the samples that expressions use."""
    match figure.kind:
        case Kind.COUNTER:
            return f"{exported_name(figure)}_total"
        case Kind.GAUGE:
            return exported_name(figure)
        case Kind.HISTOGRAM:
            return f"{exported_name(figure)}_bucket"
        case _:
            assert_never(figure.kind)


def shown_labels(figure: Figure) -> list[str]:
    """Return the labels by which a graph tells lines apart: without subtasks, and operators by name."""
    labels = label_names(figure)
    return [each for each in labels if each != "subtask" and f"{each}_name" not in labels]


def expressions(figure: Figure, matchers: str, window: str) -> dict[str, str]:
    """Return the expressions that show a metric, by what distinguishes them: "" or a quantile.

    A counter is its growth per second, a counter of milliseconds a share of time, a gauge what its
    declaration says over subtasks, a histogram its quantiles.

    Args:
        figure: the metric.
        matchers: what selects the series, such as `job=~"$job"`.
        window: the range of rates, such as `5m`.
    """
    series = f"{sample_name(figure)}{{{matchers}}}"
    by = ", ".join(shown_labels(figure))
    match figure.kind:
        case Kind.COUNTER:
            rate = f"sum by ({by}) (rate({series}[{window}]))"
            return {"": f"{rate} / 1000" if figure.unit is Unit.MS else rate}
        case Kind.GAUGE:
            return {"": f"{_MERGES[figure.across]} by ({by}) ({series})"}
        case Kind.HISTOGRAM:
            return {
                f"p{quantile * 100:g}": f"histogram_quantile({quantile:g}, "
                f"sum by (le, {by}) (rate({series}[{window}])))"
                for quantile in QUANTILES
            }
        case _:
            assert_never(figure.kind)
