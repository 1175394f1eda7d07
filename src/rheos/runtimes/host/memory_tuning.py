"""Memory of a worker process: keeps freed arrays for the next batch, and collects garbage seldom."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# --- memory that a batch has freed --------------------------------------------------------------------


_KEPT_BYTES = 64 << 20
"""Free memory at the top of the heap that stays with the process."""
_MAPPED_FROM_BYTES = 32 << 20
"""Size from which each array is requested from the system. The C library allows no larger bound."""
_DEFAULT_BYTES = 128 << 10
"""The C library's initial value of both thresholds."""

# Their numbers in malloc.h of glibc.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep freed memory in the block, while a slot runs, and return it to the system afterwards. Does
    nothing with C libraries other than glibc."""
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


# --- the garbage collector ----------------------------------------------------------------------------


_THRESHOLD = 500_000
"""Number of new objects before a collection of the youngest generation."""


def collect_seldom() -> None:
    """Collect garbage seldom in this process from now on."""
    gc.set_threshold(_THRESHOLD, 10, 10)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Collect garbage seldom in the block, in a process that has other work afterwards."""
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
