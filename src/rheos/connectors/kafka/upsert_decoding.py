"""Decoding of records that replace each other by key. A record without a value is a deletion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from rheos.core.formats.contract import BadPayload, Decoded, Decoder, Format, merged
from rheos.core.graph.changelog import DELETE, OP, UPDATE_AFTER
from rheos.core.protocol.elements import Batch
from rheos.formats.bad_rows import RowsError, sift


@dataclass(frozen=True)
class UpsertDecoding:
    """Configuration for decoding the records of a table."""

    key: tuple[str, ...]
    """Columns of the primary key."""
    format: Format | None
    """Format of records' keys. None: the only column as a string."""

    def schema(self, values: pa.Schema) -> pa.Schema:
        """Return the columns, nullable, and the kind of change. A deletion has only the key."""
        return pa.schema([*(each.with_nullable(True) for each in values), pa.field(OP, pa.string())])

    def decode(
        self, payloads: pa.Array, keys_of: Callable[[Sequence[int]], pa.Array], values: Decoder
    ) -> Decoded:
        """Return the changes of some records.

        Args:
            payloads: values of the records.
            keys_of: returns the keys of the records with these indices.
            values: decoder of values.
        """
        gone = payloads.is_null().to_numpy(zero_copy_only=False)
        kept, deleted = np.flatnonzero(~gone), np.flatnonzero(gone)
        parts = [(kept, values.decode(payloads.take(pa.array(kept))), UPDATE_AFTER)]
        if len(deleted):
            parts.append((deleted, self._keys(keys_of(deleted.tolist()), values.schema), DELETE))
        schema = self.schema(values.schema)
        changes = [
            (places, replace(found, rows=_with_op(found.rows, schema, op)))
            for places, found, op in parts
        ]
        return merged(changes, len(payloads))

    def _keys(self, keys: pa.Array, values: pa.Schema) -> Decoded:
        """Return rows with the columns of the key."""
        schema = pa.schema([values.field(name).with_nullable(False) for name in self.key])
        if self.format is not None:
            found = self.format.decoder(schema).decode(keys)
            missing = "a record without a value needs a key"
            bad = [
                each if each.payload is not None else each._replace(error=missing) for each in found.bad
            ]
            return Decoded(found.rows, found.origin, bad)

        def parsed(i: int, j: int) -> Batch:
            try:
                column = keys.slice(i, j - i)
                if schema.types[0] not in (pa.binary(), pa.large_binary()):
                    column = column.cast(pa.string())
                return pa.RecordBatch.from_arrays([column.cast(schema.types[0])], names=schema.names)
            except (pa.ArrowInvalid, UnicodeDecodeError) as error:
                raise RowsError(f"its key is not a value of {self.key[0]!r}: {error}") from None

        rows, good, unfit = sift(len(keys), parsed, schema)
        return Decoded(rows, good, [BadPayload(at, keys[at].as_py(), what) for at, what in unfit])


def _with_op(rows: Batch, schema: pa.Schema, op: str) -> Batch:
    count, names = rows.num_rows, rows.schema.names
    columns = [
        rows.column(each.name) if each.name in names else pa.nulls(count, each.type)
        for each in schema
        if each.name != OP
    ]
    columns.append(pa.array([op] * count, pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
