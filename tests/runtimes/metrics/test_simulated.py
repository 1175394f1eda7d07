"""The metrics of whole jobs in the simulated world."""

from __future__ import annotations

from collections import Counter

import pytest

import rheos as rh
from rheos.core.metrics import declarations as f
from rheos.core.metrics.model import MetricsReport
from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.runtime import SimulatedJob, SimulatedRuntime


def job(seed: int, faults: Faults | None = None, rows: int = 300) -> SimulatedJob:
    env = rh.Environment(2, runtime=SimulatedRuntime(seed, faults), checkpoint_interval="50ms")
    clicks = env.from_source(
        rh.generator(
            lambda block: {"k": block.index() % 7, "at": block.index()},
            count=rows,
            rate_per_s=3000,
            splits=3,
        ),
        watermark=rh.Watermark.bounded_out_of_orderness("5ms", on="at"),
    )
    clicks.key_by("k").running(n=rh.agg.count()).collect("out")
    handle = env.execute_async("figures")
    assert isinstance(handle, SimulatedJob)
    return handle


def total(metrics: MetricsReport, metric: f.Metric, *at: str) -> float:
    return sum(
        r.value
        for r in metrics.of(metric)
        if r.at[: len(at)] == at  # type: ignore[misc]
    )


@pytest.mark.parametrize("seed", range(2))
def test_sent_and_received_rows_of_an_edge_agree(seed: int) -> None:
    ran = job(seed)
    ran.wait()
    metrics = ran.metrics()
    (edge,) = [id for id, _ in Counter(r.at[0] for r in metrics.of(f.SENT_ROWS)).items()]
    assert total(metrics, f.SENT_ROWS, edge) == total(metrics, f.RECEIVED_ROWS, edge) == 300
    assert total(metrics, f.SENT_BYTES, edge) == total(metrics, f.RECEIVED_BYTES, edge) > 0
    assert total(metrics, f.BUFFERED_ROWS) == total(metrics, f.CREDITS_USED) == 0
