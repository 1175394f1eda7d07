"""An array that grows at its end and shrinks at its beginning."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_LEAST = 1 << 10

Values = npt.NDArray[Any]


def with_room(values: Values, size: int, empty: int) -> Values:
    """Return an array indexed by slot, with room for this many slots; new ones contain `empty`."""
    if size <= len(values):
        return values
    return np.concatenate([values, np.full(2 * size - len(values), empty, values.dtype)])


class NumberedArray:
    """Numbered elements. An element keeps its number when earlier ones are dropped."""

    def __init__(self, kind: Any) -> None:
        self._values: Values = np.empty(_LEAST, kind)
        self._begin = self._end = 0
        self.first = 0
        """Number of the first existing element."""

    @property
    def next(self) -> int:
        """Return the number of the next element to be added."""
        return self.first + self._end - self._begin

    @property
    def size_bytes(self) -> int:
        return self._values.nbytes

    def since(self, number: int) -> Values:
        """Return the elements from this number on. The caller may write to them until others are
        added."""
        return self._values[self._begin + number - self.first : self._end]

    def all(self) -> Values:
        """Return all elements; element `n` is at `n - first`."""
        return self._values[self._begin : self._end]

    def add(self, values: Values) -> None:
        end = self._end + len(values)
        if end > len(self._values):
            self._make_room(len(values))
            end = self._end + len(values)
        self._values[self._end : end] = values
        self._end = end

    def _make_room(self, more: int) -> None:
        kept = self.all()
        needed = len(kept) + more
        values = self._values
        if 2 * needed > len(values):
            values = np.empty(2 * needed, values.dtype)
        values[: len(kept)] = kept.copy()
        self._values, self._begin, self._end = values, 0, len(kept)

    def drop_before(self, number: int) -> None:
        """Drop the elements before this number."""
        self._begin += number - self.first
        self.first = number

    def drop_since(self, number: int) -> None:
        """Drop this element and all later ones; their numbers are used again."""
        self._end = self._begin + number - self.first
