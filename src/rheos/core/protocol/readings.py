"""What was read of a figure, as it crosses from worker to driver and from driver to who asks."""

from __future__ import annotations

import msgspec

from rheos.core.protocol.accumulated import Accumulated


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """One value of one figure. The figures, with units and meanings, are in `observe/figures.py`."""

    figure: str
    at: tuple[str, ...]
    """Where: a value for each label of the figure's scope, in order. A worker leaves out its subtask,
    which is the last."""
    value: int | float | Accumulated
    per_s: float | None = None
    """Of a counter: its growth per second, between the last two reports. The driver says it."""
