"""Frames of the exchange on a byte connection between two processes of one machine.

A connection starts with the sender's identity (`Hello`). Its frames follow. The prefix of each frame
has the length and the place of the payload: after the header, or in shared memory whose descriptor is
sent with the frame. The receiver only sends credits, which all have the same size. Nothing here reads a
socket.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from rheos.core.errors import TransportError
from rheos.core.protocol import wire
from rheos.core.protocol.ids import Attempt

_HELLO = struct.Struct("<16sBIH")
HELLO_BYTES = _HELLO.size
_PREFIX = struct.Struct("<IB")
_HEAD_BYTES = _PREFIX.size + wire.HEADER_BYTES


class PayloadPlace(IntEnum):
    """Place of a frame's payload."""

    NOWHERE = 0
    BEHIND = 1
    """After the header of the frame."""
    IN_MEMORY = 2
    """In a shared-memory file whose descriptor is sent with the frame."""


@dataclass(frozen=True, slots=True)
class Hello:
    attempt: Attempt
    sender: int


def encode_hello(token: bytes, hello: Hello) -> bytes:
    return _HELLO.pack(token, wire.WIRE_VERSION, hello.attempt, hello.sender)


def decode_hello(payload: bytes) -> Hello:
    """Decode a greeting whose token was verified. Raise TransportError if it has another version."""
    if len(payload) != HELLO_BYTES:
        raise TransportError(f"a peer's greeting has {len(payload)} bytes, not {HELLO_BYTES}")
    _, version, attempt, sender = _HELLO.unpack(payload)
    wire.check_version(version)
    return Hello(Attempt(attempt), sender)


def head(header: bytes, payload_bytes: int, lies: PayloadPlace) -> bytes:
    """Return the bytes that precede the payload of a frame."""
    return _PREFIX.pack(payload_bytes, lies) + header


class Frame(NamedTuple):
    header: bytes
    payload: bytes | None
    in_memory_bytes: int
    """Size of a payload in shared memory; 0 if the payload is elsewhere."""


class FrameCutter:
    """Cuts the bytes of a connection into frames. It buffers less than one frame."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def cut(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes. Raise TransportError for an impossible frame."""
        if self._rest:
            self._rest += data
            data = bytes(self._rest) if self._whole(self._rest) else b""
            if not data:
                return []
        frames: list[Frame] = []
        at, end = 0, len(data)
        while end - at >= _HEAD_BYTES:
            size, lies = _PREFIX.unpack_from(data, at)
            behind = self._checked(size, lies)
            if end - at < _HEAD_BYTES + behind:
                break
            at += _HEAD_BYTES
            header = data[at - wire.HEADER_BYTES : at]
            payload = data[at : at + behind] if lies == PayloadPlace.BEHIND else None
            frames.append(Frame(header, payload, size if lies == PayloadPlace.IN_MEMORY else 0))
            at += behind
        self._rest = bytearray(data[at:])
        return frames

    def _whole(self, rest: bytearray) -> bool:
        """Return whether the buffer contains a whole frame. If not, nothing is copied."""
        if len(rest) < _HEAD_BYTES:
            return False
        size, lies = _PREFIX.unpack_from(rest)
        return len(rest) >= _HEAD_BYTES + self._checked(size, lies)

    @staticmethod
    def _checked(size: int, lies: int) -> int:
        """Return the number of payload bytes that follow the header."""
        is_known = lies <= PayloadPlace.IN_MEMORY and (size == 0) == (lies == PayloadPlace.NOWHERE)
        if not is_known or size > wire.MAX_FRAME_BYTES:
            raise TransportError(f"a peer's frame declares an impossible payload: {size}, {lies}")
        return size if lies == PayloadPlace.BEHIND else 0


class CreditCutter:
    """Cuts the bytes of a connection into credits."""

    def __init__(self) -> None:
        self._rest = b""

    def cut(self, data: bytes) -> list[bytes]:
        data = self._rest + data
        whole = len(data) - len(data) % wire.CREDIT_BYTES
        self._rest = data[whole:]
        return [data[at : at + wire.CREDIT_BYTES] for at in range(0, whole, wire.CREDIT_BYTES)]
