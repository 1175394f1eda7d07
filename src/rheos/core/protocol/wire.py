"""Data frames between subtasks of different processes. A frame is a header and a payload.

The header starts with a token that the job's subtasks share, followed by the attempt, the channel and
the frame's number on the channel. The reader compares the token before it reads anything else. Batches
are sent as Arrow IPC record batches without their schema, which both ends know from the plan.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

import pyarrow as pa

from rheos.core.errors import TransportError
from rheos.core.protocol.elements import (
    Active,
    Barrier,
    BarrierKind,
    Batch,
    End,
    Idle,
    IterationMark,
    LatencyMark,
    Mark,
    WatermarkMark,
)
from rheos.core.protocol.ids import Attempt, ChainId, ChannelId, CheckpointId

WIRE_VERSION = 2
TOKEN_BYTES = 16
_HEADER = struct.Struct("<16sBBIHHHQq")
_CREDIT = struct.Struct("<16sIHI")
_CHAIN_BITS = 16
HEADER_BYTES = _HEADER.size
CREDIT_BYTES = _CREDIT.size
MAX_FRAME_BYTES = 1 << 30
"""Maximum size of a frame. For a larger one, the receiver's socket would close the connection."""


class FrameKind(IntEnum):
    BATCH = 1
    WATERMARK = 2
    BARRIER = 3
    IDLE = 4
    ACTIVE = 5
    END = 6
    SAVEPOINT = 7
    """Barrier of a savepoint."""
    LAP = 8
    """Mark of a loop in which rows returned since the previous mark."""
    QUIET_LAP = 9
    LATENCY = 10


class Header(NamedTuple):
    """Header of a frame. `value` is the timestamp of a watermark, the checkpoint of a barrier, or the
    number of an iteration mark. For a latency mark it is the time when it was sent and, in the last 16
    bits, the chain of its source."""

    kind: FrameKind
    attempt: int
    channel: ChannelId
    sequence: int
    value: int


def encode_header(
    token: bytes, attempt: Attempt, channel: ChannelId, sequence: int, kind: FrameKind, value: int = 0
) -> bytes:
    return _HEADER.pack(
        token,
        WIRE_VERSION,
        kind,
        attempt,
        channel.edge,
        channel.sender,
        channel.receiver,
        sequence,
        value,
    )


def decode_header(frame: bytes) -> Header:
    """Decode the header of a frame whose token was verified. Raise TransportError if it is not a
    header of this version."""
    if len(frame) != HEADER_BYTES:
        raise TransportError(f"a peer's header has {len(frame)} bytes, not {HEADER_BYTES}")
    _, version, kind, attempt, edge, sender, receiver, sequence, value = _HEADER.unpack(frame)
    check_version(version)
    known = _KINDS.get(kind)
    if known is None:
        raise TransportError(f"a peer's frame has the unknown kind {kind}")
    return Header(known, attempt, ChannelId(edge, sender, receiver), sequence, value)


_KINDS = {int(kind): kind for kind in FrameKind}


def check_version(version: int) -> None:
    """Raise TransportError if a peer uses another version."""
    if version != WIRE_VERSION:
        raise TransportError(
            f"a peer uses version {version} of the protocol, but this worker {WIRE_VERSION}",
            hint="install the same version of Rheos on every worker",
        )


def mark_kind(mark: Mark) -> tuple[FrameKind, int]:
    """Return the kind and the value that encode a mark in a header."""
    match mark:
        case WatermarkMark(timestamp_ms):
            return FrameKind.WATERMARK, timestamp_ms
        case Barrier(checkpoint, _, kind):
            return (
                FrameKind.SAVEPOINT if kind is BarrierKind.SAVEPOINT else FrameKind.BARRIER,
                checkpoint,
            )
        case Idle():
            return FrameKind.IDLE, 0
        case Active():
            return FrameKind.ACTIVE, 0
        case End():
            return FrameKind.END, 0
        case IterationMark(number, quiet):
            return FrameKind.QUIET_LAP if quiet else FrameKind.LAP, number
        case LatencyMark(source, born_ms):
            return FrameKind.LATENCY, born_ms << _CHAIN_BITS | source


def mark_of(header: Header) -> Mark:
    match header.kind:
        case FrameKind.WATERMARK:
            return WatermarkMark(header.value)
        case FrameKind.BARRIER:
            return Barrier(CheckpointId(header.value), Attempt(header.attempt))
        case FrameKind.SAVEPOINT:
            return Barrier(CheckpointId(header.value), Attempt(header.attempt), BarrierKind.SAVEPOINT)
        case FrameKind.IDLE:
            return Idle()
        case FrameKind.ACTIVE:
            return Active()
        case FrameKind.END:
            return End()
        case FrameKind.LAP | FrameKind.QUIET_LAP:
            return IterationMark(header.value, quiet=header.kind is FrameKind.QUIET_LAP)
        case FrameKind.LATENCY:
            chain = header.value & ((1 << _CHAIN_BITS) - 1)
            return LatencyMark(ChainId(chain), header.value >> _CHAIN_BITS)
    raise TransportError(f"{header.kind.name} is not a marker")


def encode_batch(batch: Batch) -> pa.Buffer:
    return batch.serialize()


class BatchDecoder:
    """Decodes the batches of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._layout: pa.Schema | None = None
        """Memory layout of the columns without their meaning; None if no column has offsets."""
        if not all(pa.types.is_primitive(kind) for kind in schema.types):
            self._layout = pa.schema([field.with_type(_layout(field.type)) for field in schema])

    def decode(self, payload: memoryview | pa.Buffer) -> Batch:
        """Decode a batch that refers to the payload without a copy. Raise TransportError if the payload
        is not a batch of the schema, or has offsets outside of itself.

        Values are not validated. A program may have strings that are invalid UTF-8, and these must
        reach other subtasks just as they reach its own.
        """
        try:
            buffer = pa.py_buffer(payload)
            if self._layout is not None:
                pa.ipc.read_record_batch(buffer, self._layout).validate(full=True)
            batch = pa.ipc.read_record_batch(buffer, self._schema)
            batch.validate()
        except (pa.ArrowException, EOFError, OSError, ValueError) as error:
            raise TransportError(f"a peer's batch cannot be read: {error}") from error
        return batch


def _layout(kind: pa.DataType) -> pa.DataType:
    """Return a type with the same memory layout, for which every value is valid."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _layout(kind.storage_type)
    if types.is_string(kind):
        return pa.binary()
    if types.is_large_string(kind):
        return pa.large_binary()
    if types.is_string_view(kind):
        return pa.binary_view()
    if types.is_decimal(kind):
        return pa.binary(kind.byte_width)
    if types.is_date(kind) or types.is_time(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_layout(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_layout(kind.key_type), _layout(kind.item_type))
    if types.is_large_list(kind):
        return pa.large_list(_layout(kind.value_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(_layout(kind.value_type), kind.list_size)
    if types.is_list(kind):
        return pa.list_(_layout(kind.value_type))
    return kind


def encode_credit(token: bytes, attempt: Attempt, edge: int, count: int) -> bytes:
    return _CREDIT.pack(token, attempt, edge, count)


def decode_credit(frame: bytes) -> tuple[int, int, int]:
    """Return (attempt, edge, count) of a frame that has the job's token. Raise TransportError."""
    if len(frame) != _CREDIT.size:
        raise TransportError(f"a peer's credit has {len(frame)} bytes, not {_CREDIT.size}")
    _, attempt, edge, count = _CREDIT.unpack(frame)
    return attempt, edge, count
