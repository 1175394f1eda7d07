"""A pattern in random worlds: faults, rescales and savepoints, and unaligned barriers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheos.core.protocol.state_config import StateConfig
from tests.core.task.moved import check_moved
from tests.worlds.pattern_programs import PATTERN
from tests.worlds.worlds import Climate, draw_world


def test_rows_in_flight_are_neither_lost_nor_duplicated() -> None:
    check_moved(PATTERN)


@pytest.mark.parametrize(("climate", "seed"), [(Climate.MOVES, 1), (Climate.SWARM, 2)])
def test_a_pattern_survives_random_worlds(climate: Climate, seed: int) -> None:
    world = draw_world(seed, climate).of(PATTERN)
    task = replace(world.task, unaligned_after_us=[None, 0, 5_000][seed % 3])
    state = StateConfig.of("rocksdb" if seed == 2 else "memory")
    replace(world, task=task, state=state).run_and_check()
