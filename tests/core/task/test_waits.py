"""When the next step of an engine is due: no step runs that only credit can continue."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rheos.api.environment import Environment
from rheos.api.streams import DataStream
from rheos.core import aggregates as agg
from rheos.core.task.config import TaskConfig
from tests.core.task.cluster import Cluster, planned
from tests.core.task.programs import Rows

LONG_US = 10**12
"""The interval of reports, which a subtask wakes for in any case."""


def keyed(env: Environment) -> Mapping[str, DataStream]:
    rows = env.from_source(Rows(rows=100_000, splits=2, seed=1, rate_per_s=5_000).source())
    return {"out": rows.key_by("k").running(n=agg.count())}


@pytest.mark.parametrize("batch_rows", [4, 10_000], ids=["full buffer", "barrier"])
def test_without_credit_an_engine_does_not_wait_for_sources(batch_rows: int) -> None:
    """Check full buffers, and rows that a barrier must not overtake."""
    task = TaskConfig(
        batch_rows=batch_rows, credits=1, buffer_timeout_us=0, progress_interval_us=LONG_US
    )
    cluster = Cluster(planned(keyed), task)
    cluster.network.held = True
    cluster.run(200)
    cluster.trigger(1)
    cluster.run(200)
    cluster.clock.advance(1_000_000)
    for slot in cluster.slots:
        while (step := slot.engine.step()).worked:
            pass
        assert step.wake_after_us is not None
        assert step.wake_after_us > LONG_US // 2
    cluster.close()
