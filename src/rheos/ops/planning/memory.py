"""Memory of a worker without its state, from the phases of a sample. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from statistics import median

from rheos.ops.planning.measurement import Measurement, Phase
from rheos.ops.planning.state_growth import state_after

_LEAST_WORKER_BYTES = 64 * 2**20


def worker_memory(measurement: Measurement, phases: Sequence[Phase]) -> float:
    """Return the memory in bytes of a worker without its state, as the median of some phases.

    It includes the buffers of exchanges. The operators that count keys run in no phase.
    """
    return max(median(memory_sizes(measurement, phases) or [0.0]), _LEAST_WORKER_BYTES)


def memory_sizes(measurement: Measurement, phases: Sequence[Phase]) -> list[float]:
    """Return the memory in bytes of a worker without its state, for each phase that has measured it."""
    return [
        phase.memory_bytes
        - measurement.memory_per_state_byte * _state(measurement, phase) / phase.parallelism
        for phase in phases
        if phase.memory_bytes and not phase.interpreted
    ]


def _state(measurement: Measurement, phase: Phase) -> float:
    """Return the size in bytes of all state at the end of a phase."""
    rate = phase.source_rows / phase.seconds
    after_ms = round(phase.total_rows / rate * 1000)
    return fsum(state_after(measurement, state, rate, after_ms) for state in measurement.states)
