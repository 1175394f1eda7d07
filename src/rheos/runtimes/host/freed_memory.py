"""Memory that a batch has freed, kept by the process for the next batch.

The C library's allocator maps memory for large arrays from the system and unmaps it as soon as they are
freed. The system zeroes each page that it maps. If every batch makes the same large arrays, as windows
of many keys do, much time is spent there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_KEPT_BYTES = 64 << 20
"""So much free memory at the top of the heap stays with the process."""
_MAPPED_FROM_BYTES = 32 << 20
"""Larger arrays come from the system, one by one; the C library allows no larger bound."""
_DEFAULT_BYTES = 128 << 10
"""The C library's initial value of both thresholds."""

# Their numbers in malloc.h of glibc.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """While a slot runs. Afterwards what is free goes back to the system. Other C libraries than glibc
    are left as they are."""
    libc = ctypes.CDLL(None)
    if not (hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim")):
        yield
        return
    libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    libc.mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
    try:
        yield
    finally:
        libc.mallopt(_M_TRIM_THRESHOLD, _DEFAULT_BYTES)
        libc.mallopt(_M_MMAP_THRESHOLD, _DEFAULT_BYTES)
        libc.malloc_trim(0)
