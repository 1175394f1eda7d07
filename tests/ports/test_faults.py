"""Several ports under faults, rescales and savepoints, and with unaligned barriers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheos.core.protocol.snapshots import IN_FLIGHT_INPUT, IN_FLIGHT_OUTPUT, StateKind
from rheos.core.protocol.state_config import StateConfig
from rheos.core.task.config import Guarantee
from tests.core.task.cluster import AT_ONCE, Job, planned
from tests.core.task.programs import build, made
from tests.ports.paired import PAIRED
from tests.ports.ruled import RULED
from tests.worlds.programs import CheckedProgram
from tests.worlds.worlds import Climate, draw_world

_PROGRAMS = [PAIRED, RULED]


@pytest.mark.parametrize("program", _PROGRAMS, ids=lambda p: p.name)
@pytest.mark.parametrize("parallelism", [1, 5])
def test_rows_in_flight_are_neither_lost_nor_duplicated(
    program: CheckedProgram, parallelism: int
) -> None:
    of = made()
    for seed in range(2):
        job = Job(planned(build(program, of)), AT_ONCE, parallelism=2 + seed % 2, seed=seed)
        for next_parallelism in (parallelism, 2):
            job.under_back_pressure()
            job.take()
            job.restart(next_parallelism)
        program.check(of.arrived(), job.finish())


def test_checkpoints_contain_rows_in_flight_of_all_kinds() -> None:
    """Otherwise the test above would check none of them."""
    wanted = {
        (f"{IN_FLIGHT_INPUT}0", StateKind.KEYED),
        (f"{IN_FLIGHT_OUTPUT}0", StateKind.KEYED),
        (f"{IN_FLIGHT_INPUT}1", StateKind.BROADCAST),
        (f"{IN_FLIGHT_OUTPUT}1", StateKind.BROADCAST),
    }
    found: set[tuple[str, StateKind]] = set()
    # A receiver usually takes all waiting rows at once, so in few schedules rows wait at its input.
    for seed in range(40):
        job = Job(planned(build(RULED, made())), AT_ONCE, parallelism=2 + seed % 2, seed=seed)
        job.under_back_pressure()
        job.take()
        assert job.newest is not None
        found |= {(handle.state, handle.kind) for handle in job.newest.handles if handle.rows}
        if wanted <= found:
            return
    raise AssertionError(f"not found: {wanted - found}")


@pytest.mark.parametrize("program", _PROGRAMS, ids=lambda p: p.name)
def test_restored_rows_that_still_wait_are_stored_again(program: CheckedProgram) -> None:
    of = made()
    for seed in range(3):
        job = Job(planned(build(program, of)), AT_ONCE, parallelism=3, seed=seed)
        for parallelism in (2, 3, 1):
            job.under_back_pressure()
            job.take()
            job.restart(parallelism)
            job.cluster.network.held = True
            job.cluster.run(seed * 3)
            job.take()
            job.restart(3)
        program.check(of.arrived(), job.finish())


_SEEDS = {Climate.SWARM: 2, Climate.STALLS: 1, Climate.MOVES: 1}


@pytest.mark.parametrize(
    ("program", "climate"),
    [
        (PAIRED, Climate.SWARM),
        (RULED, Climate.STALLS),
        (RULED, Climate.MOVES),
        pytest.param(RULED, Climate.SWARM, marks=pytest.mark.slow),
        pytest.param(PAIRED, Climate.STALLS, marks=pytest.mark.slow),
        pytest.param(PAIRED, Climate.MOVES, marks=pytest.mark.slow),
    ],
    ids=lambda given: given.name,
)
def test_several_ports_survive_random_worlds(program: CheckedProgram, climate: Climate) -> None:
    for seed in [_SEEDS[climate]]:
        world = draw_world(seed, climate)
        unaligned_after_us = [None, 0, 5_000][seed % 3]
        world = replace(
            world,
            program=program,
            task=replace(
                world.task,
                guarantee=Guarantee.EXACTLY_ONCE,
                unaligned_after_us=unaligned_after_us,
            ),
            state=StateConfig.of("rocksdb" if seed == 2 and climate is Climate.SWARM else "memory"),
        )
        world.run_and_check()
