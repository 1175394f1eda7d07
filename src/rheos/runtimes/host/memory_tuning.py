"""Memory of a worker process: freed arrays stay for the next batch, and garbage is collected seldom."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# --- memory that a batch has freed --------------------------------------------------------------------


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


# --- the garbage collector ----------------------------------------------------------------------------


_THRESHOLD = 500_000
"""So many new objects before the youngest are looked at."""


def collect_seldom() -> None:
    """From now on, in this process."""
    gc.set_threshold(_THRESHOLD, 10, 10)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Within a process that has other work afterwards."""
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
