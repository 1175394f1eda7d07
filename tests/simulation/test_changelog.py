"""Updating tables in random worlds: the final rows follow from the input even if rows in flight are
state. Other worlds may draw this program, too."""

from __future__ import annotations

from dataclasses import replace

from rheos.core.task.config import Guarantee
from tests.worlds.changelog_programs import TABLES
from tests.worlds.worlds import Climate, draw_world


def test_updating_tables_with_unaligned_barriers() -> None:
    world = draw_world(1, Climate.STALLS)
    task = replace(world.task, guarantee=Guarantee.EXACTLY_ONCE, unaligned_after_us=0)
    world = replace(world, program=TABLES, task=task)
    world.run_and_check()
