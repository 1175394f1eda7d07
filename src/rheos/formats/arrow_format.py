"""Arrow IPC: a payload is a whole stream, a schema followed by any number of rows.

This is the fastest format: rows are not decoded or copied. Columns are found by name and must have the
types of the schema; strings and bytes may also be dictionary-encoded, or views. Compressed buffers are
refused, because they can claim any size: let the transport compress.

    >>> import pyarrow as pa
    >>> from rheos import formats
    >>> schema = pa.schema([("user", pa.int64())])
    >>> arrow = formats.arrow(rows_per_payload=2)
    >>> payloads = arrow.encoder(schema).encode(pa.record_batch({"user": [1, 2, 3]}))
    >>> decoded = arrow.decoder(schema).decode(payloads)
    >>> decoded.rows.column(0).to_pylist(), decoded.origin.tolist()
    ([1, 2, 3], [0, 0, 1])
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import ProgramError, SchemaError
from rheos.core.formats.contract import (
    MAX_PAYLOAD_BYTES,
    BadPayload,
    Decoded,
    Decoder,
    Encoder,
    Format,
    check_any_column,
)
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call
from rheos.formats.bad_rows import RowsError
from rheos.formats.registration import FormatRegistration

_PLAIN = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_temporal,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
MAX_ROWS = 1 << 24
"""Maximum number of rows of one payload. A byte could hold eight rows of a boolean column, but each row
takes many bytes in addition to its columns."""
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
"""Types of messages in Arrow's Message.fbs."""


@located_at_call
def arrow(*, rows_per_payload: int = 1000) -> ArrowFormat:
    """Create the format for Arrow: a payload is an Arrow IPC stream of one or more rows.

    This is the fastest format, if both sides support it.

    ```python
    events.sink_to(rh.kafka.sink("events", brokers="localhost:9092", format=rh.formats.arrow()))
    ```

    Args:
        rows_per_payload: Maximum number of rows that are written into one payload. A sink that needs a
            key for each record (Kafka with `key=`) needs 1. Payloads of up to 16,777,216 rows are read.

    Returns:
        The format, for the `format=` of a connector.

    Raises:
        ProgramError: `rows_per_payload` is less than 1.
    """
    if not 1 <= rows_per_payload <= MAX_ROWS:
        raise ProgramError(
            f"rows_per_payload must be at least 1, not {rows_per_payload}",
            hint=f"pass 1 or more, up to {MAX_ROWS}",
        )
    return ArrowFormat(rows_per_payload)


@dataclass(frozen=True)
class ArrowFormat(Format):
    """Format that `arrow` creates."""

    rows_per_payload: int = 1000

    name: ClassVar[str] = "arrow"

    def check_decodes(self, schema: pa.Schema) -> None:
        check_any_column(schema, self.name)
        for field in schema:
            if not _holds(field.type):
                raise SchemaError(
                    f"column {field.name!r} of type {field.type} cannot be read from Arrow streams",
                    hint="cast it to a number, a string, bytes, a time, or to lists and structs of "
                    "these",
                )

    def check_encodes(self, schema: pa.Schema) -> None:
        self.check_decodes(schema)

    def decoder(self, schema: pa.Schema, header: bytes | None = None) -> Decoder:
        return _ArrowDecoder(schema)

    def encoder(self, schema: pa.Schema) -> Encoder:
        return _ArrowEncoder(self.rows_per_payload)


def _holds(kind: pa.DataType) -> bool:
    """Return whether each value uses at least one bit, so that bytes bound the rows."""
    if pa.types.is_fixed_size_binary(kind):
        return bool(kind.byte_width > 0)
    if pa.types.is_fixed_size_list(kind):
        return kind.list_size > 0 and _holds(kind.value_type)
    if pa.types.is_dictionary(kind):
        return _holds(kind.value_type)
    nested = pa.types.is_struct(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if nested or pa.types.is_map(kind):
        parts = [kind.field(i).type for i in range(kind.num_fields)]
        return bool(parts) and all(map(_holds, parts))
    return any(is_a(kind) for is_a in _PLAIN)


class _ArrowDecoder(Decoder):
    def _decode(self, payloads: pa.Array) -> Decoded:
        pieces: list[Batch] = []
        rows = np.zeros(len(payloads), np.int64)
        bad: list[BadPayload] = []
        for place, payload in enumerate(payloads):
            try:
                read = self._read(payload.as_buffer())
            except RowsError as error:
                bad.append(BadPayload(place, payload.as_py(), str(error)))
                continue
            pieces += read
            rows[place] = sum(piece.num_rows for piece in read)
        if pieces:
            batch = pa.concat_batches(pieces)
        else:
            batch = pa.RecordBatch.from_pylist([], schema=self.schema)
        one_each = bool((rows == 1).all())
        return Decoded(batch, None if one_each else np.repeat(np.arange(len(payloads)), rows), bad)

    def _read(self, payload: pa.Buffer) -> list[Batch]:
        """Return the batches of one stream. Raises RowsError."""
        try:
            _check_uncompressed(payload)
            source = pa.BufferReader(payload)
            with pa.ipc.open_stream(source) as reader:
                read = list(reader)
                _check_size(read, payload.size)
                batches = [self._fitted(batch) for batch in read]
        except (pa.ArrowException, OSError, ValueError, struct.error) as error:
            raise RowsError(f"it is not a complete Arrow stream: {error}") from None
        if source.tell() != payload.size:
            raise RowsError("it has bytes after the end of its Arrow stream")
        return batches

    def _fitted(self, batch: Batch) -> Batch:
        columns = []
        for field in self.schema:
            places = batch.schema.get_all_field_indices(field.name)
            if len(places) != 1:
                raise RowsError(
                    f"it has {len(places) or 'no'} column{'s' * bool(places)} {field.name!r}"
                )
            column = batch.column(places[0])
            column.validate(full=True)
            columns.append(_typed(column, field))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _typed(column: pa.Array, field: pa.Field) -> pa.Array:
    if not field.nullable and column.null_count:
        raise RowsError(f"column {field.name!r} holds a null")
    if column.type == field.type:
        if _expanded_in_dictionaries(column) > MAX_PAYLOAD_BYTES:
            raise _too_long(field)
        return column
    wanted, kind = field.type, column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    binaries = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    related = any(
        any(is_a(kind) for is_a in kinds) and any(is_a(wanted) for is_a in kinds)
        for kinds in (texts, binaries)
    )
    if not related:
        raise RowsError(f"column {field.name!r} is {column.type}, but the schema declares {field.type}")
    if _expanded_bytes(column) > MAX_PAYLOAD_BYTES:
        raise _too_long(field)
    return column.cast(wanted)


def _too_long(field: pa.Field) -> RowsError:
    return RowsError(f"column {field.name!r} exceeds {MAX_PAYLOAD_BYTES} bytes when expanded")


def _expanded_in_dictionaries(column: pa.Array) -> int:
    """Return the bytes of the strings of dictionary columns after expansion."""
    t = pa.types
    kind = column.type
    if t.is_dictionary(kind):
        texts = any(
            is_a(kind.value_type)
            for is_a in (t.is_string, t.is_large_string, t.is_binary, t.is_large_binary)
        )
        return _expanded_bytes(column) if texts else 0
    if t.is_struct(kind):
        return sum(map(_expanded_in_dictionaries, column.flatten()))
    if t.is_map(kind):
        return sum(map(_expanded_in_dictionaries, (column.keys, column.items)))
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return _expanded_in_dictionaries(column.flatten())
    return 0


def _expanded_bytes(column: pa.Array) -> int:
    """Return the total size of the column's values. A value counts at every reference to it."""
    if pa.types.is_dictionary(column.type):
        lengths = pc.binary_length(column.dictionary)
        return pc.sum(lengths.take(column.indices)).as_py() or 0
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        # A view is 16 bytes, of which the first four are its length.
        views = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, 4)
        sizes = views[column.offset : column.offset + len(column), 0].astype(np.int64)
        return int(sizes[column.is_valid().to_numpy(zero_copy_only=False)].sum())
    return pc.sum(pc.binary_length(column)).as_py() or 0


class _ArrowEncoder(Encoder):
    def __init__(self, rows_per_payload: int) -> None:
        self._rows_per_payload = rows_per_payload

    def encode(self, rows: Batch) -> pa.Array:
        payloads = []
        for start in range(0, rows.num_rows, self._rows_per_payload):
            out = pa.BufferOutputStream()
            with pa.ipc.new_stream(out, rows.schema) as stream:
                stream.write_batch(rows.slice(start, self._rows_per_payload))
            payloads.append(out.getvalue().to_pybytes())
        return pa.array(payloads, pa.binary())


def _check_size(batches: list[Batch], size_bytes: int) -> None:
    """Raise RowsError if there are more rows than bits: columns without buffers could declare any
    number of rows."""
    rows = sum(batch.num_rows for batch in batches)
    if rows > min(8 * size_bytes, MAX_ROWS):
        raise RowsError(f"it announces {rows} rows in {size_bytes} bytes")


def _check_uncompressed(payload: pa.Buffer) -> None:
    for message in pa.ipc.MessageReader.open_stream(payload):
        metadata = message.metadata.to_pybytes()
        table = _indirect(metadata, 0)
        [kind] = _field(metadata, table, 1, "B") or (0,)
        batch = _table(metadata, table, 2)
        if kind == _DICTIONARY_BATCH and batch is not None:
            batch = _table(metadata, batch, 1)
        elif kind != _RECORD_BATCH:
            continue
        if batch is not None and _table(metadata, batch, 3) is not None:
            raise RowsError("its buffers are compressed, so their size is unknown")


# Readers of flatbuffers, as far as needed above. They raise struct.error beyond the end.


def _indirect(data: bytes, at: int) -> int:
    [offset] = struct.unpack_from("<I", data, at)
    return at + int(offset)


def _table(data: bytes, table: int, field: int) -> int | None:
    at = _place(data, table, field)
    return None if at is None else _indirect(data, at)


def _field(data: bytes, table: int, field: int, code: str) -> tuple[Any, ...] | None:
    at = _place(data, table, field)
    return None if at is None else struct.unpack_from(f"<{code}", data, at)


def _place(data: bytes, table: int, field: int) -> int | None:
    [back] = struct.unpack_from("<i", data, table)
    layout = table - back
    [size] = struct.unpack_from("<H", data, layout)
    if 4 + 2 * field >= size:
        return None
    [offset] = struct.unpack_from("<H", data, layout + 4 + 2 * field)
    return table + int(offset) if offset else None


FORMAT = FormatRegistration(
    name="arrow",
    title="Arrow IPC",
    function=f"{__name__}:arrow",
    docs="types.md",
)
