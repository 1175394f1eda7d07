"""Whether something else used the machine during a run. Such a run is repeated, not averaged.

Two signs count. Short sleeps before and after the run show how long the machine holds up a process that
wants to run. And workers at full load use all of the cores that they may have: if they had less, others
had the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

LONGEST_NAP_MS = 5.0
"""Maximum duration of a nap, at the 99.9th percentile. On a quiet machine, it takes 0.2 to 2 ms."""
LEAST_SHARE = 0.9
"""Least share of their cores that workers have at full load."""
REPEATS = 2
"""Maximum number of repetitions of a disturbed run."""
NAPS_S = 0.5

_NAP_S = 100e-6


def naps_ms(seconds: float) -> list[float]:
    """Return how long naps of 100 µs took, in ms: the longest are the machine's pauses."""
    took = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        time.sleep(_NAP_S)
        took.append((time.perf_counter() - began) * 1000)
    return took


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that the given share of the values does not exceed.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5)
    2.0
    """
    ordered = sorted(values)
    return ordered[max(round(share * len(ordered)) - 1, 0)]


def disturbances(run: dict[str, Any], naps: Sequence[float], cores: int) -> list[str]:
    """Return the signs that something else used the machine; empty for a quiet run.

    Args:
        run: Measurements by the names of `rheos bench --json`. Other runs have no share to judge by.
        naps: Durations of naps before and after the run, in ms.
        cores: Number of cores of the machine.
    """
    found = []
    if naps and (longest := percentile(naps, 0.999)) > LONGEST_NAP_MS:
        found.append(f"naps took {longest:.1f} ms")
    share, parallelism = run.get("cpu_share"), run.get("parallelism")
    is_at_full_load = "rate_per_s_per_core" in run and run["rate_per_s_per_core"] is None
    if share is not None and parallelism and is_at_full_load:
        possible = min(parallelism, cores) / parallelism
        if share < LEAST_SHARE * possible:
            found.append(f"workers had {share / possible:.0%} of their cores")
    return found


@dataclass
class QuietRuns:
    """Makes runs, and repeats those during which the machine was disturbed."""

    cores: int
    repeats: int = REPEATS
    naps: Callable[[float], list[float]] = naps_ms

    def __call__(self, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the measurements of the first quiet run.

        They have the number of its `repeats`, if any. If no run was quiet, they are those of the last
        one, with what `disturbed` it: such a run is left out of medians.
        """
        before = self.naps(NAPS_S)
        for repeat in range(self.repeats + 1):
            run = measure()
            after = self.naps(NAPS_S)
            found = disturbances(run, [*before, *after], self.cores)
            run = {**run, "repeats": repeat} if repeat else run
            if not found:
                return run
            before = after
        return {**run, "disturbed": found}


def is_quiet(run: dict[str, Any]) -> bool:
    """Return whether a run counts."""
    return not run.get("disturbed")


def summary(runs: Sequence[dict[str, Any]]) -> str:
    """Return a sentence about disturbed runs; empty if there were none."""
    repeated = sum("repeats" in run for run in runs)
    left_out = sum(not is_quiet(run) for run in runs)
    if not repeated and not left_out:
        return ""
    counts = f"{repeated} of {len(runs)} runs were repeated, and {left_out} left out"
    return f"The machine was disturbed: {counts}."
