"""Segments of rows by level, as in an LSM tree: when they are merged, and which go to disk.

A segment never changes. When `FAN_IN` segments have one order of magnitude, they are merged. So a row
is merged a logarithmic number of times, and there are few segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

FAN_IN = 8
"""Number of segments of one level that are merged."""


def level_of(rows: int) -> int:
    """Return the order of magnitude of a number of rows, in powers of `FAN_IN`."""
    return rows.bit_length() // (FAN_IN - 1).bit_length()


def to_spill(segments: Iterable[tuple[int, T]], until_bytes: int) -> Iterator[T]:
    """Yield the largest segments, until the rest takes at most `until_bytes`.

    Args:
        segments: Segments, each with the memory that it uses; 0 if it is on disk.
        until_bytes: Permitted memory of the rest.
    """
    ranked = sorted(segments, key=lambda entry: entry[0], reverse=True)
    taken = sum(size_bytes for size_bytes, _ in ranked)
    for size_bytes, segment in ranked:
        if taken <= until_bytes or not size_bytes:
            return
        taken -= size_bytes
        yield segment
