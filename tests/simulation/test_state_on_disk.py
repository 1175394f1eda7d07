"""Drawn worlds whose state is on disk, with hardly any memory for it: they commit what others do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheos.protocol.state_config import Backend, StateConfig
from rheos.testing.worlds import draw_world

SEEDS = 10
CHUNK = 5


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_seeds(first: int) -> None:
    for seed in range(first, first + CHUNK):
        state = StateConfig(Backend.ROCKSDB, memory_bytes=32 * 1024)
        drawn = replace(draw_world(seed), state=state)
        try:
            drawn.check(drawn.run())
        except Exception as error:
            error.add_note(f"{drawn}")
            raise
