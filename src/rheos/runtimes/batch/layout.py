"""The layout of rows between the steps of Spark's plan: Arrow's own bytes, many rows in one Spark row.

So no value changes. Spark has fewer types than Arrow. Converting rows to Spark's types, sorting them
and converting them back takes longer than the steps in between.

*Packed* batches go from step to step within a partition, or wait in Spark's cache.

*Keyed* rows go through a shuffle by the hash of their key. One Spark row holds the rows that a task has
for a range of hashes (see `buckets.py`).

*Combined* state goes through a shuffle instead of the rows that windows would aggregate. One Spark row
holds the state that a task has for a range of key groups (see `combining.py`).

Each layout also carries *notes*: reports of a subtask to the driver (see `task_notes.py`). They travel
with the rows, so a task that Spark repeats reports only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, repeat

import pyarrow as pa

from rheos.core.protocol.elements import Batch

NOTE_PORT = -1
"""Port of a packed note."""

LANE_BITS = 16
"""Number of low bits in a packed row's port that hold the edge's port, if rows are distributed by
number. The bits above hold that number."""

FIRST_RESULT_PORT = -2
"""Port of packed rows that the driver collects for the first sink. The ports of others are below."""

NOTE_STATE = -1
"""State number of a combined row that is a note. Notes precede all states."""

COMBINED = pa.schema(
    [
        pa.field("bucket", pa.int32(), False),
        pa.field("state", pa.int32(), False),
        pa.field("payload", pa.binary(), False),
    ]
)
"""A range of key groups, the number of a state, and an Arrow stream of its rows."""

PACKED = pa.schema([pa.field("port", pa.int32(), False), pa.field("payload", pa.binary(), False)])

KEY_GROUP = "key_group"
"""Name of the column that all keyed state has."""

HASH = "__hash"
"""Name of the column with a row's hash in a shuffle."""

NOTE_BUCKET = -1
"""Bucket of a keyed row that is a note. Notes precede all buckets."""

ANY_BUCKET = -2
"""Bucket of a packed row among keyed ones, for a port without a key."""

BROADCAST_BUCKET = -3
"""Bucket of a packed row for a broadcast port. Such rows precede all others."""

SEED_BUCKET = -4
"""Bucket of a row without content. It makes Spark start a task although no row arrives."""

SHARE = "share"
"""Name of the column with the receiving task of a broadcast row."""

KEYED = pa.schema(
    [
        pa.field("bucket", pa.int32(), False),
        pa.field("arrival", pa.int64(), False),
        pa.field("payload", pa.binary(), False),
    ]
)
"""A range of hashes, the rows' place in the order of arrival, and the rows. The place is the partition
of origin and the position in it. The rows are an Arrow record batch whose schema the receiver knows."""

_POSITIONS = 40
"""Number of bits of an arrival that hold the position. The partition has the other 23."""


def arrival(partition: int, position: int) -> int:
    return (partition << _POSITIONS) + position


def unpack(payload: pa.Buffer) -> Batch:
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_next_batch()


def packed_row(port: int, payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([port], pa.int32()), pa.array([payload], pa.binary())], schema=PACKED
    )


def combined_row(bucket: int, state: int, payload: bytes) -> pa.RecordBatch:
    arrays = [
        pa.array([value], field.type)
        for value, field in zip((bucket, state, payload), COMBINED, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=COMBINED)


def keyed_rows(rows: Iterable[tuple[int, int, bytes]]) -> pa.RecordBatch:
    """Return keyed rows made of buckets, arrivals and payloads."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, KEYED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=KEYED)


def share_of(inbox: Iterator[pa.RecordBatch]) -> tuple[int | None, Iterator[pa.RecordBatch]]:
    """Return the share of the rows, and all rows; None if there are no rows, or no shares."""
    first = next(inbox, None)
    if first is None:
        return None, inbox
    has_share = SHARE in first.schema.names and first.num_rows > 0
    return first.column(SHARE)[0].as_py() if has_share else None, chain([first], inbox)


def of_one_share(inbox: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows, and check that they all belong to one share. With two shares in one task, the
    task would have every broadcast row twice."""
    shares: set[int] = set()
    for rows in inbox:
        if SHARE in rows.schema.names:
            shares.update(rows.column(SHARE).to_pylist())
            assert len(shares) <= 1, f"Spark put the shares {sorted(shares)} into one partition"
        yield rows


def port_payloads(rows: pa.RecordBatch) -> Iterator[tuple[int, int, pa.Buffer]]:
    """Yield bucket, port and payload of each keyed row. The port is 0 if there is only one."""
    ports = rows.column("port").to_pylist() if "port" in rows.schema.names else repeat(0)
    buckets = rows.column("bucket").to_pylist()
    for bucket, port, payload in zip(buckets, ports, rows.column("payload"), strict=False):
        yield bucket, port, payload.as_buffer()


def payloads(rows: pa.RecordBatch, by: str) -> Iterator[tuple[int, pa.Buffer]]:
    """Yield the value of the column `by` and the payload of each row, in any layout."""
    for label, payload in zip(rows.column(by).to_pylist(), rows.column("payload"), strict=True):
        yield label, payload.as_buffer()
