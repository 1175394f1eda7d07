"""The sending side: buffers, credits, and the effect of overdrafts and barriers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rheos.core.plan.physical import Edge, Exchange
from rheos.core.protocol.elements import Barrier, Batch, Element, End, Idle, Mark, WatermarkMark
from rheos.core.protocol.ids import Attempt, ChainId, ChannelId, CheckpointId
from rheos.core.task.config import TaskConfig
from rheos.core.task.outputs import OutputEdge
from tests.core.operators.contexts import StillClock

_BARRIER = Barrier(CheckpointId(1), Attempt(1))


def rows(*values: int) -> Batch:
    return pa.record_batch({"v": pa.array(values, pa.int64())})


class _Line:
    """Transport of one channel that records what is sent; rows as lists."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.sent: list[object] = []

    def credits(self, channel: ChannelId) -> int:
        return self.left

    def send(self, channel: ChannelId, batch: Batch) -> None:
        assert self.left > 0
        self.left -= 1
        self.sent.append(batch.column(0).to_pylist())

    def send_mark(self, channel: ChannelId, mark: Mark) -> None:
        self.sent.append(mark)

    def receive(self, max_elements: int) -> list[tuple[ChannelId, Element]]:
        return []

    def strangers(self) -> int:
        return 0

    def release(self, channel: ChannelId) -> None:
        raise AssertionError


class _Lines(_Line):
    """Transport that keeps its receivers separate."""

    def send(self, channel: ChannelId, batch: Batch) -> None:
        assert self.left > 0
        self.sent.append((channel.receiver, batch.column(0).to_pylist()))

    def send_mark(self, channel: ChannelId, mark: Mark) -> None:
        self.sent.append((channel.receiver, mark))


def edge(
    line: _Line, batch_rows: int = 8, *, buffer_timeout_us: int | None = None, ahead: bool = False
) -> OutputEdge:
    """Return an edge whose buffers are full at half of `batch_rows`; without a timeout they wait for
    ever below that."""
    described = Edge(0, Exchange.FORWARD, ChainId(0), ChainId(1), 0, ())
    config = TaskConfig(batch_rows=batch_rows, buffer_timeout_us=buffer_timeout_us)
    return OutputEdge(described, 0, 1, 1, 1, 16, config, line, StillClock(), ahead=ahead)


def test_a_full_buffer_without_credit_accepts_no_more_rows() -> None:
    line = _Line(0)
    out = edge(line)
    out.write(rows(1, 2))
    assert out.writable
    out.write(rows(3, 4, 5))
    assert not out.writable
    line.left = 1
    assert out.pump()
    assert out.writable
    assert line.sent == [[1, 2, 3, 4, 5]]


def test_rows_are_buffered_while_others_of_their_channel_are_in_flight() -> None:
    line = _Line(4)
    out = edge(line, batch_rows=64, buffer_timeout_us=0)
    out.write(rows(1))
    out.pump()
    out.write(rows(2))
    assert not out.pump()
    out.write(rows(3))
    assert not out.pump()
    assert out.next_flush_us() is None
    line.left = 4
    assert out.pump()
    assert line.sent == [[1], [2, 3]]
    # A full buffer does not wait for that.
    out.write(rows(*range(32)))
    assert len(line.sent) == 3


def test_rows_are_sent_at_once_to_a_receiver_that_works_ahead() -> None:
    line = _Line(4)
    out = edge(line, batch_rows=64, buffer_timeout_us=0, ahead=True)
    for value in (1, 2, 3):
        out.write(rows(value))
        assert out.pump()
    assert line.sent == [[1], [2], [3]]


def test_marks_keep_their_place_in_an_overdraft() -> None:
    line = _Line(0)
    out = edge(line)
    out.write(rows(1, 2, 3, 4))
    out.overdraft = True
    assert out.writable
    out.write(rows(5))
    out.mark(WatermarkMark(9))
    out.write(rows(6))
    out.mark(Idle())
    out.mark(WatermarkMark(10))
    out.write(rows(7))
    out.overdraft = False
    assert not out.writable
    assert line.sent == []
    line.left = 2
    out.pump()
    # The watermark takes the place behind all rows that were buffered when the next mark came.
    assert line.sent == [[1, 2, 3, 4, 5, 6], WatermarkMark(9), Idle(), WatermarkMark(10)]
    assert out.writable
    assert out.pump(force=True)
    assert line.sent[-1] == [7]
    assert out.empty


def test_the_output_is_blocked_until_the_overdraft_is_sent() -> None:
    line = _Line(0)
    out = edge(line)
    out.overdraft = True
    out.write(rows(1))
    out.mark(Idle())
    out.write(rows(2))
    out.mark(End())
    out.overdraft = False
    line.left = 1
    out.pump()
    assert line.sent == [[1], Idle()]
    assert not out.writable
    line.left = 1
    out.pump()
    assert line.sent == [[1], Idle(), [2], End()]
    assert out.writable


def test_a_mark_does_not_wait_where_there_is_no_overdraft() -> None:
    line = _Line(0)
    out = edge(line)
    out.write(rows(1))
    with pytest.raises(AssertionError, match="EX4"):
        out.mark(Idle())


def test_a_barrier_overtakes_all_buffered_rows_and_names_them() -> None:
    line = _Line(0)
    out = edge(line)
    out.overdraft = True
    out.write(rows(1))
    out.mark(WatermarkMark(5))
    out.mark(Idle())
    out.write(rows(2))
    out.write(rows(3))
    out.overdraft = False
    overtaken = out.overtake(_BARRIER)
    assert [batch.column(0).to_pylist() for batch in overtaken[0]] == [[1], [2], [3]]
    assert line.sent == [_BARRIER]
    # They are sent none the less.
    line.left = 2
    out.pump(force=True)
    assert line.sent == [_BARRIER, [1], WatermarkMark(5), Idle(), [2, 3]]


def test_no_barrier_follows_the_end() -> None:
    line = _Line(0)
    out = edge(line)
    out.mark(End())
    assert out.overtake(_BARRIER) == {}
    assert line.sent == [End()]
    held = _Line(0)
    waiting = edge(held)
    waiting.overdraft = True
    waiting.write(rows(1))
    waiting.mark(End())
    # Its End is not sent yet: the barrier goes before it, and before the rows.
    assert len(waiting.overtake(_BARRIER)) == 1
    assert held.sent == [_BARRIER]


def broadcast(line: _Line, width: int, parallelism: int = 3) -> OutputEdge:
    described = Edge(0, Exchange.BROADCAST, ChainId(0), ChainId(1), 1, ())
    config = TaskConfig(batch_rows=8, buffer_timeout_us=None)
    return OutputEdge(described, 1, parallelism, parallelism, width, 16, config, line, StillClock())


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_broadcast_sends_rows_to_all_receivers_of_rows_and_marks_to_all(
    width: int,
) -> None:
    line = _Lines(9)
    out = broadcast(line, width)
    # Half of a whole batch is full: no subtask gets less than that of it.
    out.write(rows(1, 2, 3))
    assert line.sent == []
    out.write(rows(4))
    out.mark(WatermarkMark(7))
    assert line.sent == [
        *((receiver, [1, 2, 3, 4]) for receiver in range(width)),
        *((receiver, WatermarkMark(7)) for receiver in range(3)),
    ]


def test_a_barrier_overtakes_unsent_copies_of_each_receiver() -> None:
    line = _Lines(0)
    out = broadcast(line, 2)
    out.write(rows(1))
    line.left = 9
    out.pump(force=True)
    line.left = 0
    out.overdraft = True
    out.write(rows(2))
    out.mark(WatermarkMark(7))
    out.write(rows(3))
    overtaken = out.overtake(_BARRIER)
    assert {
        receiver: [batch.column(0).to_pylist() for batch in batches]
        for receiver, batches in overtaken.items()
    } == {0: [[2], [3]], 1: [[2], [3]]}
    assert line.sent[-3:] == [(0, _BARRIER), (1, _BARRIER), (2, _BARRIER)]


def test_a_larger_size_makes_a_full_buffer_wait_again() -> None:
    line = _Line(0)
    out = edge(line)
    out.write(rows(1, 2, 3, 4))
    assert not out.writable
    out.configure(TaskConfig(batch_rows=64, buffer_timeout_us=None))
    assert out.writable
    line.left = 4
    assert not out.pump()
    out.configure(TaskConfig(batch_rows=8, buffer_timeout_us=None))
    assert out.pump()
    assert line.sent == [[1, 2, 3, 4]]


def test_a_timeout_that_is_set_later_applies() -> None:
    line = _Line(4)
    out = edge(line, batch_rows=64)
    out.write(rows(1))
    assert not out.pump()
    out.configure(TaskConfig(batch_rows=64, buffer_timeout_us=0))
    assert out.pump()
    assert line.sent == [[1]]
