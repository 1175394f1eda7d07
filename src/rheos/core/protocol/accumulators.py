"""Aggregates of numbers that a function reported: count, sum, minimum, maximum, and a histogram.

Partial aggregates, from several subtasks or attempts, are merged in any order.
"""

from __future__ import annotations

import sys
from math import frexp, ldexp

import msgspec

_PER_DOUBLING = 16
_EXPONENTS = 64
_LOWEST = -_EXPONENTS * _PER_DOUBLING - 1
"""Bucket of numbers that are negative, zero, or almost zero."""
MOST_INT = 2**63 - 1
_MOST_FLOAT = sys.float_info.max


class Accumulated(msgspec.Struct, frozen=True):
    """Aggregates of the added numbers. The last digits of a sum of floats depend on the order.

    ```python
    scores = env.execute("scores").accumulator("score", "millis")
    print(scores.count, scores.quantile(0.99))
    ```
    """

    n: int = 0
    """Number of values."""
    total: int | float = 0
    """Sum of the values."""
    least: int | float | None = None
    """Smallest value; None if there are no values."""
    most: int | float | None = None
    buckets: dict[int, int] = {}
    """Counts of a histogram by bucket. A bucket covers a sixteenth of a doubling."""

    @property
    def mean(self) -> float | None:
        """Return the mean; None if there are no values."""
        return self.total / self.n if self.n else None

    def quantile(self, share: float) -> float | None:
        """Return an approximate quantile of a histogram's numbers, within 3 %.

        Args:
            share: Share of the numbers that are less than the result, from 0 to 1.

        Returns:
            The quantile; None if the histogram has no numbers.
        """
        left = share * sum(self.buckets.values())
        for bucket in sorted(self.buckets):
            left -= self.buckets[bucket]
            if left <= 0:
                assert self.least is not None
                assert self.most is not None
                return float(min(max(_value(bucket), self.least), self.most))
        return None

    def at_most(self, bound: float) -> int:
        """Return the approximate number of a histogram's values up to a bound.

        Args:
            bound: The bound. A value within 3 % of it may be counted or not.

        Returns:
            The number of values.
        """
        return sum(n for bucket, n in self.buckets.items() if _value(bucket) <= bound)

    def since(self, before: Accumulated) -> Accumulated:
        """Return the part that was added after an earlier state of this total.

        Args:
            before: The earlier state.

        Returns:
            The difference. If `before` is not an earlier state, everything. Minimum and maximum are
            those of everything.
        """
        grown = {bucket: n - before.buckets.get(bucket, 0) for bucket, n in self.buckets.items()}
        if self.n < before.n or min(grown.values(), default=0) < 0:
            return self
        left = {bucket: n for bucket, n in grown.items() if n}
        return Accumulated(self.n - before.n, self.total - before.total, self.least, self.most, left)

    def plus(self, other: Accumulated) -> Accumulated:
        """Return the total of this and another one, such as that of another subtask.

        Args:
            other: The other total.

        Returns:
            The total of both.
        """
        buckets = {
            bucket: self.buckets.get(bucket, 0) + other.buckets.get(bucket, 0)
            for bucket in {**self.buckets, **other.buckets}
        }
        least = [each.least for each in (self, other) if each.least is not None]
        most = [each.most for each in (self, other) if each.most is not None]
        return Accumulated(
            self.n + other.n,
            bounded(self.total + other.total),
            min(least, default=None),
            max(most, default=None),
            buckets,
        )


def bounded(total: int | float) -> int | float:
    """Return a sum in a form that can be stored: beyond 64 bits as a float, and beyond the range of
    floats as the greatest float."""
    if -MOST_INT <= total <= MOST_INT:
        return total
    return float(min(max(total, -_MOST_FLOAT), _MOST_FLOAT))


def bucket_of(value: float) -> int:
    if not value > 0:
        return _LOWEST
    fraction, exponent = frexp(value)
    exponent = min(max(exponent, -_EXPONENTS), _EXPONENTS)
    return exponent * _PER_DOUBLING + int((fraction - 0.5) * 2 * _PER_DOUBLING)


def _value(bucket: int) -> float:
    """Return the middle of a bucket."""
    if bucket == _LOWEST:
        return 0.0
    exponent, part = divmod(bucket, _PER_DOUBLING)
    return ldexp(0.5 + (part + 0.5) / (2 * _PER_DOUBLING), exponent)
