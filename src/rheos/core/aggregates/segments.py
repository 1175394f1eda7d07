"""The rows of a batch, gathered by key: running sums and extremes within each key's rows.

All of it is numpy over whole batches. What a key's rows give never depends on other keys' values, and
floats add up in the order of the rows, as a loop over them would: neither the cut into batches nor the
other keys of a batch shows in the last digit.
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
"""Whole floats below it add up without rounding."""

# Cost of one call on a segment, and of one round over all segments, in us (measured).
_SEGMENT_COST = 1.0
_ROUND_COST = 3.0


class Segments:
    """A batch's rows sorted by slot, each key's rows in their order: a segment per key."""

    def __init__(self, slots: Slots, size: int) -> None:
        """`size` is above all slots."""
        rows = len(slots)
        bits = max(rows - 1, 0).bit_length()
        # Slot and row in one number: sorting numbers is the fastest stable sort there is, where they
        # have 32 bits twice so.
        kind: Any = np.uint32 if size << bits <= 1 << 32 else np.uint64
        tagged: Numbers = slots.astype(kind)
        tagged <<= kind(bits)
        tagged |= np.arange(rows, dtype=kind)
        tagged.sort()
        self.rows = rows
        self.order: Ints = (tagged & kind((1 << bits) - 1)).astype(np.int64)
        """The row at each sorted position."""
        tagged >>= kind(bits)
        first = np.empty(rows, dtype=bool)
        first[:1] = True
        np.not_equal(tagged[1:], tagged[:-1], out=first[1:])
        self.starts: Ints = np.flatnonzero(first)
        self.slots: Ints = tagged[self.starts].astype(np.int64)
        """The slot of each segment."""

    @cached_property
    def ends(self) -> Ints:
        """The position of each segment's last row."""
        ends = np.empty_like(self.starts)
        ends[:-1] = self.starts[1:]
        ends[-1:] = self.rows
        ends -= 1
        return ends

    @cached_property
    def lengths(self) -> Ints:
        return self.ends - self.starts + 1

    def gather(self, values: Numbers) -> Numbers:
        """A column in sorted order. Fresh memory."""
        return values.take(self.order)

    def scatter(self, values: Numbers) -> Numbers:
        """A sorted column in the order of the rows."""
        result = np.empty_like(values)
        result[self.order] = values
        return result

    def spread(self, values: Numbers) -> Numbers:
        """A value per segment, for each of its positions."""
        return np.repeat(values, self.lengths)

    def counts(self, carry: Ints) -> Ints:
        """The running count of rows, on top of each segment's carry."""
        counts = np.arange(1, self.rows + 1)
        counts -= self.spread(self.starts - carry)
        return counts

    def int_sums(self, values: Ints, carry: Ints) -> Ints:
        """The running sums of sorted values, on top of each segment's carry; modulo 2**64."""
        sums = np.cumsum(values)
        before = sums[self.starts]
        before -= values[self.starts]
        before -= carry
        sums -= self.spread(before)
        return sums

    def float_sums(self, values: Floats, carry: Floats) -> Floats:
        """The running sums of sorted values, on top of each segment's carry. Overwrites `values`."""
        if _sum_is_exact(values, carry):
            whole, whole_carry = values.astype(np.int64), carry.astype(np.int64)
            if (whole == values).all() and (whole_carry == carry).all():
                return self.int_sums(whole, whole_carry).astype(np.float64)
        return self.accumulate(np.add, values, carry)

    def accumulate(self, ufunc: np.ufunc, values: Numbers, carry: Numbers) -> Numbers:
        """The running results of a ufunc over sorted values, from each segment's carry on.

        Overwrites and returns `values`. Long segments are accumulated one by one, the others all
        together, a row of each at a time: whichever mix takes the fewest calls.
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
    """Whether sums of the values round nothing, if they are whole numbers. False for NaN."""
    bound = float(np.abs(values).max()) * len(values) + float(np.abs(carry).max())
    return bound < _EXACT
