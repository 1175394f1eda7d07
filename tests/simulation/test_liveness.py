"""After any faults have stopped, the job ends within a bounded time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheos.runtimes.job import JobState
from rheos.runtimes.simulated.faults import Requests
from rheos.testing import Faults
from tests.worlds.worlds import draw_world

STORM = Faults(
    crash_slot=6.0,
    crash_driver=2.0,
    zombie=0.8,
    lose_message=0.3,
    store_error=0.1,
    commit_error=0.5,
    clog=10.0,
    clock_jump=5.0,
    read_error=0.1,
    store_outage=2.0,
    store_full=2.0,
    store_slow=2.0,
    freeze=5.0,
    slow_network=4.0,
    die_in_slot_io=0.05,
    die_in_driver_io=0.05,
    sleeping_driver=0.5,
    lose_slot=2.0,
    clock_skew_ms=60_000.0,
    until_us=1_500_000,
)


@pytest.mark.parametrize("seed", range(3000, 3003))
def test_a_job_ends_after_a_storm(seed: int) -> None:
    drawn = replace(draw_world(seed), faults=STORM, forks=False)
    done = drawn.run()
    drawn.check(done)
    longest = max(of.rows / of.rate_per_s + of.pause_ms / 1000 for of in drawn.inputs)
    # All input may have to be read again, after a lease has expired and a checkpoint has timed out.
    assert done.virtual_ms < STORM.until_us / 1000 + 1000 * longest + 4000


@pytest.mark.parametrize("seed", range(3100, 3102))
def test_nothing_restarts_without_faults(seed: int) -> None:
    drawn = replace(draw_world(seed), faults=Faults(until_us=0), requests=Requests())
    done = drawn.run()
    drawn.check(done)
    assert (done.status.state, done.status.attempt, done.crashes) == (JobState.FINISHED, 1, 0)
