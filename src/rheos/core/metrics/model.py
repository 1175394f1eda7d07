"""The metrics of a job at one moment, and the merging of readings of several subtasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from math import isfinite
from typing import Any, assert_never

import msgspec

from rheos.core.metrics import declarations as f
from rheos.core.metrics.declarations import METRICS, Kind, Merge, Metric
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.control import Progress
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from rheos.core.protocol.readings import Reading

Value = int | float | Accumulated


class MetricsReport(msgspec.Struct, frozen=True):
    """All metrics of a job at one moment, by subtask, and the names for their labels."""

    job: str
    name: str
    at_ms: int
    """Time by the driver's wall clock, ms since the epoch."""
    attempt: int
    operators: dict[str, str]
    """Names of the operators by id, in the order of the plan."""
    chains: dict[str, list[str]]
    """Operators of each chain."""
    edges: dict[str, tuple[str, str]]
    """Sending and receiving chain of each edge."""
    readings: list[Reading]

    def of(self, metric: Metric) -> list[Reading]:
        return [reading for reading in self.readings if reading.metric == metric.name]


# --- readings of one subtask ------------------------------------------------------------------------


def subtask_readings(report: Progress, before: Progress | None, now_ms: int) -> list[Reading]:
    """Return the readings of a subtask's newest report, with the growth since the previous one.
    `now_ms` is the wall-clock time at which the report arrived."""
    subtask = str(report.subtask)
    values = {(r.metric, r.at): r.value for r in _read(report, now_ms)}
    earlier: dict[tuple[str, tuple[str, ...]], Value] = {}
    elapsed_s = 0.0
    if before is not None:
        earlier = {(r.metric, r.at): r.value for r in _read(before, now_ms)}
        elapsed_s = (report.step_us - before.step_us) / 1e6
    return [
        Reading(
            name,
            (*at, subtask),
            value,
            growth_per_s(METRICS[name], earlier.get((name, at), 0), value, elapsed_s),
        )
        for (name, at), value in values.items()
    ]


def growth_per_s(metric: Metric, before: Value, value: Value, elapsed_s: float) -> float | None:
    """Return the growth of a counter per second; None if it is unknown. A counter that has become
    smaller was restarted."""
    if metric.kind is not Kind.COUNTER or elapsed_s <= 0:
        return None
    assert not isinstance(value, Accumulated)
    assert not isinstance(before, Accumulated)
    return (value - before if value >= before else value) / elapsed_s


def _read(report: Progress, now_ms: int) -> Iterator[Reading]:
    yield Reading(f.SLOT_BUSY.name, (), report.busy_us / 1000)
    yield Reading(f.SLOT_BLOCKED.name, (), report.blocked_us / 1000)
    for operator, rows in report.records_in.items():
        yield Reading(f.ROWS_IN.name, (operator,), rows)
    for operator, rows in report.records_out.items():
        yield Reading(f.ROWS_OUT.name, (operator,), rows)
    for operator, watermark_ms in report.watermark_ms.items():
        if MIN_TIMESTAMP_MS < watermark_ms < MAX_TIMESTAMP_MS:
            yield Reading(f.WATERMARK.name, (operator,), watermark_ms)
            yield Reading(f.WATERMARK_LAG.name, (operator,), now_ms - watermark_ms)
    for path, count in report.counters.items():
        yield Reading(f.COUNTER.name, _named(path), count)
    for path, shown in report.gauges.items():
        if isfinite(shown):
            yield Reading(f.GAUGE.name, _named(path), shown)
    for path, added in report.accumulated.items():
        yield Reading(f.ADDED.name, _named(path), added)
    yield from report.readings


def _named(path: str) -> tuple[str, str]:
    operator, _, name = path.rpartition("/")
    return operator, name


# --- readings of several ----------------------------------------------------------------------------


def across_subtasks(readings: Iterable[Reading]) -> list[Reading]:
    """Merge each metric of subtasks over all subtasks. Readings of other metrics are unchanged."""
    groups: dict[tuple[str, tuple[str, ...]], list[Reading]] = {}
    for reading in readings:
        at = reading.at[:-1] if METRICS[reading.metric].scope.of_subtask else reading.at
        groups.setdefault((reading.metric, at), []).append(reading)
    return [_as_one(METRICS[name], at, group) for (name, at), group in groups.items()]


def _as_one(metric: Metric, at: tuple[str, ...], group: Sequence[Reading]) -> Reading:
    rates = [reading.per_s for reading in group if reading.per_s is not None]
    histograms = [r.value for r in group if isinstance(r.value, Accumulated)]
    if histograms:
        return Reading(metric.name, at, reduce(Accumulated.plus, histograms))
    numbers = [r.value for r in group if not isinstance(r.value, Accumulated)]
    return Reading(metric.name, at, merged(metric.across, numbers), sum(rates) if rates else None)


def merged(how: Merge, values: Sequence[float]) -> float:
    """Merge one or more numbers into one."""
    match how:
        case Merge.SUM:
            return sum(values)
        case Merge.MEAN:
            return sum(values) / len(values)
        case Merge.MOST:
            return max(values)
        case Merge.LEAST:
            return min(values)
        case Merge.LAST:
            return values[-1]
        case _:
            assert_never(how)


def event_time_skew(readings: Iterable[Reading]) -> list[Reading]:
    """Return the distance between each source's fastest and slowest split, over all subtasks."""
    marks: dict[str, list[float]] = {}
    for reading in readings:
        if reading.metric == f.SPLIT_WATERMARK.name and not isinstance(reading.value, Accumulated):
            marks.setdefault(reading.at[0], []).append(reading.value)
    return [Reading(f.SKEW.name, (op,), max(found) - min(found)) for op, found in marks.items()]


# --- as JSON ----------------------------------------------------------------------------------------

QUANTILES = (0.5, 0.95, 0.99)


def metrics_object(metrics: MetricsReport) -> dict[str, Any]:
    """Return the JSON object of commands and exports: each metric with its unit and its readings."""
    shown: dict[str, Any] = {}
    for reading in metrics.readings:
        metric = METRICS[reading.metric]
        entry = shown.setdefault(
            metric.name, {"unit": metric.unit.value, "kind": metric.kind.value, "readings": []}
        )
        entry["readings"].append(_reading_object(metric, reading))
    values = {n: getattr(metrics, n) for n in metrics.__struct_fields__ if n != "readings"}
    return {**values, "metrics": {name: shown[name] for name in METRICS if name in shown}}


def _reading_object(metric: Metric, reading: Reading) -> dict[str, Any]:
    labels = dict(zip(metric.scope.labels, reading.at, strict=True))
    value = reading.value
    if not isinstance(value, Accumulated):
        rate = {} if reading.per_s is None else {"per_s": reading.per_s}
        return {**labels, "value": value, **rate}
    spread = {f"p{q * 100:g}": value.quantile(q) for q in QUANTILES} if value.buckets else {}
    least_most = {"least": value.least, "most": value.most, "mean": value.mean}
    return {**labels, "n": value.n, "total": value.total, **least_most, **spread}
