"""Freed memory is reused, and returned at the end."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

COUNTS = """
import resource
import numpy as np
from rheos.runtimes.host.memory_tuning import freed_memory_kept

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        arrays = [np.ones(1 << 17) for _ in range(8)]
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
with freed_memory_kept():
    faults()
    print(faults())
print(faults())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library than glibc")
def test_kept_memory_is_requested_from_the_system_once() -> None:
    """Runs in its own process, as earlier allocations of this one would count."""
    done = subprocess.run([sys.executable, "-c", COUNTS], capture_output=True, text=True, check=True)
    kept, given_back = map(int, done.stdout.split())
    pages = 20 * 8 * (1 << 20) // 4096
    assert kept < pages // 20
    assert given_back > pages // 2
