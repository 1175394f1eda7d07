"""The exchange: the same cases on the real transport and on the simulated one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pytest
import zmq

from rheos.core.errors import TransportError
from rheos.core.protocol import wire
from rheos.core.protocol.elements import Barrier, Element, End, Idle, LatencyMark, Mark, WatermarkMark
from rheos.core.protocol.ids import Attempt, ChainId, ChannelId, CheckpointId
from rheos.core.protocol.ports import Transport
from rheos.runtimes.continuous.framed_transport import FramedTransport
from rheos.runtimes.continuous.local_transport import LocalTransport
from rheos.runtimes.continuous.security import Curve, Password, Security
from rheos.runtimes.continuous.zmq_transport import ZmqTransport
from rheos.runtimes.host.sockets import SocketFolder, in_folder
from rheos.runtimes.simulated.network import SimNetwork, SimTransport

SCHEMA = pa.schema([("v", pa.int64()), ("s", pa.string())])
CREDITS = 2
TOKEN = b"0123456789abcdef"
ACROSS = ChannelId(0, 0, 1)
LOCAL = ChannelId(0, 0, 0)


@dataclass
class Pair:
    """Two subtasks of one attempt."""

    sender: Transport
    receiver: Transport
    settle: Callable[[], None]
    """Lets what is under way arrive."""

    def take(self, count: int, end: Transport | None = None) -> list[tuple[ChannelId, Element]]:
        """Return exactly `count` elements in order of arrival."""
        end = end or self.receiver
        got: list[tuple[ChannelId, Element]] = []
        deadline = time.monotonic() + 10
        while len(got) < count:
            assert time.monotonic() < deadline, f"only {got} came"
            self.settle()
            got.extend(end.receive(64))
        return got


@contextmanager
def real(security: Security | None = None, where: str = "tcp://127.0.0.1:*") -> Iterator[Pair]:
    """Yield a pair connected by ZeroMQ."""
    contexts = [zmq.Context[zmq.Socket[bytes]](1) for _ in range(2)]
    with many(contexts, security, where) as ends:
        yield Pair(ends[0], ends[1], lambda: ends[1].wait(1000))


@contextmanager
def many(
    contexts: Sequence[zmq.Context[zmq.Socket[bytes]]],
    security: Security | None,
    where: str = "tcp://127.0.0.1:*",
) -> Iterator[list[ZmqTransport]]:
    """Yield a transport for each context, connected by ZeroMQ, and close both."""
    ends = [
        ZmqTransport(
            context,
            attempt=Attempt(1),
            subtask=subtask,
            token=TOKEN,
            schemas={0: SCHEMA, 1: SCHEMA},
            initial_credits=CREDITS,
            parallelism=len(contexts),
            where=where if where.startswith("tcp") else f"{where}{subtask}",
            security=security,
        )
        for subtask, context in enumerate(contexts)
    ]
    for end in ends:
        end.connect([other.address for other in ends])
    try:
        yield ends
    finally:
        for end, context in zip(ends, contexts, strict=True):
            end.close()
            context.destroy(linger=0)


@contextmanager
def over_zeromq_in_a_folder() -> Iterator[Pair]:
    folder = SocketFolder()
    with real(where=in_folder(folder.path)) as pair:
        yield pair
    folder.close()


@contextmanager
def encrypted() -> Iterator[Pair]:
    with real(Curve.make()) as pair:
        yield pair


@contextmanager
def with_a_password() -> Iterator[Pair]:
    with real(Password(TOKEN)) as pair:
        yield pair


@contextmanager
def in_a_folder() -> Iterator[Pair]:
    """Yield a pair connected as on one machine."""
    folder = SocketFolder()
    ends = [
        LocalTransport(
            attempt=Attempt(1),
            subtask=subtask,
            token=TOKEN,
            schemas={0: SCHEMA, 1: SCHEMA},
            initial_credits=CREDITS,
            parallelism=2,
            path=in_folder(folder.path).removeprefix("ipc://"),
        )
        for subtask in range(2)
    ]
    for end in ends:
        end.connect([other.address for other in ends])
    try:
        yield Pair(ends[0], ends[1], lambda: ends[1].wait(1000))
    finally:
        for end in ends:
            end.close()
        folder.close()


@contextmanager
def simulated() -> Iterator[Pair]:
    now = [0]
    network = SimNetwork(
        Attempt(1), {0: SCHEMA, 1: SCHEMA}, CREDITS, lambda: now[0], iter(range(1, 10**6)).__next__
    )

    def settle() -> None:
        now[0] += 1000

    yield Pair(SimTransport(network, 0), SimTransport(network, 1), settle)


@pytest.fixture(params=[in_a_folder, encrypted, with_a_password, simulated])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with request.param() as made:
        yield made


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"v": list(values), "s": [str(v) for v in values]}, schema=SCHEMA)


def shown(elements: Sequence[tuple[ChannelId, Element]]) -> list[object]:
    return [e.column("v").to_pylist() if isinstance(e, pa.RecordBatch) else e for _, e in elements]


def test_batches_and_marks_arrive_in_order(pair: Pair) -> None:
    marks: list[Mark] = [
        WatermarkMark(7),
        Barrier(CheckpointId(1), Attempt(1)),
        LatencyMark(ChainId(3), 1_767_268_800_123),
        Idle(),
        End(),
    ]
    pair.sender.send(ACROSS, batch(1, 2))
    pair.sender.send_mark(ACROSS, marks[0])
    pair.sender.send(ACROSS, batch(3))
    for mark in marks[1:]:
        pair.sender.send_mark(ACROSS, mark)
    assert shown(pair.take(7)) == [[1, 2], marks[0], [3], *marks[1:]]


@pytest.mark.parametrize("channel", [ACROSS, LOCAL])
def test_a_processed_batch_returns_its_credit(pair: Pair, channel: ChannelId) -> None:
    end = pair.receiver if channel is ACROSS else pair.sender
    for i in range(CREDITS):
        assert pair.sender.credits(channel) == CREDITS - i
        pair.sender.send(channel, batch(i))
    assert pair.sender.credits(channel) == 0
    pair.take(CREDITS, end)
    assert pair.sender.credits(channel) == 0
    end.release(channel)
    deadline = time.monotonic() + 10
    while pair.sender.credits(channel) == 0:
        assert time.monotonic() < deadline
        end.receive(1)
        pair.settle()
        pair.sender.receive(1)
    assert pair.sender.credits(channel) == 1


def test_the_number_of_sockets_does_not_grow_with_the_number_of_peers() -> None:
    """A context has a maximum number of sockets, so a socket for each peer would limit the slots."""
    slots, sockets = 12, 8
    contexts = [zmq.Context[zmq.Socket[bytes]](1) for _ in range(slots)]
    for context in contexts:
        context.set(zmq.MAX_SOCKETS, sockets)
    with many(contexts, None) as ends:
        for receiver in range(1, slots):
            ends[0].send(ChannelId(0, 0, receiver), batch(receiver))
            pair = Pair(ends[0], ends[receiver], partial(ends[receiver].wait, 1000))
            assert shown(pair.take(1)) == [[receiver]]
            ends[receiver].release(ChannelId(0, 0, receiver))
            assert ends[receiver].receive(1) == []  # It returns the credit.
        deadline = time.monotonic() + 10
        channels = [ChannelId(0, 0, receiver) for receiver in range(1, slots)]
        while any(ends[0].credits(channel) < CREDITS for channel in channels):
            assert time.monotonic() < deadline, "credit is missing"
            ends[0].wait(1000)
            ends[0].receive(64)


def test_credit_for_a_lost_peer_fails_the_attempt() -> None:
    with real() as pair:
        pair.sender.send(ACROSS, batch(1))
        pair.take(1)
        assert isinstance(pair.sender, ZmqTransport)
        pair.sender.close()
        with pytest.raises(TransportError, match="subtask 0 is gone"):
            give_back(pair.receiver, seconds=10)


def test_the_local_transport_ignores_a_lost_peer() -> None:
    with in_a_folder() as pair:
        assert isinstance(pair.sender, LocalTransport)
        assert isinstance(pair.receiver, LocalTransport)
        pair.sender.send(ACROSS, batch(1))
        pair.take(1)
        pair.sender.close()
        pair.receiver.release(ACROSS)
        while not pair.receiver._incoming[0].gone:
            pair.receiver.wait(1000)
            pair.receiver.receive(1)
        # Everything sent to the closed peer, and returned to it, is dropped.
        pair.receiver.send_mark(ChannelId(0, 1, 0), End())
        pair.receiver.release(ACROSS)
        assert pair.receiver.receive(1) == []


def give_back(end: Transport, seconds: float) -> None:
    """Return credit repeatedly until that fails or the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        end.release(ACROSS)
        end.receive(1)


def test_marks_need_no_credit(pair: Pair) -> None:
    for i in range(CREDITS):
        pair.sender.send(ACROSS, batch(i))
    pair.sender.send_mark(ACROSS, End())
    assert shown(pair.take(CREDITS + 1))[-1] == End()


def test_each_channel_has_its_own_credits(pair: Pair) -> None:
    other = ChannelId(1, 0, 1)
    for i in range(CREDITS):
        pair.sender.send(ACROSS, batch(i))
    assert pair.sender.credits(other) == CREDITS
    pair.sender.send(other, batch(9))
    assert sorted(str(channel) for channel, _ in pair.take(3)) == ["0:0>1", "0:0>1", "1:0>1"]


@pytest.mark.parametrize("rows", [10, 3_000, 100_000])
def test_batches_of_any_size_arrive_whole_and_in_order(pair: Pair, rows: int) -> None:
    """Batches that exceed what a socket accepts at once or need their own memory, with small ones
    between."""
    numbers = iter(range(6 * rows))
    sent = []
    for _ in range(3):
        for size in (rows, 1):
            made = batch(*(next(numbers) for _ in range(size)))
            sent.append(made)
            while pair.sender.credits(ACROSS) == 0:
                pair.settle()
                pair.sender.receive(1)
                for channel, element in pair.receiver.receive(64):
                    assert element == sent.pop(0)
                    pair.receiver.release(channel)
            pair.sender.send(ACROSS, made)
    while sent:
        pair.settle()
        pair.sender.receive(1)
        for channel, element in pair.receiver.receive(64):
            assert element == sent.pop(0)
            pair.receiver.release(channel)


def test_a_gap_fails_the_attempt() -> None:
    """Invariant EX2."""
    with in_a_folder() as pair:
        assert isinstance(pair.sender, FramedTransport)
        pair.sender._sent[ACROSS] = 5
        pair.sender.send_mark(ACROSS, End())
        with pytest.raises(TransportError, match="sent frame 5, not 0: one was lost or duplicated"):
            pair.take(1)


def test_a_batch_too_large_for_a_frame_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 100)
    with in_a_folder() as pair, pytest.raises(TransportError, match="bytes, but a frame has at most"):
        pair.sender.send(ACROSS, batch(*range(50)))
