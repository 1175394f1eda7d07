"""How rows travel between the steps of Spark's plan, without losing anything.

*Rows* go through Spark's shuffle and sort: a Spark column for each of ours, and a few before them.
Spark's types are poorer than Arrow's (a timestamp in ms would come back in us, a time not at all), so
a column travels as a *wire* type that holds its bits, and is cast back behind the shuffle.

*Packed* batches go from step to step within a partition, or wait in Spark's cache: one Spark row holds
a whole batch as an Arrow stream, and nothing can be lost.

*Combined* state goes through a shuffle in the place of rows that windows would add up: one Spark row
holds the state that a task has for a range of key groups (see `combining.py`).

All also carry *notes*: what a subtask has to tell the driver (see `notes.py`). They ride along with
the rows, so a task that Spark repeats tells its tale just once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.protocol.elements import Batch

NOTE_PORT = -1
"""The port of a packed note."""

NOTE_STATE = -1
"""The state of a combined row that is a note. Notes come before all states."""

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
"""The column that all keyed state has."""

KEY_HASH = "key_hash"
ARRIVAL = "arrival"

ROUTING = [
    pa.field("note", pa.binary()),
    pa.field(KEY_HASH, pa.int64(), False),
    pa.field(ARRIVAL, pa.int64(), False),
]
"""The columns before our own: a note, or null for a row; the hash of its key, by which it is shuffled;
and its place in the order of arrival: by the partition it came from, and the position in that."""

_POSITIONS = 40
"""How many bits of an arrival are the position. Partitions have 23."""

_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def wire_type(kind: pa.DataType) -> pa.DataType | None:
    """The type that takes a column's place in Spark: `cast` leads there and back and loses nothing.

    None for a type that has no such place; its column travels packed, row by row.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return None
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return wire_type(kind.value_type)
    if pa.types.is_boolean(kind) or pa.types.is_date32(kind) or pa.types.is_float32(kind):
        return kind
    if pa.types.is_float64(kind) or (pa.types.is_decimal128(kind) and kind.scale >= 0):
        return kind
    if pa.types.is_integer(kind):
        return _INTEGERS[kind.bit_width]
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_date64(kind):
        return pa.int64()
    if pa.types.is_time(kind):
        return _INTEGERS[kind.bit_width]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    return _nested_wire_type(kind)


def _nested_wire_type(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_map(kind):
        key, item = wire_type(kind.key_type), wire_type(kind.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        value = wire_type(kind.value_type)
        return None if value is None else pa.list_(value)
    if pa.types.is_struct(kind):
        fields = [(field.name, wire_type(field.type)) for field in kind]
        distinct = {name.lower() for name, _ in fields}
        if fields and len(distinct) == len(fields) and all(child is not None for _, child in fields):
            return pa.struct(fields)
    return None


class RowLayout:
    """The layout of the rows of one schema (hidden columns included) on their way through a shuffle.

    Columns are named by their place, since Spark does not tell `a` from `A`.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.names: list[str] = schema.names
        self._kinds = [wire_type(field.type) for field in schema]
        self.columns = [f"c{i}" for i in range(len(schema))]
        self.wire = pa.schema(
            ROUTING
            + [
                pa.field(name, kind or pa.binary())
                for name, kind in zip(self.columns, self._kinds, strict=True)
            ]
        )

    def column(self, name: str) -> str:
        """Spark's name of one of our columns."""
        index: int = self._schema.get_field_index(name)
        return self.columns[index]

    def rows(
        self, batch: Batch, hashes: npt.NDArray[np.uint64], partition: int, position: int
    ) -> pa.RecordBatch:
        """The wire rows of a batch, its first row being number `position` of the partition."""
        n = batch.num_rows
        first = (partition << _POSITIONS) + position
        routing = [
            pa.nulls(n, pa.binary()),
            pa.array(hashes.view(np.int64)),
            pa.array(np.arange(first, first + n)),
        ]
        columns = [
            _pack_rows(column) if kind is None else _cast(column, kind)
            for column, kind in zip(batch.columns, self._kinds, strict=True)
        ]
        return pa.RecordBatch.from_arrays(routing + columns, schema=self.wire)

    def note(self, note: bytes) -> pa.RecordBatch:
        """The wire row of a note. It goes where a key of hash 0 goes."""
        routing = [pa.array([note], pa.binary())]
        routing += [pa.array([0], field.type) for field in ROUTING[1:]]
        columns = [pa.nulls(1, field.type) for field in list(self.wire)[len(ROUTING) :]]
        return pa.RecordBatch.from_arrays(routing + columns, schema=self.wire)

    def batch(self, rows: pa.RecordBatch) -> Batch:
        """Our batch, from wire rows that are no notes."""
        columns = [
            _unpack_rows(column, field.type) if kind is None else _cast(column, field.type)
            for column, kind, field in zip(
                rows.columns[len(ROUTING) :], self._kinds, self._schema, strict=True
            )
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    elif pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pa.types.is_date64(column.type) or pa.types.is_date64(kind):
        return column.view(kind)
    # Unsigned integers keep their bits.
    return column.cast(kind, safe=False)


def _pack_rows(column: pa.Array) -> pa.Array:
    """Each value as an Arrow stream of its own; for the rare types that have no other place."""
    packed = []
    for i in range(len(column)):
        value = pa.record_batch([column.slice(i, 1)], names=["v"])
        packed.append(pack(value) if column[i].is_valid else None)
    return pa.array(packed, pa.binary())


def _unpack_rows(column: pa.Array, kind: pa.DataType) -> pa.Array:
    pieces = [
        pa.nulls(1, kind) if not value.is_valid else unpack(value.as_buffer()).column(0)
        for value in column
    ]
    return pa.concat_arrays(pieces) if pieces else pa.nulls(0, kind)


def pack(batch: Batch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpack(payload: pa.Buffer) -> Batch:
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_next_batch()


def packed_row(port: int, payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([port], pa.int32()), pa.array([payload], pa.binary())], schema=PACKED
    )


def packed_rows(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.Buffer]]:
    """The ports and payloads of packed rows."""
    for port, payload in zip(rows.column("port").to_pylist(), rows.column("payload"), strict=True):
        yield port, payload.as_buffer()


def combined_row(bucket: int, state: int, payload: bytes) -> pa.RecordBatch:
    arrays = [
        pa.array([value], field.type)
        for value, field in zip((bucket, state, payload), COMBINED, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=COMBINED)


def combined_rows(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.Buffer]]:
    """The states and payloads of combined rows."""
    for state, payload in zip(rows.column("state").to_pylist(), rows.column("payload"), strict=True):
        yield state, payload.as_buffer()
