"""Functions on the lists of a state, which generated code calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_compiled: Any = njit(error_model="numpy")


@_compiled
def append_element(values, starts, lengths, rooms, used, changed, slot, value):  # type: ignore[no-untyped-def]
    """Append a value to a list, which is moved if it has no room. Return the array of elements."""
    length = lengths[slot]
    if length == rooms[slot]:
        room = max(4, 2 * length)
        begin = used[0]
        if begin + room > len(values):
            more = np.zeros(max(begin + room, 2 * len(values)), values.dtype)
            more[:begin] = values[:begin]
            values = more
        start = starts[slot]
        for at in range(length):
            values[begin + at] = values[start + at]
        starts[slot] = begin
        rooms[slot] = room
        used[0] = begin + room
    values[starts[slot] + length] = value
    lengths[slot] = length + 1
    changed[slot] = True
    return values


NAMES = {"append_element": append_element}
"""Functions that generated code may call."""
