"""Drawn worlds whose sources are read in phases: no split is opened early, whoever dies between."""

from __future__ import annotations

import pytest

from rheos.testing.worlds import Climate, draw_world

SEEDS = 12
CHUNK = 4


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_seeds(first: int) -> None:
    for seed in range(first, first + CHUNK):
        drawn = draw_world(seed, Climate.PHASES)
        try:
            drawn.check(drawn.run())
        except Exception as error:
            error.add_note(f"{drawn}")
            raise
