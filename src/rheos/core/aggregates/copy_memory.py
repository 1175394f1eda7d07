"""Memory for the copies that checkpoints take of large arrays.

The system clears new memory before its first use, which takes several times as long as a copy.
Processing waits meanwhile.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

LEAST_BYTES = 1 << 22
"""Size of a copy from which its memory is kept. The C library keeps smaller memory itself."""


class CopyMemory:
    """Memory for one copy of an array at a time. It is kept for the next copy, since the largest copy
    determines how much memory the process needs."""

    def __init__(self) -> None:
        self._memory: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._last_copy: weakref.ref[npt.NDArray[Any]] | None = None

    def array(self, size: int, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return an array with any contents. While it exists, further arrays have new memory.

        The caller may pass it to Arrow, but must not keep a slice of it as a NumPy array: such a slice
        does not keep its array alive.
        """
        size_bytes = size * kind.itemsize
        if size_bytes < LEAST_BYTES or (self._last_copy is not None and self._last_copy() is not None):
            return np.empty(size, kind)
        if size_bytes > len(self._memory):
            self._memory = np.empty(size_bytes * 9 // 8, np.uint8)
        made = self._memory[:size_bytes].view(kind)
        self._last_copy = weakref.ref(made)
        return made
