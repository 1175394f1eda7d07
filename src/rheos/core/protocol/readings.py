"""A reading of a metric, as workers send it to the driver, and the driver to clients."""

from __future__ import annotations

import msgspec

from rheos.core.protocol.accumulators import Accumulated


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """One value of one metric. `core/metrics/declarations.py` declares the metrics."""

    metric: str
    at: tuple[str, ...]
    """Values of the labels of the metric's scope. A worker omits its subtask, the last label."""
    value: int | float | Accumulated
    per_s: float | None = None
    """Increase of a counter per second between the last two reports. The driver computes it."""
