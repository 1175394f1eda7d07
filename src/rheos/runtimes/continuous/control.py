"""The control channel between the driver and its workers: joining, messages, leases.

Each worker sends `Join`. Once all have joined, the driver sends each a `Welcome` with all data
addresses. Then the two exchange the messages of `rheos.core.protocol.control`. Each side sends a
`Heartbeat` from a separate thread, so that neither a slow function nor a slow store silences it.

A side that receives nothing for the heartbeat timeout abandons the other one: the driver ends the
attempt, the worker its process. So a worker that was frozen or cut off leaves as soon as it continues,
even if messages are waiting (CP6).

A message is one frame: the job's token, the version of this protocol, the form, MessagePack. The reader
compares the token before anything else, and drops and counts frames with another token (EX3).

The driver compresses a large message to all workers. The addresses of the slots and the manifest of a
checkpoint grow with the number of slots, and every slot receives them.

Workers may also join under the number AHEAD, before their attempt begins. They restore checkpoints
(`RestoreAhead`) until they are requested to join an attempt (`BeginAttempt`), as new workers do. If an
attempt runs at the same time, they have a channel of their own.

This module has the messages and their frames; the two ends are `control_client` and `control_server`.
"""

from __future__ import annotations

import math
import zlib

import msgspec

from rheos.core.checkpoint.savepoint import Restore
from rheos.core.errors import TransportError
from rheos.core.protocol import control
from rheos.core.protocol.decoding import BoundedDecoder
from rheos.core.protocol.ids import Attempt, CheckpointId
from rheos.runtimes.host.sockets import is_of

_HEARTBEATS = 5
"""Minimum number of heartbeats within the timeout."""
_HEARTBEAT_S = 0.5


def wait_ms(until: float, now: float) -> int:
    """Return the time in ms that a poll waits until `until`. Both times are of `time.monotonic`."""
    return max(math.ceil((until - now) * 1000), 0)


def heartbeat_s(timeout_ms: int) -> float:
    """Return the time in seconds between heartbeats."""
    return min(_HEARTBEAT_S, timeout_ms / 1000 / _HEARTBEATS)


class Join(msgspec.Struct, frozen=True, tag=True):
    """A worker's request to join. It receives data at `address`."""

    attempt: Attempt
    subtask: int
    address: str
    version: str
    pid: int = 0
    """Its process id on its host; 0 if unknown."""
    host: str = ""


class Welcome(msgspec.Struct, frozen=True, tag=True):
    """The driver's message that all workers have joined; `addresses` is by subtask."""

    attempt: Attempt
    addresses: list[str]


class JoinRefused(msgspec.Struct, frozen=True, tag="Refused"):
    """The driver's refusal: the worker's attempt is over, or its version differs."""

    attempt: Attempt
    reason: str


class Heartbeat(msgspec.Struct, frozen=True, tag=True):
    attempt: Attempt


class RestoreAhead(msgspec.Struct, frozen=True, tag=True):
    """The driver's request to restore a checkpoint before an attempt begins, or to catch up with it."""

    attempt: Attempt
    restore: Restore


class RestoredAhead(msgspec.Struct, frozen=True, tag=True):
    """A worker's message that it has restored the checkpoint, or gives up on it."""

    attempt: Attempt
    subtask: int
    checkpoint: CheckpointId


class Left(msgspec.Struct, frozen=True, tag=True):
    """A worker's message that its slot has closed its operators, and does nothing more."""

    attempt: Attempt
    subtask: int


class BeginAttempt(msgspec.Struct, frozen=True, tag=True):
    """The driver's request to join an attempt that has begun."""

    attempt: Attempt
    """AHEAD, as for all messages before the attempt."""
    next: Attempt
    restore: Restore | None


AHEAD = Attempt(0)
"""Number under which workers join before an attempt begins. Attempts are counted from 1."""

Order = RestoreAhead | BeginAttempt
FromDriver = control.ToTask | Welcome | JoinRefused | Heartbeat | Order
FromWorker = control.ToMaster | Join | Heartbeat | RestoredAhead | Left

CONTROL_VERSION = b"\x03"
MAX_MESSAGE_BYTES = 256 << 20
"""Maximum size of a message that is sent. A larger one would make the other end disconnect."""
_PLAIN = b"\x00"
_COMPRESSED = b"\x01"
_COMPRESSED_FROM_BYTES = 16 << 10
"""Size from which a message to all workers is compressed."""
_LEVEL = 1
"""Level of zlib. Manifests consist of similar paths, which every level compresses well."""

from_driver: BoundedDecoder[FromDriver] = BoundedDecoder(FromDriver, max_bytes=MAX_MESSAGE_BYTES)
from_worker: BoundedDecoder[FromWorker] = BoundedDecoder(FromWorker, max_bytes=MAX_MESSAGE_BYTES)
_encode = msgspec.msgpack.Encoder().encode


def framed(token: bytes, message: FromDriver | FromWorker, *, to_all: bool = False) -> bytes:
    """Return the frame of a message. Raise TransportError if it is too large.

    Args:
        token: The job's token.
        message: The message.
        to_all: Whether all workers receive it. Then it is compressed if it is large.
    """
    body = _encode(message)
    before = token + CONTROL_VERSION
    if len(before) + len(_PLAIN) + len(body) > MAX_MESSAGE_BYTES:
        raise TransportError(
            f"a {type(message).__name__} of {len(body)} bytes is too large for the control channel",
            hint="it contains small parts of a checkpoint and the output staged by sinks: raise the "
            "parallelism, so that each subtask has less of it",
        )
    if to_all and len(body) >= _COMPRESSED_FROM_BYTES:
        return before + _COMPRESSED + zlib.compress(body, _LEVEL)
    return before + _PLAIN + body


def body_of(token: bytes, frame: bytes, of: str) -> bytes | None:
    """Return the MessagePack of the frame; None if an unauthenticated peer sent it. Raise
    TransportError if the other end has another version, or the frame is damaged."""
    if not is_of(token, frame):
        return None
    version = frame[len(token) : len(token) + 1]
    if version != CONTROL_VERSION:
        raise TransportError(
            f"{of} uses version {version.hex() or '?'} of the control protocol, but this "
            f"process uses version {CONTROL_VERSION.hex()}",
            hint="install the same version of Rheos on the driver and every worker",
        )
    start = len(token) + len(version)
    form, content = frame[start : start + 1], frame[start + 1 :]
    if form == _COMPRESSED:
        return _decompressed(content)
    if form != _PLAIN:
        raise TransportError(f"a message has the unknown form {form.hex() or '?'}")
    return content


def _decompressed(content: bytes) -> bytes:
    """Return the body of a compressed message, within the maximum size. Raise TransportError."""
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(content, MAX_MESSAGE_BYTES)
    except zlib.error as error:
        raise TransportError(f"a compressed message is damaged: {error}") from error
    if not stream.eof or stream.unused_data:
        raise TransportError("a compressed message is too large, truncated, or followed by other bytes")
    return body
