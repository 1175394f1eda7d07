"""A seed always produces the same world, step by step."""

from __future__ import annotations

from rheos.testing import Simulated
from tests.worlds.worlds import draw_world


def recorded(done: Simulated) -> tuple[object, ...]:
    rows = {name: table.to_pylist() for name, table in done.rows.items()}
    return done.trace, done.virtual_ms, done.crashes, done.drivers, done.status.attempt, rows


def test_equal_seeds_have_equal_worlds() -> None:
    first, second, other = (recorded(draw_world(seed).run()) for seed in (2000, 2000, 2001))
    assert first == second
    assert first[0] != other[0]
