"""Time that batches spend at a gate."""

from __future__ import annotations

import pyarrow as pa

from rheos.core.task.latency import GateLatency


def batch() -> pa.RecordBatch:
    return pa.record_batch({"n": [1]})


def test_one_batch_is_watched_until_it_is_processed_and_then_the_next() -> None:
    now_us = 0
    sojourn = GateLatency(lambda: now_us)
    first, second, third = batch(), batch(), batch()
    sojourn.arrived(first)
    now_us = 10
    sojourn.arrived(second)
    sojourn.took(second)
    sojourn.processed()
    assert sojourn.longest_us() == 10, "the first, which is still there"
    now_us = 40
    sojourn.took(first)
    assert sojourn.longest_us() == 40
    now_us = 50
    sojourn.processed()
    assert [sojourn.longest_us(), sojourn.longest_us()] == [50, 0]
    sojourn.arrived(third)
    now_us = 57
    sojourn.took(third)
    sojourn.processed()
    assert sojourn.longest_us() == 7
