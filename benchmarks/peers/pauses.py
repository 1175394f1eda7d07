"""How long the machine holds a process up by itself: what a 99th percentile has to be read beside."""

from __future__ import annotations

import time

_NAP_S = 100e-6


def naps_ms(seconds: float) -> list[float]:
    """How long naps of 100 µs took, in milliseconds: the longest are the machine's pauses."""
    took = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        time.sleep(_NAP_S)
        took.append((time.perf_counter() - began) * 1000)
    return took
