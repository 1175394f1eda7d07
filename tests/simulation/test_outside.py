"""Asynchronous calls, lookups, and state without a key in random worlds: with unaligned barriers
during back-pressure, and moved by savepoints. Other worlds may draw this program, too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheos.core.task.config import Guarantee
from tests.worlds.outside_programs import OUTSIDE
from tests.worlds.worlds import Climate, draw_world


@pytest.mark.parametrize(
    ("climate", "seed"),
    [pytest.param(Climate.STALLS, 1, marks=pytest.mark.slow), (Climate.MOVES, 3)],
    ids=lambda value: str(value),
)
def test_asynchronous_calls_survive_random_worlds(climate: Climate, seed: int) -> None:
    world = draw_world(seed, climate)
    unaligned_after_us = 0 if climate is Climate.STALLS else None
    task = replace(world.task, guarantee=Guarantee.EXACTLY_ONCE, unaligned_after_us=unaligned_after_us)
    replace(world, program=OUTSIDE, task=task).run_and_check()
