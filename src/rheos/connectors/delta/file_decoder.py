"""Decoder of a data file of a Delta table, with the values of the partition columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl
import pyarrow as pa

from rheos.connectors.delta.versions import DataFile
from rheos.connectors.files.chunks import Chunk, ChunkDecoder
from rheos.connectors.files.parquet import ParquetDecoder, open_parquet
from rheos.connectors.files.parquet_bounds import footer_bounds, may_hold
from rheos.connectors.files.partition_reading import without_columns
from rheos.core.errors import InputError
from rheos.formats.decimal_text import cast_text


def partition_values(file: DataFile, schema: pa.Schema) -> dict[str, pa.Scalar]:
    """Return the values of the partition columns that are read. Raises InputError if one does not fit
    its column."""
    found: dict[str, pa.Scalar] = {}
    for name, text in file.partition.items():
        if name not in schema.names:
            continue
        kind = schema.field(name).type
        try:
            found[name] = pa.scalar(None, kind) if not text else cast_text(pa.array([text]), kind)[0]
        except pa.ArrowInvalid as error:
            raise InputError(
                f"{file.path} has {text!r} for column {name!r}, which is {kind}",
                hint="correct the schema",
            ) from error
    return found


class DataFileDecoder(ChunkDecoder):
    """Decoder of a data file. Partition columns have one value; columns that the table got later are
    null."""

    counts = "row"

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        values: Mapping[str, pa.Scalar],
        position: bytes,
        only: pl.Expr | None = None,
    ) -> None:
        """Create it, without opening the file.

        Args:
            path: path or URL of the file.
            schema: columns of the rows.
            values: values of partition columns.
            position: where to begin.
            only: condition on columns with bounds. A file without a row that fulfils it is not read.
        """
        self._path = path
        self._schema = schema
        self._values = values
        self._position = position
        self._only = only
        self._rows: ParquetDecoder | None = None

    def read(self) -> Chunk | None:
        if self._rows is None:
            self._rows = self._opened()
        chunk = None if self._rows is None else self._rows.read()
        if chunk is None:
            return None
        rows = chunk.batch
        columns = [self._column(each, rows) for each in self._schema]
        return replace(chunk, batch=pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _opened(self) -> ParquetDecoder | None:
        """Return the decoder of the columns in the file; None if no row is wanted."""
        file = open_parquet(self._path)
        in_files = without_columns(self._schema, list(self._values))
        there = [each for each in in_files if each.name in file.schema_arrow.names]
        if self._only is not None:
            names = {each.name: each.name for each in there}
            bounds = footer_bounds(file.metadata, names, self._schema)
            if not may_hold(self._only, self._schema, self._values, bounds):
                file.close(force=True)
                return None
        # The number of rows is that of any column.
        read = pa.schema(there or [file.schema_arrow.field(0)])
        return ParquetDecoder(self._path, read, position=self._position, opened=lambda: file)

    def _column(self, column: pa.Field, rows: pa.RecordBatch) -> pa.Array:
        if column.name in self._values:
            return pa.repeat(self._values[column.name], rows.num_rows)
        if column.name in rows.schema.names:
            return rows.column(column.name)
        if not column.nullable:
            raise InputError(f"{self._path} has no column {column.name!r}, which is not nullable")
        return pa.nulls(rows.num_rows, column.type)

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()
