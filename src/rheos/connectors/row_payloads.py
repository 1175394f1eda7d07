"""Payloads of messages that are made of rows, one of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.user_formats import check_format
from rheos.core.connectors.schemas import check_column, shown_row
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.formats.contract import Format
from rheos.core.protocol.elements import Batch

_MOST_ROWS = 1024
_MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class RowPayloads:
    """Configuration of payloads: the format, and the columns."""

    format: Format
    value: tuple[str, ...] | None
    """Columns of the payload; None for all."""

    @classmethod
    def of(cls, format: Any, value: str | Sequence[str] | None) -> RowPayloads:
        """Create the configuration from a user's arguments. Raises ProgramError."""
        names = [value] if isinstance(value, str) else value
        if names is not None and (not isinstance(names, Sequence) or not names):
            raise ProgramError(f"value={value!r} does not name columns", hint='write value=["a", "b"]')
        return cls(check_format(format), None if names is None else tuple(names))

    def columns(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of the payload."""
        return pa.schema([schema.field(name) for name in self.value or schema.names])

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if rows of the schema cannot be encoded."""
        for name in self.value or ():
            check_column(schema, "value", name, lambda _: True, "")
        columns = self.columns(schema)
        if not columns.names:
            raise SchemaError("the rows have no columns", hint="select a column for the payload")
        if self.format.rows_per_payload > 1:
            raise SchemaError(
                f"the format {self.format.name} puts several rows into one payload, but each row is a "
                "message of its own",
                hint="choose a format with one row per payload",
            )
        self.format.check_encodes(columns)


class PayloadEncoder:
    """Encodes rows of one schema, which has been checked."""

    def __init__(self, payloads: RowPayloads, schema: pa.Schema) -> None:
        self._columns = payloads.columns(schema)
        self._encoder = payloads.format.encoder(self._columns)

    def encode(self, rows: Batch) -> list[bytes]:
        """Return the payloads. Raises InputError, with the row, if one is null."""
        payloads = self._encoder.encode(rows.select(self._columns.names))
        if payloads.null_count:
            raise InputError(
                "a row cannot be published: its payload is null",
                record=shown_row(rows, pc.index(pc.is_null(payloads), True).as_py()),
                hint="filter out such rows first, or fill the nulls",
            )
        encoded: list[bytes] = payloads.to_pylist()
        return encoded


def pieces(batch: Batch, most_rows: int = _MOST_ROWS) -> list[Batch]:
    """Cut rows into batches that are published at once: of at most `most_rows`, and of some megabytes
    unless a single row is larger."""
    each_bytes = max(batch.nbytes // max(batch.num_rows, 1), 1)
    rows = max(min(most_rows, _MOST_BYTES // each_bytes), 1)
    return [batch.slice(at, rows) for at in range(0, batch.num_rows, rows)]
