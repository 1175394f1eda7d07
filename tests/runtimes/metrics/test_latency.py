"""A job with a latency objective reports the chosen settings and the measured latency."""

from __future__ import annotations

import rheos as rh
from rheos.runtimes.simulated.runtime import SimulatedJob, SimulatedRuntime


def ran(latency: str | None) -> SimulatedJob:
    env = rh.Environment(2, runtime=SimulatedRuntime(3), checkpoint_interval=None, latency=latency)
    clicks = env.from_source(
        rh.generator(lambda block: {"k": block.index() % 7}, count=3000, rate_per_s=1500)
    )
    clicks.key_by("k").running(n=rh.agg.count()).collect("out")
    handle = env.execute_async("paced")
    assert isinstance(handle, SimulatedJob)
    handle.wait()
    return handle


def test_the_status_shows_chosen_settings_and_latency() -> None:
    latency = ran("20ms").status().latency
    assert latency is not None
    assert latency.objective_ms == 20
    assert latency.found_ms > 0
    # One exchange, and almost no work: the target is 16 ms.
    assert 0 < latency.buffer_timeout_ms <= 16
    assert 1 <= latency.batch_rows <= 16_384


def test_without_an_objective_the_status_has_no_latency() -> None:
    assert ran(None).status().latency is None
