"""Rows that collect sinks have gathered, while a job runs and at its end."""

from __future__ import annotations

import msgspec
import pyarrow as pa

import rheos as rh
from rheos.connectors.collect import CollectedRows
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.formats.arrow_bytes import table_bytes
from rheos.core.protocol.control import CommittableHandle
from rheos.core.protocol.ids import Attempt, CheckpointId, OperatorId
from rheos.runtimes.driver.collected_results import CollectedResults


def rows(checkpoint: int, *values: int) -> CommittableHandle:
    table = pa.table({"n": pa.array(values, pa.int64())})
    listed = CollectedRows(checkpoint, 0, 1, 0, table_bytes(table))
    return CommittableHandle(OperatorId("sink-1"), msgspec.msgpack.encode(listed))


def completed(checkpoint: int, *listed: CommittableHandle) -> CheckpointCompleted:
    return CheckpointCompleted(
        attempt=Attempt(1),
        owner="driver",
        reserved_to=CheckpointId(9),
        checkpoint=CheckpointId(checkpoint),
        final=False,
        parallelism=1,
        max_parallelism=128,
        operators={},
        handles=[],
        committables=[*listed],
    )


def results() -> CollectedResults:
    env = rh.Environment(parallelism=1)
    env.from_source(rh.collection([{"n": 1}]), name="numbers").collect("numbers")
    return CollectedResults(env.plan())


def test_rows_listed_twice_are_collected_once() -> None:
    made = results()
    made.add(completed(1, rows(1, 10)))
    made.add(completed(2, rows(1, 10), rows(2, 20)))
    assert made.tables()["numbers"]["n"].to_pylist() == [10, 20]


def test_rows_that_were_taken_are_not_returned_again() -> None:
    made = results()
    assert made.take()["numbers"].num_rows == 0
    made.add(completed(1, rows(1, 10)))
    assert made.take()["numbers"]["n"].to_pylist() == [10]
    made.add(completed(2, rows(1, 10), rows(2, 20)))
    assert made.take()["numbers"]["n"].to_pylist() == [20]
    assert made.tables()["numbers"].num_rows == 0
