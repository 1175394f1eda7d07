"""Joins in random worlds: faults, rescales and savepoints, and unaligned barriers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheos.core.protocol.state_config import StateConfig
from tests.core.task.moved import check_moved
from tests.worlds.join_programs import INTERVAL, PROGRAMS, TEMPORAL, WINDOWED
from tests.worlds.programs import CheckedProgram
from tests.worlds.worlds import Climate, draw_world


@pytest.mark.thinned(2)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_rows_in_flight_are_neither_lost_nor_duplicated(program: CheckedProgram) -> None:
    check_moved(program)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("program", "climate", "seed"),
    [
        (INTERVAL, Climate.MOVES, 0),
        (INTERVAL, Climate.SWARM, 2),
        (TEMPORAL, Climate.SWARM, 2),
        (WINDOWED, Climate.STALLS, 1),
    ],
    ids=lambda given: getattr(given, "name", None),
)
def test_joins_survive_random_worlds(program: CheckedProgram, climate: Climate, seed: int) -> None:
    world = draw_world(seed, climate).of(program)
    task = replace(world.task, unaligned_after_us=[None, 0, 5_000][seed % 3])
    state = StateConfig.of("rocksdb" if seed == 2 else "memory")
    replace(world, task=task, state=state).run_and_check()
