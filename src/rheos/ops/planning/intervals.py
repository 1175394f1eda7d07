"""Intervals in which values are expected in nine of ten cases, from a few measured values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, fsum, log, sqrt
from statistics import fmean, stdev

LARGEST = float("inf")
_STUDENT = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81)
"""Quantiles of Student's distribution for 95 %, by the degrees of freedom from 1 on."""
_NORMAL = 1.64
"""The same quantile for many degrees of freedom."""


@dataclass(frozen=True)
class ExpectedRange:
    """The two values between which a quantity is expected."""

    low: float
    high: float

    def times(self, low: float, high: float | None = None) -> ExpectedRange:
        """Return this interval with its ends multiplied, by one factor or by one each."""
        return ExpectedRange(self.low * low, self.high * (low if high is None else high))

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


NOTHING = ExpectedRange(0.0, 0.0)


def sum_of(intervals: Iterable[ExpectedRange]) -> ExpectedRange:
    """Return the interval of the sum of quantities whose errors have the same cause."""
    every = list(intervals)
    return ExpectedRange(fsum(each.low for each in every), fsum(each.high for each in every))


def student(freedom: int) -> float:
    """Return the number of standard deviations between the middle and the end of an interval."""
    return _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL


def around(value: float, error: float) -> ExpectedRange:
    """Return the interval of a value whose logarithm has the standard error `error`."""
    factor = exp(_NORMAL * error) if error < LARGEST else LARGEST
    return ExpectedRange(value / factor, value * factor)


def log_interval(value: float, values: Sequence[float]) -> ExpectedRange:
    """Return the interval of another value like `values`, all above zero, that has `value` inside. A
    single value shows nothing about the others, so its interval begins at zero and has no end."""
    if len(values) < 2:
        return ExpectedRange(0.0, LARGEST)
    return around(value, spread(values))


def spread(values: Sequence[float]) -> float:
    """Return the standard error of the logarithm of another value like `values`, such that `around`
    accounts for their small number; infinite for fewer than two values."""
    if len(values) < 2:
        return LARGEST
    logs = [log(each) for each in values]
    count = len(logs)
    return stdev(logs) * sqrt(1 + 1 / count) * student(count - 1) / _NORMAL


def root_mean_square(values: Sequence[float]) -> float:
    return sqrt(fmean(each * each for each in values)) if values else 0.0
