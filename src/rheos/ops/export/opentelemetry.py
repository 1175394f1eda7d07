"""Metrics of jobs in the data model of OpenTelemetry (`pip install 'rheos[opentelemetry]'`). Pure.

Each metric's name begins with `rheos.`. It has its own unit, and the labels of Prometheus as
attributes. Counters are sums, and histograms have fixed bounds; both start again with each attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import assert_never

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import (
    Metric as OtelMetric,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from rheos.core.metrics.declarations import METRICS, Kind, Metric, Unit
from rheos.core.metrics.model import MetricsReport
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.readings import Reading
from rheos.core.version import VERSION
from rheos.ops.export.metric_labels import bounds_of, label_names, label_values

_UNITS: Mapping[Unit, str] = {
    Unit.ROWS: "{row}",
    Unit.BYTES: "By",
    Unit.BATCHES: "{batch}",
    Unit.MS: "ms",
    Unit.SECONDS: "s",
    Unit.EPOCH_MS: "ms",
    Unit.COUNT: "1",
    Unit.AS_GIVEN: "1",
}
"""Units as UCUM spells them, which OpenTelemetry uses."""
_CUMULATIVE = AggregationTemporality.CUMULATIVE
_UNKNOWN = 0
"""Unknown start of an attempt. A receiver recognises a new attempt by a lower value."""


def metrics_data(jobs: Sequence[MetricsReport]) -> MetricsData:
    """Return all metrics that have a reading, with one resource per job."""
    return MetricsData([_resource(job) for job in jobs])


def _resource(job: MetricsReport) -> ResourceMetrics:
    attributes = {
        "service.name": job.name,
        "service.namespace": "rheos",
        "service.instance.id": job.job,
    }
    scope = ScopeMetrics(InstrumentationScope("rheos", VERSION), list(_metrics(job)), "")
    return ResourceMetrics(Resource(attributes), [scope], "")


def _metrics(job: MetricsReport) -> Iterator[OtelMetric]:
    for metric in METRICS.values():
        data = _data(metric, job, job.of(metric))
        if data.data_points:
            yield OtelMetric(f"rheos.{metric.name}", metric.meaning, _UNITS[metric.unit], data)


def _data(metric: Metric, job: MetricsReport, readings: Sequence[Reading]) -> Sum | Gauge | Histogram:
    match metric.kind:
        case Kind.COUNTER:
            return Sum(list(_numbers(metric, job, readings)), _CUMULATIVE, is_monotonic=True)
        case Kind.GAUGE:
            return Gauge(list(_numbers(metric, job, readings)))
        case Kind.HISTOGRAM:
            return Histogram(list(_histograms(metric, job, readings)), _CUMULATIVE)
        case _:
            assert_never(metric.kind)


def _numbers(
    metric: Metric, job: MetricsReport, readings: Sequence[Reading]
) -> Iterator[NumberDataPoint]:
    for reading in readings:
        if not isinstance(reading.value, Accumulated):
            attributes = _attributes(metric, job, reading)
            yield NumberDataPoint(attributes, _UNKNOWN, _at_ns(job), reading.value)


def _histograms(
    metric: Metric, job: MetricsReport, readings: Sequence[Reading]
) -> Iterator[HistogramDataPoint]:
    for reading in readings:
        value = reading.value
        if not isinstance(value, Accumulated) or value.least is None or value.most is None:
            continue
        # A value without buckets becomes a histogram with one bucket for all numbers.
        bounds = bounds_of(metric) if value.buckets else []
        below = [0, *map(value.at_most, bounds), value.n]
        yield HistogramDataPoint(
            _attributes(metric, job, reading),
            _UNKNOWN,
            _at_ns(job),
            count=value.n,
            sum=value.total,
            bucket_counts=[more - less for less, more in pairwise(below)],
            explicit_bounds=bounds,
            min=value.least,
            max=value.most,
        )


def _attributes(metric: Metric, job: MetricsReport, reading: Reading) -> dict[str, str]:
    names = label_names(metric)
    return dict(zip(names, label_values(metric, job, reading), strict=True))


def _at_ns(job: MetricsReport) -> int:
    return job.at_ms * 1_000_000
