"""A worker's memory without its state is computed from the phases of a sample."""

from __future__ import annotations

import msgspec

from rheos.ops.planning.measurement import OperatorState
from rheos.ops.planning.memory import worker_memory
from tests.ops.planning.samples import grouping, phase


def test_the_state_of_each_phase_is_left_out() -> None:
    phases = [
        msgspec.structs.replace(phase(slots, 16_384), memory_bytes=300e6 + 80e6 / slots, total_rows=5e6)
        for slots in (1, 2, 4)
    ]
    state = OperatorState("count", 40e6)
    assert worker_memory(grouping(phases, states=[state]), phases) == 300e6


def test_a_sample_without_memory_has_a_lower_bound() -> None:
    assert worker_memory(grouping(), ()) == 64 * 2**20
