"""Rows in several batches, found by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.protocol.elements import Batch

Numbers: TypeAlias = npt.NDArray[np.int64]


def taken(parts: Sequence[tuple[int, Batch]], numbers: Numbers, columns: Sequence[str]) -> Batch:
    """Return these columns of the rows with these numbers, in the given order. At least one number is
    required. The parts are consecutive, each with the number of its first row."""
    if len(parts) == 1:
        [(first, rows)] = parts
        return rows.select(columns).take(pa.array(numbers - first))
    firsts = np.array([first for first, _ in parts], np.int64)
    # NumPy sorts small integers by radix sort.
    of = (np.searchsorted(firsts, numbers, side="right") - 1).astype(np.int16)
    order = np.argsort(of, kind="stable")
    ordered, inner = of[order], numbers[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    found = []
    for begin, end in zip(begins, np.append(begins[1:], len(ordered)), strict=True):
        first, rows = parts[int(ordered[begin])]
        found.append(rows.select(columns).take(pa.array(inner[begin:end] - first)))
    if len(found) == 1:
        return found[0]
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_batches(found).take(pa.array(back))
