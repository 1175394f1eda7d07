"""Unauthenticated peers at the data sockets of ZeroMQ: their messages are dropped and counted."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq

from rheos.core.errors import TransportError
from rheos.core.protocol import wire
from rheos.core.protocol.elements import End, Idle
from rheos.core.protocol.ids import Attempt
from rheos.core.protocol.ports import Transport
from rheos.runtimes.continuous.security import Curve, Password
from rheos.runtimes.continuous.zmq_transport import ZmqTransport
from tests.runtimes.continuous.test_transport import (
    ACROSS,
    TOKEN,
    Pair,
    batch,
    over_zeromq_in_a_folder,
    real,
    shown,
)

KEYS = Curve.make()
OTHER = b"x" * 16


@pytest.fixture
def pair() -> Iterator[Pair]:
    """On one machine: the strangers here are of the same user, else they could not even connect."""
    with over_zeromq_in_a_folder() as made:
        yield made


def stranger_at(pair: Pair, admitted: Callable[[Any], object] = lambda socket: None) -> Any:
    receiver = receiver_of(pair)
    socket = receiver._context.socket(zmq.DEALER)
    admitted(socket)
    socket.connect(receiver.address)
    return socket


def receiver_of(pair: Pair) -> ZmqTransport:
    assert isinstance(pair.receiver, ZmqTransport)
    return pair.receiver


def counted(pair: Pair, strangers: int) -> None:
    deadline = time.monotonic() + 60
    while receiver_of(pair).strangers() < strangers:
        assert time.monotonic() < deadline, "they are not counted"
        pair.settle()
        assert pair.receiver.receive(64) == []
    assert receiver_of(pair).strangers() == strangers


def header(token: bytes = TOKEN, attempt: int = 1, version: int = 2, kind: int = 6) -> bytes:
    return struct.pack("<16sBBIHHHQq", token, version, kind, attempt, 0, 0, 1, 0, 0)


STRANGE = {
    "36 bytes of no known kind": [OTHER[:8] + b"\x01\xff" + bytes(26)],
    "no known kind": [header(OTHER, kind=255)],
    "another version": [header(OTHER, version=9)],
    "noise": [bytes(range(256))],
    "a request for a page": [b"GET / HTTP/1.1\r\n\r\n"],
    "nothing": [b""],
    "half of the token": [TOKEN[:8]],
    "the token in front of another frame": [b"", TOKEN],
    "many parts": [b"x"] * 1000,
    "an attempt that is over": [header(attempt=7)],
}


def listens_on(end: Transport, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        end.receive(1)


@pytest.mark.parametrize("frames", STRANGE.values(), ids=STRANGE)
def test_messages_of_unauthenticated_peers_are_dropped_and_counted(
    pair: Pair, frames: list[bytes]
) -> None:
    """EX3."""
    with stranger_at(pair) as stranger:
        stranger.send_multipart(frames)
        counted(pair, 1)
        pair.sender.send(ACROSS, batch(1, 2))
        pair.sender.send_mark(ACROSS, End())
        assert shown(pair.take(2)) == [[1, 2], End()]


PEERS = {
    "of no known kind": ([header(kind=255)], "a peer's frame has the unknown kind 255"),
    "of another version": ([header(version=9)], "a peer uses version 9 of the protocol, but this"),
    "truncated": ([header()[:-1]], "header has 43 bytes, not 44"),
    "too long": ([header() + b"x" * 1000], "header has 45 bytes, not 44"),
    "a batch without rows": ([header(kind=1)], "a BATCH of 1 parts"),
    "a batch that is none": ([header(kind=1), b"noise"], "batch cannot be read"),
    "a mark with more": ([header(), b"more"], "an? END of 2 parts"),
    "an edge that is none": ([header()[:22] + b"\x09" + header()[23:]], "a frame for channel 9"),
}


@pytest.mark.parametrize(("frames", "says"), PEERS.values(), ids=PEERS)
def test_an_invalid_frame_of_a_peer_fails_the_attempt_but_not_the_job(
    pair: Pair, frames: list[bytes], says: str
) -> None:
    """A TransportError is restarted; a defect, as a ValueError would be, ends the job."""
    with stranger_at(pair) as peer:
        peer.send_multipart(frames)
        with pytest.raises(TransportError, match=says):
            pair.take(1)


def test_credit_of_unauthenticated_peers_is_dropped_and_counted(pair: Pair) -> None:
    """As where another has taken the address of a worker that is gone."""
    assert isinstance(pair.sender, ZmqTransport)
    pair.sender.send(ACROSS, batch(1))
    pair.take(1)
    identity = receiver_of(pair)._identities[0]
    for frame in (b"", b"noise", wire.encode_credit(OTHER, Attempt(1), 0, 9)):
        receiver_of(pair)._router.send_multipart([identity, frame])
    pair.receiver.release(ACROSS)
    deadline = time.monotonic() + 60
    while pair.sender.credits(ACROSS) < 2:
        assert time.monotonic() < deadline
        pair.receiver.receive(1)
        pair.sender.receive(1)
    assert pair.sender.strangers() == 3


def test_too_much_credit_fails_the_attempt(pair: Pair) -> None:
    """EX1, also where Python runs without asserts."""
    pair.sender.send(ACROSS, batch(1))
    pair.take(1)
    credit = wire.encode_credit(TOKEN, Attempt(1), 0, 9)
    receiver_of(pair)._router.send_multipart([receiver_of(pair)._identities[0], credit])
    with pytest.raises(TransportError, match="too many credits"):
        listens_on(pair.sender, seconds=60)


# --- between machines: nobody gets as far as a frame ----------------------------------------------


def no_keys(socket: Any) -> None:
    pass


def a_guess(socket: Any) -> None:
    socket.plain_username, socket.plain_password = b"rheos", b"guess"


def the_servers_key(socket: Any) -> None:
    """Which is public; the keys of its own are not those of the job."""
    socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
    socket.curve_serverkey = KEYS.server_public


@pytest.mark.parametrize(
    ("security", "shows"),
    [
        (KEYS, no_keys),
        (KEYS, a_guess),
        (KEYS, the_servers_key),
        (Password(TOKEN), no_keys),
        (Password(TOKEN), a_guess),
        (Password(TOKEN), the_servers_key),
    ],
)
def test_peers_of_other_jobs_are_refused(
    security: Curve | Password, shows: Callable[[Any], None]
) -> None:
    """Even with a frame that has the token; and however many parts of a message it begins."""
    with real(security) as pair, stranger_at(pair, shows) as stranger:
        stranger.setsockopt(zmq.LINGER, 0)
        with contextlib.suppress(zmq.Again):  # Who is turned away by then has nobody to send to.
            stranger.send(header(), zmq.NOBLOCK)
            stranger.send(b"x" * 1_000_000, zmq.SNDMORE | zmq.NOBLOCK)
        deadline = time.monotonic() + 60
        while receiver_of(pair).strangers() == 0:
            assert time.monotonic() < deadline, "it is not counted"
            pair.settle()
            assert pair.receiver.receive(64) == []
        pair.sender.send_mark(ACROSS, Idle())
        assert shown(pair.take(1)) == [Idle()]


def test_a_guessed_name_replaces_no_peer() -> None:
    """Of two connections that show one name a ROUTER hears the first alone."""

    def named(socket: Any) -> None:
        socket.setsockopt(zmq.IDENTITY, b"1/0")

    with over_zeromq_in_a_folder() as pair, stranger_at(pair, named) as stranger:
        stranger.send(b"noise")
        counted(pair, 1)
        pair.sender.send_mark(ACROSS, Idle())
        assert shown(pair.take(1)) == [Idle()]
        assert b"1/0" not in receiver_of(pair)._identities.values()
