"""Growth per second, and shares of time, of the subtasks of one place."""

from __future__ import annotations

from collections.abc import Iterable

from rheos.core.protocol.readings import Reading


def rates(readings: Iterable[Reading], place: str) -> dict[int, float]:
    """Return the growth per second of a counter at an operator, chain or edge, by subtask, without
    those that are not known yet."""
    return {int(r.at[-1]): r.per_s for r in readings if r.at[0] == place and r.per_s is not None}


def shares(readings: Iterable[Reading], chain: str) -> dict[int, float]:
    """Return the share of its time that each subtask spent, of a counter of milliseconds."""
    return {subtask: rate / 1000 for subtask, rate in rates(readings, chain).items()}
