"""Records of a shard as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.connectors.kinesis.aggregates import (
    BadAggregateError,
    HashRange,
    PackedRecord,
    is_aggregate,
    packed_records,
)
from rheos.connectors.message_chunks import MessageChunk, MessagePosition
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.core.connectors.rejected_records import rejected_schema
from rheos.core.errors import InputError
from rheos.core.formats.contract import Decoder

REJECTED = rejected_schema(
    pa.field("shard", pa.string(), nullable=False),
    pa.field("sequence_number", pa.string(), nullable=False),
)
FIELDS: Mapping[str, pa.DataType] = {
    "partition_key": pa.string(),
    "sequence_number": pa.string(),
    "shard": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}
"""Fields of a record that may be columns."""


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """One record of a shard."""

    number: int
    """Sequence number."""
    time_us: int
    """Time at which the service has stored it."""
    partition_key: str
    payload: bytes

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> ShardRecord:
        """Create a record from an answer of the service."""
        return cls(
            int(record["SequenceNumber"]),
            round(record["ApproximateArrivalTimestamp"].timestamp() * 1_000_000),
            str(record["PartitionKey"]),
            bytes(record["Data"]),
        )


def decoded_chunk(
    decoding: PayloadDecoding,
    shard: str,
    own: HashRange,
    records: Sequence[ShardRecord],
    decoder: Decoder,
    before: MessagePosition,
) -> MessageChunk:
    """Return the rows of records, as `PayloadDecoding.chunk` does.

    Args:
        decoding: How they are decoded.
        shard: Id of their shard.
        own: Hashes of the shard.
        records: The records, of which there is at least one. Some may be aggregates.
        decoder: A decoder of this configuration.
        before: The position before them.

    Returns:
        Their rows.

    Raises:
        InputError: One cannot be decoded, and `on_error` is "fail"; or an aggregate is damaged.
    """
    unpacked = [_unpacked(each, shard, own) for each in records]
    counts = np.fromiter(map(len, unpacked), np.int64, len(unpacked))
    holders = np.repeat(np.arange(len(records)), counts)
    packed = [each for some in unpacked for each in some]
    numbers = np.empty(len(records), object)
    numbers[:] = [each.number for each in records]
    field = partial(_column, shard=shard, packed=packed, of=[records[at] for at in holders.tolist()])
    payloads = [each.payload for each in packed]
    return decoding.chunk(shard, numbers, payloads, field, decoder, before, holders)


def _unpacked(record: ShardRecord, shard: str, own: HashRange) -> list[PackedRecord]:
    if not is_aggregate(record.payload):
        return [PackedRecord(record.partition_key, record.payload)]
    try:
        return packed_records(record.payload, own)
    except BadAggregateError as error:
        raise InputError(
            f"{shard}@{record.number}: {error}",
            hint="it has the form of the Kinesis Producer Library, but another program has written it. "
            "Start after it: start= takes a datetime",
        ) from None


def _column(
    name: str, shard: str, packed: Sequence[PackedRecord], of: Sequence[ShardRecord]
) -> pa.Array:
    match name:
        case "partition_key":
            return pa.array([each.partition_key for each in packed], pa.string())
        case "sequence_number":
            return pa.array([str(each.number) for each in of], pa.string())
        case "shard":
            return pa.array([shard] * len(of), pa.string())
        case _:
            return pa.array([each.time_us for each in of], FIELDS[name])
