"""A pattern in drawn worlds: faults, rescales and savepoints, and barriers that overtake."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheos.protocol.state_config import StateConfig
from rheos.task.config import Guarantee, TaskConfig
from rheos.testing.pattern_programs import PATTERN
from rheos.testing.worlds import Climate, draw_world
from tests.task.cluster import Job, planned
from tests.task.programs import build, made

_AT_ONCE = TaskConfig(batch_rows=8, credits=1, buffer_timeout_us=0, unaligned_after_us=0)


def test_rows_in_flight_are_neither_lost_nor_doubled() -> None:
    of = made()
    job = Job(planned(build(PATTERN, of)), _AT_ONCE, parallelism=2, seed=1)
    for parallelism in (3, 1):
        # Rows lie everywhere, and nothing moves.
        job.cluster.run(200)
        job.cluster.network.held = True
        job.cluster.run(400)
        job.take()
        job.restart(parallelism)
    PATTERN.check(of.arrived(), job.finish())


@pytest.mark.parametrize(("climate", "seed"), [(Climate.MOVES, 1), (Climate.SWARM, 2)])
def test_worlds(climate: Climate, seed: int) -> None:
    drawn = draw_world(seed, climate)
    world = replace(
        drawn,
        program=PATTERN,
        # Of splits that fall idle the oracle knows nothing.
        inputs=tuple(replace(of, idle_after_ms=None) for of in drawn.inputs),
        task=replace(
            drawn.task,
            guarantee=Guarantee.EXACTLY_ONCE,
            unaligned_after_us=[None, 0, 5_000][seed % 3],
        ),
        state=StateConfig.of("rocksdb" if seed == 2 else "memory"),
    )
    try:
        world.check(world.run())
    except Exception as error:
        error.add_note(f"seed {seed}\n{world}")
        raise
