"""Messages of a stream as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.connectors.message_chunks import MessageChunk, MessagePosition, message_chunk
from rheos.connectors.nats.stream_pull import StreamMessage
from rheos.core.connectors.rejected_records import OnError, rejected_schema
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.formats.contract import Decoder, Format

REJECTED = rejected_schema(
    pa.field("stream", pa.string(), nullable=False), pa.field("sequence", pa.int64(), nullable=False)
)
FIELDS: Mapping[str, pa.DataType] = {
    "sequence": pa.int64(),
    "subject": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}
"""Fields of a message that may be columns."""


@dataclass(frozen=True)
class NatsDecoding:
    """Configuration for decoding messages into rows."""

    format: Format
    schema: pa.Schema
    """Schema of the rows that are returned."""
    payload: pa.Schema
    """Columns that are decoded from the payload."""
    metadata: tuple[tuple[str, str], ...]
    """Fields of a message, and the columns that contain them."""
    on_error: OnError

    @classmethod
    def of(cls, format: Format, rows: pa.Schema, metadata: Any, on_error: OnError) -> NatsDecoding:
        """Create the configuration. Raises ProgramError or SchemaError."""
        hint = f'write metadata={{"timestamp": "sent_at"}}; the fields are {", ".join(FIELDS)}'
        if not isinstance(metadata, Mapping) or not {*metadata} <= {*FIELDS}:
            raise ProgramError(f"metadata={metadata!r} does not map fields to columns", hint=hint)
        wanted = tuple((str(name), str(column)) for name, column in metadata.items())
        columns = {column for _, column in wanted}
        if len(columns) < len(wanted):
            raise ProgramError(f"metadata={metadata!r} maps two fields to one column", hint=hint)
        payload = pa.schema([field for field in rows if field.name not in columns])
        if not payload.names:
            raise SchemaError("no column is decoded from the payload", hint="add one to the schema")
        format.check_decodes(payload)
        for name, column in wanted:
            kind = FIELDS[name]
            if column not in rows.names:
                rows = rows.append(pa.field(column, kind, nullable=False))
            elif rows.field(column).type != kind:
                raise SchemaError(
                    f"the column {column!r} is {rows.field(column).type}, but the {name} of a message "
                    f"is {kind}",
                    hint=f"declare it as {kind}",
                )
        return cls(format, rows, payload, wanted, on_error)

    def decoder(self) -> Decoder:
        """Return a decoder of payloads."""
        return self.format.decoder(self.payload)

    def chunk(
        self,
        stream: str,
        messages: Sequence[StreamMessage],
        decoder: Decoder,
        before: MessagePosition,
    ) -> MessageChunk:
        """Decode messages, of which there is at least one.

        Args:
            stream: The stream's name, for errors.
            messages: The messages.
            decoder: A decoder of this configuration.
            before: The position before them.

        Returns:
            Their rows.

        Raises:
            InputError: One cannot be decoded, and `on_error` is "fail".
        """
        decoded = decoder.decode(pa.array([each.payload for each in messages], pa.binary()))
        rows = decoded.rows
        if self.metadata:
            added = {column: _column(name, messages) for name, column in self.metadata}
            columns = [
                decoded.of_rows(added[name]) if name in added else rows.column(name)
                for name in self.schema.names
            ]
            rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        numbers = np.fromiter((each.number for each in messages), np.int64, len(messages))
        return message_chunk(stream, numbers, decoded, rows, before, self.on_error)


def _column(name: str, messages: Sequence[StreamMessage]) -> pa.Array:
    if name == "sequence":
        return pa.array([each.number for each in messages], pa.int64())
    if name == "subject":
        return pa.array([each.subject for each in messages], pa.string())
    return pa.array([each.time_ns // 1000 for each in messages], FIELDS[name])
