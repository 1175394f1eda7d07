"""Marks: entries by which a writer detects that the log has continued without it (CP42 to CP45).

Pure arithmetic on entry numbers. The log is divided into blocks of 100 numbers, blocks into larger
blocks of 100, and so on. The first number of each block is a *mark*. A mark is kept as long as the
log's end is in the same larger block. So a log of any length keeps fewer than 100 marks per level. A
writer with an old number finds a mark beyond it by checking four numbers. Neither needs a listing or a
clock.
"""

from __future__ import annotations

from collections.abc import Iterator

LOG_BLOCK = 100
"""Number of entries per block. The 100 to 199 newest entries are never deleted. It is part of the log's
format: all drivers of a log must use the same number, so only tests use another."""

_END = 10**10
"""Bound of entry numbers, which have ten digits."""


def floor_of(number: int, block: int = LOG_BLOCK) -> int:
    """Return the number below which compaction may delete entries once entry `number` exists.

    >>> floor_of(199), floor_of(200), floor_of(345)
    (1, 100, 200)
    """
    return max(1, number - number % block - block)


def is_mark(number: int, newest: int, block: int = LOG_BLOCK) -> bool:
    """Return whether entry `number` is a mark that must stay while the log ends at `newest`.

    >>> [n for n in range(1, 100_000) if is_mark(n, 31_415)]  # doctest: +ELLIPSIS
    [10000, 20000, 30000, 30100, 30200, ...]
    >>> is_mark(20_500, 31_415)
    False
    """
    size = block
    while size < _END and number % size == 0:
        if number // (size * block) == newest // (size * block):
            return number <= newest
        size *= block
    return False


def marks_after(number: int, block: int = LOG_BLOCK) -> Iterator[int]:
    """Yield marks, ascending, at least one of which exists if entry `number` was deleted.

    A reader that checks them in this order finds one even if the log grows in the meantime: the level
    at which the log's end has left the block of `number` only rises.

    >>> list(marks_after(31_415))
    [31500, 40000, 1000000, 100000000]
    """
    size = block
    while size < _END:
        mark = -(-number // size) * size
        if number < mark < _END:
            yield mark
        size *= block
