"""Decoding of a broker's messages into rows: the payload by a format, other columns from fields of the
message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.connectors.message_chunks import MessageChunk, MessagePosition, Numbers, message_chunk
from rheos.core.connectors.rejected_records import OnError
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.formats.contract import Decoder, Format


@dataclass(frozen=True)
class PayloadDecoding:
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
    def of(
        cls,
        format: Format,
        rows: pa.Schema,
        metadata: Any,
        on_error: OnError,
        fields: Mapping[str, pa.DataType],
        optional: Collection[str] = (),
    ) -> PayloadDecoding:
        """Create the configuration.

        Args:
            format: Format of the payloads.
            rows: The columns that the user has declared.
            metadata: The user's mapping of fields to columns.
            on_error: What to do with a message that cannot be decoded.
            fields: Fields of the broker's messages that may be columns, with their types.
            optional: Names of the fields that a message may lack.

        Returns:
            The configuration.

        Raises:
            ProgramError: `metadata` is invalid.
            SchemaError: A column cannot be decoded.
        """
        example = [*fields][-1]
        hint = f'write metadata={{"{example}": "a_column"}}; the fields are {", ".join(fields)}'
        if not isinstance(metadata, Mapping) or not {*metadata} <= {*fields}:
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
            kind = fields[name]
            if column not in rows.names:
                rows = rows.append(pa.field(column, kind, nullable=name in optional))
            elif rows.field(column).type != kind:
                raise SchemaError(
                    f"the column {column!r} is {rows.field(column).type}, but the {name} of a message "
                    f"is {kind}",
                    hint=f"declare it as {kind}",
                )
            elif name in optional and not rows.field(column).nullable:
                raise SchemaError(
                    f"the column {column!r} is not nullable, but a message may have no {name}",
                    hint="declare it so that it may be null",
                )
        return cls(format, rows, payload, wanted, on_error)

    def decoder(self) -> Decoder:
        """Return a decoder of payloads."""
        return self.format.decoder(self.payload)

    def chunk(
        self,
        name: str,
        numbers: Numbers,
        payloads: Sequence[bytes | None],
        field: Callable[[str], pa.Array],
        decoder: Decoder,
        before: MessagePosition,
        holders: npt.NDArray[np.int64] | None = None,
    ) -> MessageChunk:
        """Decode messages, of which there is at least one.

        Args:
            name: Name of their stream, for errors.
            numbers: Their ascending numbers.
            payloads: Their payloads.
            field: Returns a field by its name, with a value for each payload.
            decoder: A decoder of this configuration.
            before: The position before them.
            holders: Index in `numbers` of the message that has each payload, ascending; None if each
                message has one.

        Returns:
            Their rows.

        Raises:
            InputError: One cannot be decoded, and `on_error` is "fail".
        """
        decoded = decoder.decode(pa.array(payloads, pa.binary()))
        rows = decoded.rows
        if self.metadata:
            added = {column: field(name) for name, column in self.metadata}
            columns = [
                decoded.of_rows(added[name]) if name in added else rows.column(name)
                for name in self.schema.names
            ]
            rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if holders is not None:
            decoded = replace(
                decoded,
                origin=holders if decoded.origin is None else holders[decoded.origin],
                bad=[each._replace(at=int(holders[each.at])) for each in decoded.bad],
            )
        return message_chunk(name, numbers, decoded, rows, before, self.on_error)
