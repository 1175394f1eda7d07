"""Messages of a partition as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.connectors.message_chunks import MessageChunk, MessagePosition
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.pulsar.positions import MessageNumber
from rheos.core.connectors.rejected_records import rejected_schema
from rheos.core.formats.contract import Decoder

REJECTED = rejected_schema(
    pa.field("partition", pa.string(), nullable=False),
    pa.field("message_id", pa.string(), nullable=False),
)
_TIME = pa.timestamp("us", "UTC")
_PROPERTY = pa.struct(
    [pa.field("name", pa.string(), nullable=False), pa.field("value", pa.string(), nullable=False)]
)
FIELDS: Mapping[str, pa.DataType] = {
    "key": pa.string(),
    "event_time": _TIME,
    "timestamp": _TIME,
    "properties": pa.list_(_PROPERTY),
    "producer": pa.string(),
    "partition": pa.string(),
    "message_id": pa.string(),
}
"""Fields of a message that may be columns."""
OPTIONAL = ("key", "event_time")
"""Fields that a message may lack."""


def _properties(message: Any) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in message.properties().items()]


_VALUES: Mapping[str, Callable[[Any], Any]] = {
    "key": lambda message: message.partition_key() or None,
    "event_time": lambda message: 1000 * message.event_timestamp() or None,
    "timestamp": lambda message: 1000 * message.publish_timestamp(),
    "properties": _properties,
    "producer": lambda message: message.producer_name(),
    "partition": lambda message: message.topic_name(),
    "message_id": lambda message: str(MessageNumber.of(message.message_id())),
}


def decoded_chunk(
    decoding: PayloadDecoding,
    partition: str,
    messages: Sequence[Any],
    decoder: Decoder,
    before: MessagePosition,
) -> MessageChunk:
    """Return the rows of the client's messages, as `PayloadDecoding.chunk` does."""
    numbers = [MessageNumber.of(message.message_id()) for message in messages]
    return decoding.chunk(
        partition,
        np.array(numbers, dtype=object),
        [None if message.has_null_value() else message.data() for message in messages],
        partial(_column, messages=messages),
        decoder,
        before,
    )


def _column(name: str, messages: Sequence[Any]) -> pa.Array:
    return pa.array(map(_VALUES[name], messages), FIELDS[name])
