"""Messages of a stream as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from rheos.connectors.message_chunks import MessageChunk, MessagePosition
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.nats.stream_pull import StreamMessage
from rheos.core.connectors.rejected_records import rejected_schema
from rheos.core.formats.contract import Decoder

REJECTED = rejected_schema(
    pa.field("stream", pa.string(), nullable=False), pa.field("sequence", pa.int64(), nullable=False)
)
FIELDS: Mapping[str, pa.DataType] = {
    "sequence": pa.int64(),
    "subject": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}
"""Fields of a message that may be columns."""


def decoded_chunk(
    decoding: PayloadDecoding,
    stream: str,
    messages: Sequence[StreamMessage],
    decoder: Decoder,
    before: MessagePosition,
) -> MessageChunk:
    """Return the rows of messages, as `PayloadDecoding.chunk` does."""
    numbers = np.fromiter((each.number for each in messages), np.int64, len(messages))
    payloads = [each.payload for each in messages]
    return decoding.chunk(
        stream, numbers, payloads, partial(_column, messages=messages), decoder, before
    )


def _column(name: str, messages: Sequence[StreamMessage]) -> pa.Array:
    if name == "sequence":
        return pa.array([each.number for each in messages], pa.int64())
    if name == "subject":
        return pa.array([each.subject for each in messages], pa.string())
    return pa.array([each.time_ns // 1000 for each in messages], FIELDS[name])
