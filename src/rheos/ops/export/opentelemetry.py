"""Figures of jobs in the words of OpenTelemetry (`pip install 'rheos[opentelemetry]'`). Pure.

Every figure is a metric `rheos.` and its name, in its own unit, with the attributes that Prometheus has
as labels. Counters are sums, and histograms have fixed bounds; both begin again with each attempt.
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
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from rheos.core.metrics.figures import FIGURES, Figure, Kind, Unit
from rheos.core.metrics.model import JobFigures
from rheos.core.protocol.accumulated import Accumulated
from rheos.core.protocol.readings import Reading
from rheos.core.version import VERSION
from rheos.ops.export.exported import bounds_of, label_names, label_values

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
"""As UCUM spells them, which OpenTelemetry goes by."""
_CUMULATIVE = AggregationTemporality.CUMULATIVE
_UNKNOWN = 0
"""Of when an attempt began: a receiver sees by a lower value that it was another one."""


def metrics_data(jobs: Sequence[JobFigures]) -> MetricsData:
    """All figures that have a reading: a resource for each job."""
    return MetricsData([_resource(job) for job in jobs])


def _resource(job: JobFigures) -> ResourceMetrics:
    attributes = {
        "service.name": job.name,
        "service.namespace": "rheos",
        "service.instance.id": job.job,
    }
    scope = ScopeMetrics(InstrumentationScope("rheos", VERSION), list(_metrics(job)), "")
    return ResourceMetrics(Resource(attributes), [scope], "")


def _metrics(job: JobFigures) -> Iterator[Metric]:
    for figure in FIGURES.values():
        data = _data(figure, job, job.of(figure))
        if data.data_points:
            yield Metric(f"rheos.{figure.name}", figure.meaning, _UNITS[figure.unit], data)


def _data(figure: Figure, job: JobFigures, readings: Sequence[Reading]) -> Sum | Gauge | Histogram:
    match figure.kind:
        case Kind.COUNTER:
            return Sum(list(_numbers(figure, job, readings)), _CUMULATIVE, is_monotonic=True)
        case Kind.GAUGE:
            return Gauge(list(_numbers(figure, job, readings)))
        case Kind.HISTOGRAM:
            return Histogram(list(_histograms(figure, job, readings)), _CUMULATIVE)
        case _:
            assert_never(figure.kind)


def _numbers(figure: Figure, job: JobFigures, readings: Sequence[Reading]) -> Iterator[NumberDataPoint]:
    for reading in readings:
        if not isinstance(reading.value, Accumulated):
            attributes = _attributes(figure, job, reading)
            yield NumberDataPoint(attributes, _UNKNOWN, _at_ns(job), reading.value)


def _histograms(
    figure: Figure, job: JobFigures, readings: Sequence[Reading]
) -> Iterator[HistogramDataPoint]:
    for reading in readings:
        value = reading.value
        if not isinstance(value, Accumulated) or value.least is None or value.most is None:
            continue
        # What has no buckets is a histogram of one: of all numbers.
        bounds = bounds_of(figure) if value.buckets else []
        below = [0, *map(value.at_most, bounds), value.n]
        yield HistogramDataPoint(
            _attributes(figure, job, reading),
            _UNKNOWN,
            _at_ns(job),
            count=value.n,
            sum=value.total,
            bucket_counts=[more - less for less, more in pairwise(below)],
            explicit_bounds=bounds,
            min=value.least,
            max=value.most,
        )


def _attributes(figure: Figure, job: JobFigures, reading: Reading) -> dict[str, str]:
    names = label_names(figure)
    return dict(zip(names, label_values(figure, job, reading), strict=True))


def _at_ns(job: JobFigures) -> int:
    return job.at_ms * 1_000_000
