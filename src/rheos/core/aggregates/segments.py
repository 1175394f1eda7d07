"""The rows of a batch, grouped by key: running sums and extremes within each key's rows.

All of it is NumPy over whole batches. The results of a key never depend on other keys' values, and
floats are added in the order of the rows, as a loop would. So neither the division into batches nor the
other keys of a batch affect the last digit.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Numbers: TypeAlias = npt.NDArray[Any]
Slots: TypeAlias = npt.NDArray[np.int32]

_EXACT = 2.0**53
"""Bound below which integral floats are added without rounding."""

# Cost of one call on a segment, and of one round over all segments, in us (measured).
_SEGMENT_COST = 1.0
_ROUND_COST = 3.0


class Segments:
    """A batch's rows sorted by slot; the rows of a key keep their order and form a segment."""

    def __init__(self, slots: Slots, size: int) -> None:
        """Sort the rows. `size` is greater than all slots."""
        rows = len(slots)
        bits = max(rows - 1, 0).bit_length()
        # Slot and row are combined in one number, because sorting numbers is the fastest stable sort,
        # especially if they fit in 32 bits.
        kind: Any = np.uint32 if size << bits <= 1 << 32 else np.uint64
        tagged: Numbers = slots.astype(kind)
        tagged <<= kind(bits)
        tagged |= np.arange(rows, dtype=kind)
        tagged.sort()
        self.rows = rows
        self.order: Ints = (tagged & kind((1 << bits) - 1)).astype(np.int64)
        """Row at each sorted position."""
        tagged >>= kind(bits)
        first = np.empty(rows, dtype=bool)
        first[:1] = True
        np.not_equal(tagged[1:], tagged[:-1], out=first[1:])
        self.starts: Ints = np.flatnonzero(first)
        self.slots: Ints = tagged[self.starts].astype(np.int64)
        """Slot of each segment."""

    @cached_property
    def ends(self) -> Ints:
        """Return the position of each segment's last row."""
        ends = np.empty_like(self.starts)
        ends[:-1] = self.starts[1:]
        ends[-1:] = self.rows
        ends -= 1
        return ends

    @cached_property
    def lengths(self) -> Ints:
        return self.ends - self.starts + 1

    @cached_property
    def numbers(self) -> Ints:
        """Return the number of the segment of each row, in the order of the rows."""
        return self.scatter(np.repeat(np.arange(len(self.starts)), self.lengths))

    def gather(self, values: Numbers) -> Numbers:
        """Return a column in sorted order, in new memory."""
        return values.take(self.order)

    def scatter(self, values: Numbers) -> Numbers:
        """Return a sorted column in the order of the rows."""
        result = np.empty_like(values)
        result[self.order] = values
        return result

    def spread(self, values: Numbers) -> Numbers:
        """Return the value of its segment for each position."""
        return np.repeat(values, self.lengths)

    def counts(self, carry: Ints) -> Ints:
        """Return the running count of rows, starting from each segment's carry."""
        counts = np.arange(1, self.rows + 1)
        counts -= self.spread(self.starts - carry)
        return counts

    def int_sums(self, values: Ints, carry: Ints) -> Ints:
        """Return the running sums of sorted values, from each segment's carry on; modulo 2**64."""
        sums = np.cumsum(values)
        before = sums[self.starts]
        before -= values[self.starts]
        before -= carry
        sums -= self.spread(before)
        return sums

    def float_sums(self, values: Floats, carry: Floats) -> Floats:
        """Return the running sums of sorted values, from each segment's carry. Overwrite `values`."""
        if _sum_is_exact(values, carry):
            whole, whole_carry = values.astype(np.int64), carry.astype(np.int64)
            if (whole == values).all() and (whole_carry == carry).all():
                return self.int_sums(whole, whole_carry).astype(np.float64)
        return self.accumulate(np.add, values, carry)

    def accumulate(self, ufunc: np.ufunc, values: Numbers, carry: Numbers) -> Numbers:
        """Return the running results of a ufunc over sorted values, starting from each segment's carry.

        Overwrite and return `values`. Long segments are accumulated one by one. The others are
        accumulated together, one row of each at a time. The split between them minimises the cost of
        the calls.
        """
        with np.errstate(all="ignore"):
            values[self.starts] = ufunc(carry, values[self.starts])
            several = np.flatnonzero(self.lengths > 1)
            by_length = several[np.argsort(-self.lengths[several])]
            rounds_left = np.append(self.lengths[by_length] - 1, 0)
            costs = np.arange(len(rounds_left)) * _SEGMENT_COST + rounds_left * _ROUND_COST
            alone = int(costs.argmin())
            for segment in by_length[:alone].tolist():
                part = values[self.starts[segment] : self.ends[segment] + 1]
                ufunc.accumulate(part, out=part)
            if alone < len(by_length):
                self._in_rounds(ufunc, values, by_length[alone:])
        return values

    def _in_rounds(self, ufunc: np.ufunc, values: Numbers, segments: Ints) -> None:
        lengths = self.lengths[segments]
        at = self.starts[segments]
        result = values.take(at)
        rounds = np.arange(1, int(lengths[0]))
        for active in np.searchsorted(-lengths, -rounds, side="left").tolist():
            at = at[:active]
            at += 1
            result = ufunc(result[:active], values.take(at))
            values[at] = result


def _sum_is_exact(values: Floats, carry: Floats) -> bool:
    """Return whether sums of integral values need no rounding. False if a value is NaN."""
    bound = float(np.abs(values).max()) * len(values) + float(np.abs(carry).max())
    return bound < _EXACT
