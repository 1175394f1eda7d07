"""Figures of jobs in the words of Prometheus' client (`pip install 'rheos[prometheus]'`). Pure.

Every figure is a family `rheos_` and its name, in its own unit, with the labels `job` and those of its
scope; beside an operator's id stands its name. Histograms have fixed bounds, so that those of several
scrapes, subtasks and attempts can be put together; what has no buckets is a summary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import assert_never

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from rheos.core.metrics.figures import FIGURES, Figure, Kind
from rheos.core.metrics.model import JobFigures
from rheos.core.protocol.accumulated import Accumulated
from rheos.core.protocol.readings import Reading
from rheos.ops.export.exported import bounds_of, label_names, label_values


class FiguresCollector(Collector):
    """What a registry of Prometheus' client asks at every scrape. `jobs` gives the figures as they are
    then; it may be called from any thread."""

    def __init__(self, jobs: Callable[[], Sequence[JobFigures]]) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[Metric]:
        return families(self._jobs())

    def describe(self) -> Iterable[Metric]:
        """Nothing: what there is depends on the jobs."""
        return ()


class ListenersCollector(Collector):
    """The connections of this process' listeners: `rheos_listener_connections` by state, and
    `rheos_listener_connections_closed_total` by reason. They belong to no job."""

    def __init__(self, counts: Callable[[], Iterable[tuple[str, str, int]]]) -> None:
        """`counts` returns the name of a listener, what is counted, and the count."""
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
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

    def describe(self) -> Iterable[Metric]:
        return ()


def families(jobs: Sequence[JobFigures]) -> Iterator[Metric]:
    """Those that have a reading, in the order of their declarations."""
    for figure in FIGURES.values():
        found = [(job, reading) for job in jobs for reading in job.of(figure)]
        match figure.kind:
            case Kind.COUNTER | Kind.GAUGE:
                yield from _numbers(figure, found)
            case Kind.HISTOGRAM:
                yield from _histograms(figure, found)
                yield from _summaries(figure, found)
            case _:
                assert_never(figure.kind)


def _numbers(figure: Figure, found: Sequence[tuple[JobFigures, Reading]]) -> Iterator[Metric]:
    family = CounterMetricFamily if figure.kind is Kind.COUNTER else GaugeMetricFamily
    metric = family(*_head(figure), labels=label_names(figure))
    for job, reading in found:
        if not isinstance(reading.value, Accumulated):
            metric.add_metric(label_values(figure, job, reading), reading.value)
    if metric.samples:
        yield metric


def _histograms(figure: Figure, found: Sequence[tuple[JobFigures, Reading]]) -> Iterator[Metric]:
    metric = HistogramMetricFamily(*_head(figure), labels=label_names(figure))
    bounds = bounds_of(figure)
    for job, reading in found:
        value = reading.value
        if isinstance(value, Accumulated) and value.buckets:
            counts = zip(map(str, bounds), map(value.at_most, bounds), strict=True)
            buckets = [*((bound, float(n)) for bound, n in counts), ("+Inf", float(value.n))]
            metric.add_metric(label_values(figure, job, reading), buckets, sum_value=value.total)
    if metric.samples:
        yield metric


def _summaries(figure: Figure, found: Sequence[tuple[JobFigures, Reading]]) -> Iterator[Metric]:
    name, meaning = _head(figure)
    metric = SummaryMetricFamily(f"{name}_sum_only", meaning, labels=label_names(figure))
    for job, reading in found:
        value = reading.value
        if isinstance(value, Accumulated) and value.n and not value.buckets:
            metric.add_metric(label_values(figure, job, reading), value.n, value.total)
    if metric.samples:
        yield metric


def _head(figure: Figure) -> tuple[str, str]:
    return f"rheos_{figure.name}", f"{figure.meaning} ({figure.unit.value})"
