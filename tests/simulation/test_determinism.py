"""The same seed gives the same world, turn by turn."""

from __future__ import annotations

import pytest

from rheos.testing import Simulated
from rheos.testing.worlds import draw_world


def told(done: Simulated) -> tuple[object, ...]:
    rows = {name: table.to_pylist() for name, table in done.rows.items()}
    return done.trace, done.virtual_ms, done.crashes, done.drivers, done.status.attempt, rows


@pytest.mark.parametrize("seed", range(2000, 2002))
def test_the_same_seed_twice(seed: int) -> None:
    assert told(draw_world(seed).run()) == told(draw_world(seed).run())


def test_different_seeds_differ() -> None:
    assert len({draw_world(seed).run().trace for seed in range(2000, 2003)}) == 3
