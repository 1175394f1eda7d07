"""A slow source emits the rows of another one, when they are due."""

from __future__ import annotations

import pyarrow as pa

import rheos as rh
from rheos.core.connectors.contract import Pending
from rheos.ops.planning.paced_source import PacedSource
from tests.connectors.ports import Probe


def test_rows_are_emitted_when_they_are_due() -> None:
    probe = Probe()
    source = PacedSource(rh.collection([{"n": n} for n in range(100)]), 10.0)
    reader = source.open(source.splits()[0], None, probe.context())
    emitted = []
    for _ in range(4):
        polled = reader.poll(1000)
        if isinstance(polled, pa.RecordBatch):
            emitted.append(polled.num_rows)
        probe.clock.us += 250_000
    # One row is due at once, and one more every 100 ms.
    assert emitted == [1, 2, 3, 2]
    probe.clock.us -= 250_000
    assert reader.poll(1000) == Pending(50_000)
