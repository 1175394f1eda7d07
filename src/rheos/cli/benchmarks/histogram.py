"""A histogram of latencies: every record counts, and a quantile is off by less than half a percent.

Buckets are log-linear: each power of two is cut into 128 equal ones. A value's bucket is its float64
without the lower mantissa bits, so that finding it takes two vector operations.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

_CUTS_BITS = 7
_SHIFT = 52 - _CUTS_BITS
_OFFSET = 1023 << _CUTS_BITS
"""The bucket of the value 1 before it is moved to 0."""

_LARGEST = 2**62
BUCKETS = (62 << _CUTS_BITS) + 1

RELATIVE_ERROR = 0.5 / (1 << _CUTS_BITS)
"""A quantile is at most this share of its value away from a value that was counted there."""


class Histogram:
    """Counts integers from 1 to 2**62. Smaller ones, which a clock that was set back makes, count as 1,
    and larger ones as the largest."""

    def __init__(self) -> None:
        self._counts = np.zeros(BUCKETS, np.int64)

    def record(self, values: npt.NDArray[np.int64]) -> None:
        """Counts each value."""
        if len(values) == 0:
            return
        buckets = np.clip(values, 1, _LARGEST).astype(np.float64).view(np.int64)
        buckets >>= _SHIFT
        buckets -= _OFFSET
        # Latencies are close together: only the range between the minimum and the maximum is counted.
        first = int(buckets.min())
        counts = np.bincount(buckets - first)
        self._counts[first : first + len(counts)] += counts

    def add(self, buckets: Iterable[int], counts: Iterable[int]) -> None:
        """Adds what `sparse` of another one gave."""
        np.add.at(self._counts, np.array(list(buckets), np.int64), np.array(list(counts), np.int64))

    def sparse(self) -> tuple[list[int], list[int]]:
        """The buckets that are not empty, in rising order, and their counts."""
        buckets = np.flatnonzero(self._counts)
        return buckets.tolist(), self._counts[buckets].tolist()

    def clear(self) -> None:
        self._counts[:] = 0

    @property
    def count(self) -> int:
        return int(self._counts.sum())

    def quantile(self, share: float) -> float | None:
        """Return the value below which `share` of all values are (0 < share <= 1): the middle of its
        bucket. None if nothing was counted.
        """
        total = self.count
        if total == 0:
            return None
        rank = max(int(np.ceil(share * total)), 1)
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        return (_lower(bucket) + _lower(bucket + 1)) / 2


def _lower(bucket: int) -> float:
    """The least value of a bucket."""
    power, cut = divmod(bucket, 1 << _CUTS_BITS)
    return float(2**power) * (1 + cut / (1 << _CUTS_BITS))
