"""The search for the next element of a gate, by its cost."""

from __future__ import annotations

import pyarrow as pa

from rheos.core.protocol.ids import ChannelId
from rheos.core.task.inputs import Channel, InputGate

A, B, C = (ChannelId(0, sender, 0) for sender in range(3))


class _Unvisited(list[Channel]):
    def __len__(self) -> int:
        raise AssertionError("the channels were searched")


def test_an_empty_gate_is_not_searched() -> None:
    """Otherwise each turn of a wide job would visit all channels."""
    gate = InputGate([(A, 0), (B, 0), (C, 0)], lambda: 0)
    rows = pa.record_batch({"v": [1]})
    for sender in (C, A):
        gate.offer(sender, rows)
    assert gate.take() is not None
    assert gate.take_rows(0, 10) is not None
    gate.offer(B, rows)
    gate.remove(gate.channels[1], 0)
    gate.channels = _Unvisited(gate.channels)
    assert gate.take() is None
    assert gate.take_rows(0, 10) is None
