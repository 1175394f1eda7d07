"""The rows of a keyed edge in Spark's shuffle.

A *bucket* is a range of hashes. The sender's task hashes the key of each row, gathers rows, and packs
the rows of a bucket into one Spark row. Spark shuffles these, and sorts them by bucket and arrival. The
receiver's task sorts the rows of one bucket after the other, by hash and event time. So its output is
sorted by hash as a whole.

    rows ─ hashed, packed by bucket ═ shuffle ═ bucket 0 ─ sorted ─┐
                                                bucket 1 ─ sorted ─┴─ rows by hash and event time

Rows with equal hash and event time stay in the order of arrival: by their partition of origin, and
their order in it. A bucket that is too large for memory, such as a hot key's, is sorted on disk.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.protocol.columns import plain_type
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.hashing import NullKeyError, hash_keys
from rheos.core.protocol.state_config import MIB
from rheos.runtimes.batch.keyed_input import ROWS_AT_ONCE, BatchBuffer
from rheos.runtimes.batch.layout import HASH, NOTE_BUCKET, arrival, keyed_rows
from rheos.runtimes.batch.outlets import Outlet, Rows
from rheos.runtimes.batch.sorted_runs import Order, SortedRuns
from rheos.runtimes.batch.tasks import RowsOutput

BUDGET_BYTES = 64 * MIB
"""Size in bytes above which a bucket is sorted on disk."""

_GATHERED_VALUES = 1 << 18
"""A sixteenth of the 8-byte values that a task gathers."""

_LEAVING_BYTES = 4 * MIB
"""Size in bytes at which packed rows are sent."""


def bucket_bits(partitions: int, columns: int) -> int:
    """Return the number of bits of a bucket's number: hashes are divided into 2 to this power of
    buckets. There are 16 per partition, so that partitions are about equal, but 512 to 8,192. With many
    columns there are fewer: a task then gathers fewer rows, and each bucket should contain some of
    them."""
    most = min(max((_GATHERED_VALUES // max(columns, 1)).bit_length() - 1, 9), 13)
    return min(max((16 * partitions - 1).bit_length(), 9), most)


# --- the sender -----------------------------------------------------------------------------------


class BucketOutlet(Outlet):
    """An outlet that hashes the keys of rows, and packs the rows by bucket."""

    def __init__(self, output: RowsOutput, partition: int, rows_at_once: int = ROWS_AT_ONCE) -> None:
        self._keys = output.edge.keys
        self._keyed_at = output.edge.keyed_at
        self._bits = output.bucket_bits
        self._schema = hashed_schema(output.schema)
        self._partition = partition
        self._position = 0
        self._gathered = BatchBuffer(rows_at_once)

    def rows(self, edge: int, batch: Batch) -> Rows:
        try:
            hashes = hash_keys([batch.column(key) for key in self._keys])
        except NullKeyError as error:
            raise error.located_in(batch, self._keys, self._keyed_at) from None
        columns = [pa.array(hashes.view(np.int64)), *batch.columns]
        if self._gathered.add(_converted(columns, self._schema)):
            yield from self.finish()

    def finish(self) -> Rows:
        gathered = self._gathered.take()
        if gathered:
            yield from self._packed(gathered)

    def _packed(self, gathered: list[pa.RecordBatch]) -> Rows:
        rows = pa.concat_batches(gathered)
        gathered.clear()
        buckets = _buckets(rows.column(HASH).to_numpy(), self._bits)
        rows = rows.take(pa.array(np.argsort(buckets, kind="stable")))
        counts = np.bincount(buckets)
        begins = np.cumsum(counts) - counts
        arrived = arrival(self._partition, self._position)
        self._position += rows.num_rows
        packed: list[tuple[int, int, bytes]] = []
        size_bytes = 0
        for bucket in np.flatnonzero(counts).tolist():
            payload = rows.slice(begins[bucket], counts[bucket]).serialize().to_pybytes()
            packed.append((bucket, arrived, payload))
            size_bytes += len(payload)
            if size_bytes >= _LEAVING_BYTES:
                yield keyed_rows(packed)
                packed, size_bytes = [], 0
        if packed:
            yield keyed_rows(packed)

    def note(self, note: bytes) -> Rows:
        yield keyed_rows([(NOTE_BUCKET, 0, note)])


def _buckets(hashes: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.uint16]:
    """Return the bucket of each hash. Buckets have the order of hashes."""
    ranges: npt.NDArray[np.int64] = (hashes >> (64 - bits)) + (1 << (bits - 1))
    return ranges.astype(np.uint16)


# --- the receiver ---------------------------------------------------------------------------------


class SortedBuckets:
    """A sorter of buckets' rows, which arrive bucket by bucket."""

    def __init__(self, order: Order, folder: str, budget_bytes: int = BUDGET_BYTES) -> None:
        self._order = order
        self._runs = SortedRuns(order, folder)
        self._budget_bytes = budget_bytes
        self._bucket = NOTE_BUCKET
        self._waiting: list[pa.RecordBatch] = []
        self._size_bytes = 0

    def take(self, bucket: int, rows: pa.RecordBatch, size_bytes: int) -> Iterator[pa.RecordBatch]:
        """Take hashed rows. If they begin a new bucket, yield the rows of the previous one. Takes them
        only as the iterator is read."""
        if bucket != self._bucket:
            yield from self.end()
            self._bucket = bucket
        self._waiting.append(rows)
        self._size_bytes += size_bytes
        if self._size_bytes > self._budget_bytes:
            self._runs.add(self._take_sorted())

    def end(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the last bucket."""
        if self._waiting and not self._runs:
            yield self._take_sorted()
        elif self._runs:
            if self._waiting:
                self._runs.add(self._take_sorted())
            yield from self._runs.merged()

    def _take_sorted(self) -> pa.RecordBatch:
        waiting, self._waiting, self._size_bytes = self._waiting, [], 0
        rows = pa.concat_batches(waiting)
        del waiting
        return self._order.sorted(rows)


def without_hashes(rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[Batch]:
    """Yield our batches of hashed rows. A batch is divided if a dictionary's narrow indices, or narrow
    run ends, cannot cover all its rows."""
    return converted(rows.select(range(1, rows.num_columns)), schema)


def converted(rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[Batch]:
    """Yield our batches of shuffled rows; see `without_hashes`."""
    try:
        yield _converted(rows.columns, schema)
    except pa.ArrowInvalid:
        half = rows.num_rows // 2
        if not half:
            raise
        yield from converted(rows.slice(0, half), schema)
        yield from converted(rows.slice(half), schema)


# --- types of columns in the shuffle --------------------------------------------------------------


def hashed_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema in which rows of these columns are shuffled."""
    fields = [_plain_field(field) for field in schema]
    return pa.schema([pa.field(HASH, pa.int64(), False), *fields])


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a plain type for one whose rows Arrow cannot reorder, or would send together with the
    values of all other rows."""
    if isinstance(kind, pa.BaseExtensionType):
        storage = _plain(kind.storage_type)
        return kind if storage == kind.storage_type else storage
    kind = plain_type(kind)
    if pa.types.is_map(kind):
        key, item = _plain_field(kind.key_field), _plain_field(kind.item_field)
        return pa.map_(key, item, keys_sorted=kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_field(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    return pa.struct([_plain_field(field) for field in kind]) if pa.types.is_struct(kind) else kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain(field.type))


def _converted(columns: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    cast = [
        column if column.type == field.type else _cast(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(cast, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast to the plain type or back. Arrow's own casts support only dictionaries of strings."""
    if isinstance(column, pa.DictionaryArray):
        return column.dictionary.cast(kind).take(column.indices)
    if pa.types.is_run_end_encoded(column.type):
        return pc.run_end_decode(column).cast(kind)
    if pa.types.is_dictionary(kind):
        encoded = column.dictionary_encode()
        indices, values = (
            encoded.indices.cast(kind.index_type),
            encoded.dictionary.cast(kind.value_type),
        )
        return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered)
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(column.cast(kind.value_type), run_end_type=kind.run_end_type)
    return column.cast(kind)
