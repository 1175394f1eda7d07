"""Metrics of jobs in the data model of Prometheus' client (`pip install 'rheos[prometheus]'`). Pure.

Each family's name is `rheos_` and the metric's name. It has its own unit, and the label `job` and those
of its scope; an operator's id is accompanied by its name. Histograms have fixed bounds, so that those
of several scrapes, subtasks and attempts can be combined. A metric without buckets is a summary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import assert_never

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.core import (
    Metric as MetricFamily,
)
from prometheus_client.registry import Collector

from rheos.core.metrics.declarations import METRICS, Kind, Metric
from rheos.core.metrics.model import MetricsReport
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.readings import Reading
from rheos.ops.export.metric_labels import bounds_of, label_names, label_values


class MetricsCollector(Collector):
    """The collector that a registry of Prometheus' client calls at every scrape. `jobs` returns the
    current metrics; it may be called from any thread."""

    def __init__(self, jobs: Callable[[], Sequence[MetricsReport]]) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[MetricFamily]:
        return families(self._jobs())

    def describe(self) -> Iterable[MetricFamily]:
        """Return nothing: the families depend on the jobs."""
        return ()


class ListenersCollector(Collector):
    """The connections of this process' listeners: `rheos_listener_connections` by state, and
    `rheos_listener_connections_closed_total` by reason. They belong to no job."""

    def __init__(self, counts: Callable[[], Iterable[tuple[str, str, int]]]) -> None:
        """Collect from `counts`: the name of a listener, the counted thing, and the count."""
        self._counts = counts

    def collect(self) -> Iterator[MetricFamily]:
        now = GaugeMetricFamily(
            "rheos_listener_connections", "Open connections of a listener", labels=("listener", "state")
        )
        closed = CounterMetricFamily(
            "rheos_listener_connections_closed",
            "Connections that a listener has closed or refused",
            labels=("listener", "reason"),
        )
        for listener, name, count in self._counts():
            family = now if name in ("waiting", "admitted") else closed
            family.add_metric((listener, name), count)
        yield now
        yield closed

    def describe(self) -> Iterable[MetricFamily]:
        return ()


def families(jobs: Sequence[MetricsReport]) -> Iterator[MetricFamily]:
    """Yield the families that have a reading, in the order of their declarations."""
    for metric in METRICS.values():
        found = [(job, reading) for job in jobs for reading in job.of(metric)]
        match metric.kind:
            case Kind.COUNTER | Kind.GAUGE:
                yield from _numbers(metric, found)
            case Kind.HISTOGRAM:
                yield from _histograms(metric, found)
                yield from _summaries(metric, found)
            case _:
                assert_never(metric.kind)


def _numbers(metric: Metric, found: Sequence[tuple[MetricsReport, Reading]]) -> Iterator[MetricFamily]:
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(*_head(metric), labels=label_names(metric))
    for job, reading in found:
        if not isinstance(reading.value, Accumulated):
            family.add_metric(label_values(metric, job, reading), reading.value)
    if family.samples:
        yield family


def _histograms(
    metric: Metric, found: Sequence[tuple[MetricsReport, Reading]]
) -> Iterator[MetricFamily]:
    family = HistogramMetricFamily(*_head(metric), labels=label_names(metric))
    bounds = bounds_of(metric)
    for job, reading in found:
        value = reading.value
        if isinstance(value, Accumulated) and value.buckets:
            counts = zip(map(str, bounds), map(value.at_most, bounds), strict=True)
            buckets = [*((bound, float(n)) for bound, n in counts), ("+Inf", float(value.n))]
            family.add_metric(label_values(metric, job, reading), buckets, sum_value=value.total)
    if family.samples:
        yield family


def _summaries(
    metric: Metric, found: Sequence[tuple[MetricsReport, Reading]]
) -> Iterator[MetricFamily]:
    name, meaning = _head(metric)
    family = SummaryMetricFamily(f"{name}_sum_only", meaning, labels=label_names(metric))
    for job, reading in found:
        value = reading.value
        if isinstance(value, Accumulated) and value.n and not value.buckets:
            family.add_metric(label_values(metric, job, reading), value.n, value.total)
    if family.samples:
        yield family


def _head(metric: Metric) -> tuple[str, str]:
    return f"rheos_{metric.name}", f"{metric.meaning} ({metric.unit.value})"
