"""Decoder of a data file of an Iceberg table, which finds columns by their field ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl
import pyarrow as pa

from rheos.connectors.files.chunks import Chunk, ChunkDecoder
from rheos.connectors.files.parquet import ParquetDecoder, open_parquet
from rheos.connectors.files.parquet_bounds import footer_bounds, may_hold
from rheos.connectors.iceberg.columns import names_by_id
from rheos.core.errors import InputError


class FieldIdDecoder(ChunkDecoder):
    """Decoder of a data file. It finds columns by their field ids, because their names may have
    changed. Columns that the table got later are null."""

    counts = "row"

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        ids: Mapping[str, int],
        identities: frozenset[str],
        position: bytes,
        only: pl.Expr | None = None,
    ) -> None:
        """Create it, without opening the file.

        Args:
            path: path or URL of the file.
            schema: columns of the rows.
            ids: field ids of the table's columns.
            identities: columns by whose values the table is partitioned.
            position: where to begin.
            only: condition on columns with bounds. A file without a row that fulfils it is not read.
        """
        self._path = path
        self._schema = schema
        self._ids = ids
        self._identities = identities
        self._position = position
        self._only = only
        self._rows: ParquetDecoder | None = None
        self._names: dict[str, str] = {}
        """Names in the file, by those in the table."""

    def read(self) -> Chunk | None:
        if self._rows is None:
            self._rows = self._opened()
        chunk = None if self._rows is None else self._rows.read()
        if chunk is None:
            return None
        columns = [self._column(each, chunk.batch) for each in self._schema]
        return replace(chunk, batch=pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _opened(self) -> ParquetDecoder | None:
        """Return the decoder of the columns in the file; None if no row is wanted."""
        file = open_parquet(self._path)
        in_file = file.schema_arrow
        ids = {name: self._ids[name] for name in self._schema.names}
        self._names = names_by_id(in_file, ids)
        if self._only is not None:
            bounds = footer_bounds(file.metadata, self._names, self._schema)
            if not may_hold(self._only, self._schema, {}, bounds):
                file.close(force=True)
                return None
        read = [self._schema.field(name).with_name(found) for name, found in self._names.items()]
        # The number of rows is that of any column.
        columns = pa.schema(read or [in_file.field(0)])
        return ParquetDecoder(self._path, columns, position=self._position, opened=lambda: file)

    def _column(self, column: pa.Field, rows: pa.RecordBatch) -> pa.Array:
        if column.name in self._names:
            return rows.column(self._names[column.name])
        if not column.nullable or column.name in self._identities:
            raise InputError(
                f"{self._path} has no column {column.name!r}",
                hint="select other columns by schema=; the source reads no value of a partition from "
                "the table's metadata",
            )
        return pa.nulls(rows.num_rows, column.type)

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()
