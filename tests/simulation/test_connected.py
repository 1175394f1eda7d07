"""Connected and broadcast streams in random worlds: with unaligned barriers during back-pressure,
and moved by savepoints. Other worlds may draw these programs, too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheos.core.task.config import Guarantee
from tests.worlds.connected_programs import BROADCAST, CONNECTED, FOLLOWED, RULED, RULED_ALWAYS
from tests.worlds.programs import CheckedProgram
from tests.worlds.worlds import Climate, draw_world

PROGRAMS = (CONNECTED, BROADCAST, FOLLOWED, RULED, RULED_ALWAYS)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
@pytest.mark.parametrize(
    ("climate", "seed"), [(Climate.STALLS, 1), (Climate.MOVES, 3)], ids=lambda value: str(value)
)
def test_connected_streams_survive_random_worlds(
    program: CheckedProgram, climate: Climate, seed: int
) -> None:
    world = draw_world(seed, climate)
    unaligned_after_us = 0 if climate is Climate.STALLS else None
    task = replace(world.task, guarantee=Guarantee.EXACTLY_ONCE, unaligned_after_us=unaligned_after_us)
    world = replace(world, program=program, task=task)
    world.run_and_check()
