"""New rows wait while many wait for answers, unless a barrier follows them."""

from __future__ import annotations

import pyarrow as pa

from rheos.core.operators.contract import HoldingOperator
from rheos.core.task.held_room import HeldRoom
from tests.core.operators.contexts import context


class Holder(HoldingOperator):
    capacity_rows = 2
    waiting = 0

    def waiting_rows(self) -> int:
        return self.waiting


def test_a_full_operator_takes_only_rows_before_a_barrier() -> None:
    schema = pa.schema([("n", pa.int64())])
    holder = Holder(context(schema, schema))
    room = HeldRoom(holder)
    holder.waiting = 1
    assert room.admits(awaited=False)
    holder.waiting = 2
    assert not room.admits(awaited=False)
    assert room.admits(awaited=True)
