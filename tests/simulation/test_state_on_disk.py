"""Random worlds with state on disk and very little memory for it: they commit the same rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import rheos as rh
from rheos.core.protocol.state_config import Backend, StateConfig
from rheos.core.state.rocksdb.backend import RocksDbBackend
from rheos.testing import Faults, simulate
from tests.worlds.worlds import draw_world


@pytest.mark.parametrize("seed", range(3))
def test_random_worlds_with_state_on_disk(seed: int) -> None:
    state = StateConfig(Backend.ROCKSDB, memory_bytes=32 * 1024)
    drawn = replace(draw_world(seed), state=state)
    drawn.run_and_check()


@pytest.mark.parametrize("said", ["rocksdb", rh.StateConfig("rocksdb")])  # type: ignore[arg-type]
def test_a_backend_can_be_given_by_name(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[RocksDbBackend] = []
    init = RocksDbBackend.__init__

    def noted(self: RocksDbBackend, *args: Any, **kwargs: Any) -> None:
        made.append(self)
        init(self, *args, **kwargs)

    monkeypatch.setattr(RocksDbBackend, "__init__", noted)

    def build(env: rh.Environment) -> rh.DataStream:
        numbers = env.from_source(rh.generator(lambda b: {"k": b.index() % 3}, count=9, splits=1))
        return numbers.key_by("k").reduce(lambda a, b: a)

    assert simulate(build, faults=Faults(until_us=0), state=said).out.num_rows == 9
    assert made
