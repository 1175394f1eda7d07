"""Rows of the stream as they are stored in window state: their columns, and the conversion back."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pyarrow as pa

from rheos.core.operators.contract import PortType
from rheos.core.operators.window.frames import KEY, empty_frame, key_names
from rheos.core.protocol.elements import TS, visible
from rheos.core.protocol.polars_frames import arrow_column

_ROW = "row."
TIME = "ts"


class StoredRows:
    """The stored columns of the rows of a keyed port: its own columns, and the event time."""

    def __init__(self, port: PortType) -> None:
        self.schema: pa.Schema = visible(port.schema)
        keys = dict(zip(port.keys, key_names(port.keys), strict=True))
        self._inside = {name: keys.get(name, _ROW + name) for name in self.schema.names}
        self.columns: Mapping[str, str] = {inside: name for name, inside in self._inside.items()} | {
            TIME: TS
        }
        """Names of columns in the input, by their names in frames."""
        self.values = [name for name in self._inside.values() if not name.startswith(KEY)]
        """Columns of frames that are neither keys nor the time."""
        self.nullable = {self._inside[field.name] for field in self.schema if field.nullable}
        self.kinds = empty_frame(port.schema, self.columns).schema

    def batch(self, rows: pl.DataFrame) -> pa.RecordBatch:
        """Return rows as they arrived, without their event time."""
        arrays = [
            arrow_column(rows[self._inside[field.name]]).cast(field.type) for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
