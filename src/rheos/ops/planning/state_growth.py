"""Size of an operator's state after a time, from the keys and rows that it has seen until then. Pure.

State without a lifetime has two parts: one grows with the number of different keys, such as a sum for
each key, and one with the number of rows, such as a list of all rows. State of windows has the rows or
keys of its lifetime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from rheos.ops.planning.key_curves import keys_among
from rheos.ops.planning.measurement import KeyCurve, Measurement, OperatorState

_LEAST_GROWTH = 0.02
"""Growth of state, relative to its size, that is not by chance."""


@dataclass(frozen=True)
class StateSize:
    """State in a checkpoint, and what the operator had seen until then."""

    size_bytes: float
    rows: float
    """Rows of the sources."""
    keys: float
    """Different keys among these rows; 0 if the keys were not counted."""


def fitted_growth(early: StateSize | None, late: StateSize) -> tuple[float, float]:
    """Return the bytes of state for each key, and for each row of the sources, that explain two sizes.

    Neither is below zero. If one number explains both sizes, that for keys is preferred.

    Args:
        early: A size from the middle of the sample; None if there was only one.
        late: The last size.
    """
    per_key = late.size_bytes / late.keys if late.keys else 0.0
    if early is None or late.rows <= early.rows:
        return per_key, 0.0
    if not late.keys:
        grown = late.size_bytes - early.size_bytes
        significant = grown >= late.size_bytes * _LEAST_GROWTH
        return 0.0, grown / (late.rows - early.rows) if significant else 0.0
    if abs(per_key * early.keys - early.size_bytes) <= late.size_bytes * _LEAST_GROWTH:
        return per_key, 0.0
    determinant = early.keys * late.rows - late.keys * early.rows
    if determinant <= 0:
        return per_key, 0.0
    keyed = (early.size_bytes * late.rows - late.size_bytes * early.rows) / determinant
    by_row = (early.keys * late.size_bytes - late.keys * early.size_bytes) / determinant
    if by_row <= 0:
        return per_key, 0.0
    return (keyed, by_row) if keyed > 0 else (0.0, late.size_bytes / late.rows)


def total_keys(curves: Sequence[KeyCurve], rows: float) -> float:
    """Return the sum of the different keys of several edges after a number of rows of the sources."""
    return fsum(keys_among(curve, rows) for curve in curves)


def curves_of(measurement: Measurement, chain: int | None) -> list[KeyCurve]:
    """Return the curves of the edges that lead to a chain."""
    edges = {edge.id for edge in measurement.edges if edge.target == chain}
    return [curve for curve in measurement.key_curves if curve.edge in edges]


def state_after(measurement: Measurement, state: OperatorState, rate: float, after_ms: int) -> float:
    """Return the size of an operator's state in bytes after a time in ms, at a rate in rows per second
    of the sources. State with a lifetime has its largest size, just before a window ends."""
    rows = rate * after_ms / 1000
    curves = curves_of(measurement, state.chain)
    if state.lifetime_ms is None:
        by_row = state.growth_bytes_per_row * rows
        return (
            state.bytes_per_key * total_keys(curves, rows) + by_row
            if curves
            else (state.size_bytes + by_row)
        )
    lived_ms = min(state.lifetime_ms, after_ms)
    lived_rows = rate * lived_ms / 1000
    if not curves or not state.entry_bytes:
        if state.growth_bytes_per_row <= 0:
            return state.size_bytes
        return state.growth_bytes_per_row * lived_rows
    if state.pane_ms is None:
        entries = lived_rows * _rows_per_source_row(measurement, state.chain)
    else:
        pane_ms = min(state.pane_ms, lived_ms)
        entries = lived_ms / pane_ms * total_keys(curves, rate * pane_ms / 1000)
    return entries * state.entry_bytes


def _rows_per_source_row(measurement: Measurement, chain: int | None) -> float:
    """Return the rows that a chain receives for each row of the sources."""
    loads = [
        (load.rows, phase.source_rows)
        for phase in measurement.phases
        for load in phase.chains
        if load.chain == chain
    ]
    source_rows = fsum(rows for _, rows in loads)
    return fsum(rows for rows, _ in loads) / source_rows if source_rows else 1.0
