"""Tables that change in drawn worlds: what is there in the end is what the rows say, where
rows in flight are state. Other worlds draw the program, too."""

from __future__ import annotations

from dataclasses import replace

from rheos.core.task.config import Guarantee
from tests.worlds.changelog_programs import TABLES
from tests.worlds.worlds import Climate, draw_world


def test_a_world_whose_barriers_overtake() -> None:
    world = draw_world(1, Climate.STALLS)
    task = replace(world.task, guarantee=Guarantee.EXACTLY_ONCE, unaligned_after_us=0)
    world = replace(world, program=TABLES, task=task)
    world.hold()
