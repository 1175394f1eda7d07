"""Size of a plan's checkpoints: what is stored, and what is written. Pure.

A checkpoint has a full part and the deltas since. A delta has the entries that changed since the last
checkpoint. When the deltas would be as long as the full part, the next part is a full one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, fsum

from rheos.ops.planning.key_curves import keys_among
from rheos.ops.planning.measurement import Measurement, OperatorState
from rheos.ops.planning.state_growth import curves_of, state_after


@dataclass(frozen=True)
class CheckpointSizes:
    """Bytes of checkpoints."""

    written_bytes: float = 0.0
    """Bytes that a checkpoint writes, on average."""
    stored_bytes: float = 0.0
    """Largest size of the retained checkpoints and the one that is being written."""


def checkpoint_sizes(measurement: Measurement, rate: float, after_ms: int) -> CheckpointSizes:
    """Return the sizes of checkpoints after a time in ms, at a rate in rows per second of the sources.
    Without an interval, only the final checkpoint is written."""
    each = [_of_operator(measurement, state, rate, after_ms) for state in measurement.states]
    return CheckpointSizes(
        fsum(sizes.written_bytes for sizes in each), fsum(sizes.stored_bytes for sizes in each)
    )


def _of_operator(
    measurement: Measurement, state: OperatorState, rate: float, after_ms: int
) -> CheckpointSizes:
    full = state_after(measurement, state, rate, after_ms)
    interval_ms = measurement.checkpoint_interval_ms
    if interval_ms is None or full <= 0:
        return CheckpointSizes(full, full)
    changed = min(full, _changed_bytes(measurement, state, rate, interval_ms, full))
    retained = measurement.retained_checkpoints
    deltas = ceil(full / changed) - 1 if changed > 0 else 0
    if deltas:
        chain = full + deltas * changed
        # The oldest retained checkpoint has the whole earlier chain; the newer ones share a new one.
        return CheckpointSizes(chain / (deltas + 1), chain + full + (retained - 1) * changed)
    if changed <= 0:
        return CheckpointSizes(0.0, full)
    times = [after_ms - age * interval_ms for age in range(retained + 1)]
    stored = fsum(state_after(measurement, state, rate, at_ms) for at_ms in times if at_ms > 0)
    return CheckpointSizes(full, stored)


def _changed_bytes(
    measurement: Measurement, state: OperatorState, rate: float, interval_ms: int, full: float
) -> float:
    """Return the size of the entries that change between two checkpoints."""
    if state.lifetime_ms is not None and state.entry_bytes:
        # Rows of windows are new, or belong to panes that are still open.
        return state_after(measurement, state, rate, interval_ms)
    curves = curves_of(measurement, state.chain)
    rows = rate * interval_ms / 1000
    if not curves or not (state.bytes_per_key or state.growth_bytes_per_row):
        return full * measurement.written_share
    keys = fsum(keys_among(curve, rows) for curve in curves)
    return state.bytes_per_key * keys + state.growth_bytes_per_row * rows
