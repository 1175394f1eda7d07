"""Running sums of integers of up to 128 bits, by slot."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from rheos.core.aggregates.cells import SlotArray
from rheos.core.aggregates.segments import Ints, Segments
from rheos.core.aggregates.units import Mask, Units

_BITS = 32
_MASK = (1 << _BITS) - 1
_LIMIT = 1 << 63
_TOP = 1 << 31


class RunningUnits:
    """Sums as two words: the sum modulo 2**64, and the multiple of 2**64 by which it exceeds that. As
    long as no sum exceeds 64 bits, only the first word is used."""

    def __init__(self) -> None:
        self.low = SlotArray(np.int64, 0)
        self._beyond = SlotArray(np.int64, 0)
        self.parts = {"sum": self.low, "beyond": self._beyond}
        self._is_wide = False
        """Whether some sum has exceeded 64 bits."""

    def run(self, rows: Segments, values: Units) -> tuple[Units, Mask | None]:
        """Add sorted values. Return the sums after each, and a mask of those beyond 128 bits."""
        carry = self.low.values[rows.slots]
        if values.beyond is None and not self._is_wide and _fits(rows, values.low, carry):
            sums = rows.int_sums(values.low, carry)
            self.low.values[rows.slots] = sums[rows.ends]
            return Units(sums), None
        low, beyond = values.words()
        carries = carry, self._beyond.values[rows.slots]
        # Four words of 32 bits with carries; none of them can exceed 64 bits.
        first = rows.int_sums(low & _MASK, carries[0] & _MASK)
        second = rows.int_sums(low >> _BITS, carries[0] >> _BITS) + (first >> _BITS)
        third = rows.int_sums(beyond & _MASK, carries[1] & _MASK) + (second >> _BITS)
        low = (first & _MASK) | (second << _BITS)
        third += low < 0
        fourth = rows.int_sums(beyond >> _BITS, carries[1] >> _BITS) + (third >> _BITS)
        beyond = (third & _MASK) | (fourth << _BITS)
        self.low.values[rows.slots] = low[rows.ends]
        self._beyond.values[rows.slots] = beyond[rows.ends]
        self._is_wide = self._is_wide or bool(beyond.any())
        large = (fourth < -_TOP) | (fourth >= _TOP)
        return Units(low, beyond if beyond.any() else None), large if large.any() else None

    def is_wide(self) -> bool:
        """Return whether some sum may exceed 64 bits."""
        return self._is_wide

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        """Restore frozen parts. State that an earlier version wrote has no second word."""
        self.low.values[slots] = parts["sum"].to_numpy()
        beyond = parts["beyond"].to_numpy() if "beyond" in parts else np.zeros(len(slots), np.int64)
        self._beyond.values[slots] = beyond
        self._is_wide = self._is_wide or bool(beyond.any())


def _fits(rows: Segments, values: Ints, carry: Ints) -> bool:
    """Return whether all sums fit 64 bits for certain."""
    if not rows.rows:
        return True
    return _largest(values) * rows.rows + _largest(carry) < _LIMIT


def _largest(values: Ints) -> int:
    return max(int(values.max()), -int(values.min()))
