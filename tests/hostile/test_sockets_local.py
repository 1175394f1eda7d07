"""Unauthenticated and broken peers at the local sockets of one machine."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from rheos.core.errors import TransportError
from rheos.core.protocol import framing, wire
from rheos.core.protocol.elements import End
from rheos.core.protocol.framing import CreditCutter, FrameCutter, Hello, PayloadPlace
from rheos.core.protocol.ids import Attempt
from rheos.runtimes.continuous.local_transport import LocalTransport
from rheos.runtimes.host import memory_files
from tests.runtimes.continuous.test_transport import (
    ACROSS,
    TOKEN,
    Pair,
    batch,
    in_a_folder,
    shown,
)

OTHER = b"x" * 16


@pytest.fixture
def pair() -> Iterator[Pair]:
    with in_a_folder() as made:
        # Both have greeted.
        made.sender.send_mark(ACROSS, End())
        assert shown(made.take(1)) == [End()]
        yield made


def receiver_of(pair: Pair) -> LocalTransport:
    assert isinstance(pair.receiver, LocalTransport)
    return pair.receiver


def stranger_at(pair: Pair) -> socket.socket:
    """Of the same user, else it could not even connect."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.connect(receiver_of(pair).address)
    return made


def counted(pair: Pair, strangers: int) -> None:
    deadline = time.monotonic() + 60
    while receiver_of(pair).strangers() < strangers:
        assert time.monotonic() < deadline, "they are not counted"
        pair.settle()
        assert pair.receiver.receive(64) == []
    assert receiver_of(pair).strangers() == strangers


def goes_on(pair: Pair) -> None:
    pair.sender.send(ACROSS, batch(1, 2))
    assert shown(pair.take(1)) == [[1, 2]]


STRANGE = {
    "noise": bytes(range(256)),
    "a request for a page": b"GET / HTTP/1.1\r\n\r\n",
    "another token": framing.encode_hello(OTHER, Hello(Attempt(1), 0)),
    "an attempt that is over": framing.encode_hello(TOKEN, Hello(Attempt(7), 0)),
}


@pytest.mark.parametrize("said", STRANGE.values(), ids=STRANGE)
def test_peers_of_other_attempts_are_refused_and_counted(pair: Pair, said: bytes) -> None:
    """EX3."""
    with stranger_at(pair) as stranger:
        stranger.sendall(said)
        counted(pair, 1)
        goes_on(pair)


@pytest.mark.parametrize("said", [b"", TOKEN[:8], TOKEN])
def test_peers_that_leave_before_their_identification_are_counted(pair: Pair, said: bytes) -> None:
    with stranger_at(pair) as stranger:
        stranger.sendall(said)
    counted(pair, 1)
    goes_on(pair)


def test_silent_peers_block_no_other_and_do_not_accumulate(pair: Pair) -> None:
    silent = [stranger_at(pair) for _ in range(100)]
    pair.receiver.receive(1)
    silent += [stranger_at(pair) for _ in range(100)]
    counted(pair, 72)
    goes_on(pair)
    for each in silent:
        each.close()


def greeted(pair: Pair, hello: bytes) -> socket.socket:
    peer = stranger_at(pair)
    peer.sendall(hello)
    return peer


def test_a_peer_of_another_version_fails_the_attempt(pair: Pair) -> None:
    hello = bytearray(framing.encode_hello(TOKEN, Hello(Attempt(1), 0)))
    hello[wire.TOKEN_BYTES] = 9
    with greeted(pair, bytes(hello)), pytest.raises(TransportError, match="uses version 9"):
        pair.take(1)


@pytest.mark.parametrize("sender", [0, 1, 2])
def test_no_peer_replaces_a_subtask(pair: Pair, sender: int) -> None:
    hello = framing.encode_hello(TOKEN, Hello(Attempt(1), sender))
    with greeted(pair, hello), pytest.raises(TransportError, match=f"subtask {sender} connected"):
        pair.take(1)


def header(kind: int = 6, token: bytes = TOKEN, sequence: int = 1) -> bytes:
    made = bytearray(wire.encode_header(token, Attempt(1), ACROSS, sequence, wire.FrameKind.END))
    made[wire.TOKEN_BYTES + 1] = kind
    return bytes(made)


PEERS = {
    "of no known kind": (
        framing.head(header(255), 0, PayloadPlace.NOWHERE),
        "a peer's frame has the",
    ),
    "a batch without rows": (
        framing.head(header(1), 0, PayloadPlace.NOWHERE),
        "a BATCH of 1 parts",
    ),
    "a batch that is none": (
        framing.head(header(1), 5, PayloadPlace.BEHIND) + b"noise",
        "cannot be read",
    ),
    "a mark with more": (
        framing.head(header(), 4, PayloadPlace.BEHIND) + b"more",
        "an? END of 2 parts",
    ),
    "no descriptor": (
        framing.head(header(1), 5, PayloadPlace.IN_MEMORY),
        "without its descriptor",
    ),
    "too large": (
        framing.head(header(1), wire.MAX_FRAME_BYTES + 1, PayloadPlace.BEHIND),
        "impossible payload",
    ),
    "nowhere, with a size": (
        framing.head(header(1), 5, PayloadPlace.NOWHERE),
        "impossible payload",
    ),
    "behind, with none": (framing.head(header(1), 0, PayloadPlace.BEHIND), "impossible payload"),
    "elsewhere": (bytes(4) + b"\x09" + header(1), "impossible payload"),
}


@pytest.mark.parametrize(("said", "means"), PEERS.values(), ids=PEERS)
def test_an_invalid_frame_of_a_peer_fails_the_attempt_but_not_the_job(
    pair: Pair, said: bytes, means: str
) -> None:
    """A TransportError is restarted; a defect, as a ValueError would be, ends the job."""
    assert isinstance(pair.sender, LocalTransport)
    pair.sender._outgoing[1].send((said,))
    with pytest.raises(TransportError, match=means):
        pair.take(1)


@pytest.mark.skipif(not memory_files.AVAILABLE, reason="the system has no files in memory")
def test_a_payload_that_is_shorter_than_declared_is_refused(pair: Pair) -> None:
    assert isinstance(pair.sender, LocalTransport)
    descriptor = memory_files.write_memory_file(pa.py_buffer(b"noise"))
    pair.sender._outgoing[1].send((framing.head(header(1), 6, PayloadPlace.IN_MEMORY),), descriptor)
    with pytest.raises(TransportError, match="has 5 bytes, not 6"):
        pair.take(1)


def test_a_replaced_peer_may_have_just_sent_a_message(pair: Pair) -> None:
    silent = [stranger_at(pair) for _ in range(128)]
    pair.receiver.receive(1)
    another = stranger_at(pair)
    silent[0].sendall(b"x")
    counted(pair, 1)
    goes_on(pair)
    for each in (*silent, another):
        each.close()


def test_a_wake_up_during_a_step_is_not_lost(pair: Pair) -> None:
    waker = receiver_of(pair).waker()
    waker()
    assert pair.receiver.receive(1) == []
    began = time.monotonic()
    receiver_of(pair).wait(60_000_000)
    assert time.monotonic() - began < 30


def test_credits_of_unauthenticated_peers_are_dropped_and_too_many_fail_the_attempt(
    pair: Pair,
) -> None:
    """EX1, also where Python runs without asserts."""
    assert isinstance(pair.sender, LocalTransport)
    incoming = receiver_of(pair)._incoming[0]
    incoming.give(wire.encode_credit(OTHER, Attempt(1), 0, 1))
    incoming.give(wire.encode_credit(TOKEN, Attempt(7), 0, 1))
    pair.sender.wait(10_000_000)
    pair.sender.receive(1)
    assert pair.sender.strangers() == 2
    incoming.give(wire.encode_credit(TOKEN, Attempt(1), 0, 9))
    pair.sender.wait(10_000_000)
    with pytest.raises(TransportError, match="too many credits"):
        pair.sender.receive(1)


def test_frames_do_not_depend_on_how_bytes_arrive() -> None:
    frames = [
        framing.head(header(), 0, PayloadPlace.NOWHERE),
        framing.head(header(1), 5, PayloadPlace.BEHIND) + b"first",
        framing.head(header(1), 70_000, PayloadPlace.IN_MEMORY),
        framing.head(header(1), 3, PayloadPlace.BEHIND) + b"and",
    ]
    data = b"".join(frames)
    whole = FrameCutter().cut(data)
    assert [frame.payload for frame in whole] == [None, b"first", None, b"and"]
    assert [frame.in_memory_bytes for frame in whole] == [0, 0, 70_000, 0]
    credit = wire.encode_credit(TOKEN, Attempt(1), 0, 1)
    for rng in map(random.Random, range(20)):
        cutter, credits = FrameCutter(), CreditCutter()
        places = sorted(rng.randrange(len(data)) for _ in range(rng.randrange(9)))
        spans = list(zip([0, *places], [*places, len(data)], strict=True))
        assert [frame for a, b in spans for frame in cutter.cut(data[a:b])] == whole
        given = credit * 20
        parts = [given[at : at + 7] for at in range(0, len(given), 7)]
        assert [each for part in parts for each in credits.cut(part)] == [credit] * 20
