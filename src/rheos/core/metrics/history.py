"""Past metrics of a job: fine for an hour, coarse for a week, in ring buffers of bounded size. Pure.

A *moment* has one number for each *series*: a metric with its labels, over all subtasks. For a counter,
the number is the growth per second since the previous moment. For a histogram, the moment has quantiles
of the numbers that were added since then. A coarse moment merges the fine moments of its period; the
declaration of each metric defines how.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from math import isnan, nan
from typing import NamedTuple

from rheos.core.metrics.declarations import METRICS, Kind, Merge, Scope
from rheos.core.metrics.model import MetricsReport, across_subtasks, growth_per_s, merged
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.readings import Reading

MAX_SERIES = 1000
"""Maximum number of series in a moment. The last declared, programs' counters, are dropped first."""
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_SEPARATOR = "\t"


@dataclass(frozen=True)
class HistoryConfig:
    fine_ms: int = 10_000
    """Time between two moments."""

    @property
    def coarse_ms(self) -> int:
        return 60 * self.fine_ms

    @property
    def write_ms(self) -> int:
        return 3 * self.fine_ms

    @property
    def fine_moments(self) -> int:
        """Return the number of fine moments to keep: one hour at an interval of 10 s."""
        return 360

    @property
    def coarse_moments(self) -> int:
        """Return the number of coarse moments to keep: one week at an interval of 10 minutes."""
        return 1008


class MetricsMoment(NamedTuple):
    """The values of all series at one time. `values` has the order of `series`; NaN means no value."""

    at_ms: int
    series: tuple[str, ...]
    values: array[float]

    @classmethod
    def of(cls, at_ms: int, values: Mapping[str, float]) -> MetricsMoment:
        return cls(at_ms, tuple(values), array("d", values.values()))

    def numbers(self) -> dict[str, float]:
        found = zip(self.series, self.values, strict=True)
        return {series: value for series, value in found if not isnan(value)}


def series_of(reading: Reading, quantile: str = "") -> str:
    """Return the name of a series: metric, labels, and a histogram's quantile, separated by tabs."""
    labels = [label.replace(_SEPARATOR, " ") for label in reading.at]
    return _SEPARATOR.join([reading.metric, *labels, *([quantile] if quantile else [])])


class MomentMaker:
    """Creates moments of metrics, each from the changes since the previous one."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, tuple[str, ...]], Reading] = {}
        self._before_us = 0
        self._series: tuple[str, ...] = ()

    def moment(self, metrics: MetricsReport, now_us: int) -> MetricsMoment:
        """Return the moment of these metrics. `now_us` is monotonic, because the wall clock may be set
        between two moments."""
        elapsed_s = (now_us - self._before_us) / 1e6 if self._before else 0.0
        grown = [self._growth_of(r, elapsed_s) for r in metrics.readings if _is_kept(r)]
        self._before = {(r.metric, r.at): r for r in metrics.readings}
        self._before_us = now_us
        found: dict[str, float] = {}
        order = {name: n for n, name in enumerate(METRICS)}
        for reading in sorted(across_subtasks(grown), key=lambda r: order[r.metric]):
            found |= _numbers(reading)
        moment = MetricsMoment.of(metrics.at_ms, dict(islice(found.items(), MAX_SERIES)))
        if moment.series == self._series:
            # So a thousand moments share one tuple of names.
            return moment._replace(series=self._series)
        self._series = moment.series
        return moment

    def _growth_of(self, reading: Reading, elapsed_s: float) -> Reading:
        metric, before = METRICS[reading.metric], self._before.get((reading.metric, reading.at))
        value = reading.value
        if isinstance(value, Accumulated):
            earlier = Accumulated() if before is None else before.value
            assert isinstance(earlier, Accumulated)
            return Reading(metric.name, reading.at, value.since(earlier))
        per_s = growth_per_s(metric, 0 if before is None else before.value, value, elapsed_s)
        return Reading(metric.name, reading.at, value, per_s)


def _is_kept(reading: Reading) -> bool:
    """Return whether the history keeps a reading. Splits and keys come and go, and there may be many.
    So the history has only the skew of all splits, and the lag of the source."""
    return METRICS[reading.metric].scope not in (Scope.SPLIT, Scope.KEY)


def _numbers(reading: Reading) -> dict[str, float]:
    value = reading.value
    if isinstance(value, Accumulated):
        quantiles = {name: value.quantile(share) for name, share in QUANTILES.items()}
        return {series_of(reading, name): q for name, q in quantiles.items() if q is not None}
    if METRICS[reading.metric].kind is Kind.COUNTER:
        return {} if reading.per_s is None else {series_of(reading): reading.per_s}
    return {series_of(reading): value}


# --- merging moments --------------------------------------------------------------------------------


def rolled_up(moments: Sequence[MetricsMoment]) -> MetricsMoment:
    """Merge one or more moments into one, with the time of the last."""
    values: dict[str, list[float]] = {}
    for moment in moments:
        for series, value in moment.numbers().items():
            values.setdefault(series, []).append(value)
    return MetricsMoment.of(
        moments[-1].at_ms,
        {series: merged(_merge_over_time(series), found) for series, found in values.items()},
    )


def _merge_over_time(series: str) -> Merge:
    name, *labels = series.split(_SEPARATOR)
    metric = METRICS.get(name)
    if metric is None or (labels and labels[-1] == "p99"):
        return Merge.MOST
    return metric.over


class MetricsHistory:
    """The ring buffers of both kinds of moments. `add` receives them in order; the clock may jump."""

    def __init__(self, config: HistoryConfig) -> None:
        self._config = config
        self.fine: deque[MetricsMoment] = deque(maxlen=config.fine_moments)
        self.coarse: deque[MetricsMoment] = deque(maxlen=config.coarse_moments)
        self._period: list[MetricsMoment] = []
        """Fine moments of the current coarse period."""

    def add(self, moment: MetricsMoment) -> MetricsMoment | None:
        """Add a moment. Return the coarse moment if this completes one."""
        finished = None
        if self._period and self._period_of(moment) != self._period_of(self._period[-1]):
            finished = rolled_up(self._period)
            self.coarse.append(finished)
            self._period = []
        self._period.append(moment)
        self.fine.append(moment)
        return finished

    def _period_of(self, moment: MetricsMoment) -> int:
        return moment.at_ms // self._config.coarse_ms

    def precede(self, fine: Iterable[MetricsMoment], coarse: Iterable[MetricsMoment]) -> None:
        """Add moments of an earlier driver, from before all others."""
        for ring, before in ((self.fine, fine), (self.coarse, coarse)):
            own = list(ring)
            ring.clear()
            ring.extend(before)
            ring.extend(own)


def columns(moments: Sequence[MetricsMoment]) -> tuple[list[str], list[list[float | None]]]:
    """Return all series of the moments, and the values of each moment; None means no value."""
    series = sorted({name for names, _ in groupby(m.series for m in moments) for name in names})
    rows = []
    for moment in moments:
        numbers = moment.numbers()
        rows.append([numbers.get(name) for name in series])
    return series, rows


def moments_of(
    series: Sequence[str], at_ms: Sequence[int], rows: Sequence[Sequence[float | None]]
) -> list[MetricsMoment]:
    """Return moments for the result of `columns`."""
    names = tuple(series)
    return [
        MetricsMoment(at, names, array("d", [nan if value is None else value for value in row]))
        for at, row in zip(at_ms, rows, strict=True)
    ]
