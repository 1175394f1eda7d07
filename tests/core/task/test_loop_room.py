"""New rows wait while many circulate in a loop, but not for ever if a barrier follows them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rheos.core.errors import Site, UserFunctionError
from rheos.core.operators.iterate import IterateSpec
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.ids import ChannelId, OperatorId
from rheos.core.task.inputs import InputGate
from rheos.core.task.loop_room import LoopRoom

NEW, ROUND = ChannelId(0, 0, 0), ChannelId(1, 0, 0)
HEAD = PlannedOperator(
    OperatorId("iterate-1"), "iterate", Site("job.py", 7), IterateSpec(None, 100), (), {}, {}
)


def rows(count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": list(range(count))})


def test_a_full_loop_accepts_rows_before_a_barrier_once_per_iteration() -> None:
    gate = InputGate([(NEW, 0), (ROUND, 1)], lambda: 0, feedback=[1], cycle=[1])
    room = LoopRoom(HEAD, gate, batch_rows=4)
    gate.offer(ROUND, rows(4))
    assert room.admits(awaited=False)
    gate.offer(ROUND, rows(6))
    assert not room.admits(awaited=False)
    assert room.admits(awaited=True)
    room.admitted()
    assert not room.admits(awaited=True)
    # What waited goes round, and more comes behind it meanwhile.
    gate.take()
    gate.offer(ROUND, rows(9))
    assert not room.admits(awaited=True)
    gate.take()
    assert room.admits(awaited=True)
    assert not room.admits(awaited=False)


def test_a_loop_with_too_many_rows_is_an_error_at_the_users_line() -> None:
    gate = InputGate([(NEW, 0), (ROUND, 1)], lambda: 0, feedback=[1], cycle=[1])
    room = LoopRoom(HEAD, gate, batch_rows=4)
    gate.offer(ROUND, rows(100))
    room.check()
    gate.offer(ROUND, rows(1))
    with pytest.raises(UserFunctionError) as raised:
        room.check()
    assert str(raised.value).startswith("job.py:7")
    assert "101 rows of feedback are waiting in one subtask; the limit is 100" in str(raised.value)
