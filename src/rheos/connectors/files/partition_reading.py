"""Partition columns of a file source, whose values are in the names of folders, not in the files."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import product
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from rheos.connectors.files.chunks import BadRow, Chunk, ChunkDecoder
from rheos.connectors.files.partitions import NULL_PARTITION
from rheos.core.connectors.rejected_records import BadRecord
from rheos.core.errors import InputError
from rheos.core.protocol.shown_rows import row_values
from rheos.formats.decimal_text import cast_text


def without_columns(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Return the columns that are in the files."""
    return pa.schema([field for field in schema if field.name not in names])


# --- folders --------------------------------------------------------------------------------------


def folder_values(folder: str, columns: Sequence[str]) -> dict[str, str]:
    """Return the values of partition columns as the last folders of a path spell them, in any order.

    Raises:
        InputError: These folders do not name exactly the columns.
    """
    found = _named(folder.split("/")[-len(columns) :])
    if found.keys() != set(columns):
        missing = ", ".join(name for name in columns if name not in found)
        raise InputError(
            f"the folder {folder} does not name the partition column {missing}",
            hint=f"the files must be in folders {_layout(columns)}, without other levels; correct "
            "partition_by= or the path",
        )
    return found


def check_top(folder: str, columns: Sequence[str], paths: Sequence[str]) -> None:
    """Raise InputError if there are further levels between the source's path and the partitions."""
    top = _inner(folder)[: -len(columns)]
    if not any("::" in path or "**" in path or _leads_to(top, _inner(path)) for path in paths):
        raise InputError(
            f"the folder {folder} has more levels than {_layout(columns)} below the source's path",
            hint="list all levels in partition_by=, or read a folder that contains only these levels",
        )


def columns_in_folders(path: str, names: Sequence[str]) -> list[str]:
    """Return which of the columns have a value in the name of a folder of the path."""
    values = _named(posixpath.dirname(path).split("/"))
    return [name for name in names if values.get(name, NULL_PARTITION) != NULL_PARTITION]


def read_from_folders(columns: Sequence[str]) -> str:
    """Return a hint on how to read columns from the names of folders."""
    listed = ", ".join(f'"{name}"' for name in columns)
    return f"folders of the path have the values: pass partition_by=[{listed}] to rh.files.source"


def _named(folders: Sequence[str]) -> dict[str, str]:
    """Return the values in folders `name=value`, by name. They are still escaped."""
    pairs = (folder.split("=", 1) for folder in folders if "=" in folder)
    return {unquote(name): value for name, value in pairs}


def _layout(columns: Sequence[str]) -> str:
    return "/".join(f"{name}=..." for name in columns)


def _inner(url: str) -> list[str]:
    from fsspec.core import strip_protocol

    return str(strip_protocol(url)).strip("/").split("/")


def _leads_to(top: Sequence[str], path: Sequence[str]) -> bool:
    """Return whether `top` contains the path, which may be a glob, or matches its first parts."""
    return len(top) <= len(path) and all(
        part == pattern or ("=" not in part and fnmatchcase(part, pattern))
        for part, pattern in zip(top, path, strict=False)
    )


# --- values ---------------------------------------------------------------------------------------


def partition_values(folder: str, texts: Mapping[str, str], schema: pa.Schema) -> dict[str, pa.Scalar]:
    """Return the values of the partition columns that the schema has.

    Args:
        folder: the folder, for errors.
        texts: result of `folder_values`.
        schema: the columns of the rows.

    Raises:
        InputError: A value does not fit its column.
    """
    fields = [field for field in schema if field.name in texts]
    return {field.name: _value(folder, texts[field.name], field) for field in fields}


def _value(folder: str, text: str, field: pa.Field) -> pa.Scalar:
    if text == NULL_PARTITION:
        if not field.nullable:
            raise InputError(
                f"the folder {folder} has null for column {field.name!r}, which is not nullable",
                hint="declare the column as nullable, or move the folder away",
            )
        return pa.scalar(None, field.type)
    try:
        plain = unquote(text, errors="strict")
        if pa.types.is_timestamp(field.type):
            return _time(plain, field.type)
        return cast_text(pa.array([plain]), field.type)[0]
    except (pa.ArrowInvalid, UnicodeDecodeError):
        raise InputError(
            f"the folder {folder} has {text!r} for column {field.name!r}, which is {field.type}",
            hint="correct the schema or the name of the folder",
        ) from None


def _time(text: str, kind: pa.TimestampType) -> pa.Scalar:
    """Return the time of a string, in UTC if it has no zone, as in CSV. Raises ArrowInvalid if it has
    more digits than the type."""
    for unit, zone in product((kind.unit, "us", "ns"), dict.fromkeys((kind.tz, None))):
        try:
            moment = pa.array([text]).cast(pa.timestamp(unit, zone))
            return moment.cast(kind)[0]
        except pa.ArrowInvalid:
            continue
    raise pa.ArrowInvalid(text)


# --- decoders -------------------------------------------------------------------------------------


class _FileDecoder(ChunkDecoder):
    """Decoder that changes the chunks of the decoder of a file."""

    def __init__(self, file: ChunkDecoder) -> None:
        self._file = file
        self.counts = file.counts

    def close(self) -> None:
        self._file.close()


class PartitionDecoder(_FileDecoder):
    """Decoder that adds the partition columns."""

    def __init__(
        self, file: ChunkDecoder, schema: pa.Schema, values: Mapping[str, pa.Scalar] | InputError
    ) -> None:
        """Create a decoder.

        Args:
            file: the decoder of the other columns.
            schema: all columns.
            values: the values of the partition columns, or the error for which to reject all rows.
        """
        super().__init__(file)
        self._schema = schema
        self._values = values

    def read(self) -> Chunk | None:
        chunk = self._file.read()
        if chunk is None:
            return None
        if isinstance(self._values, InputError):
            return self._rejected(chunk, self._values.what)
        rows = chunk.batch
        columns = [
            pa.repeat(self._values[name], rows.num_rows) if name in self._values else rows.column(name)
            for name in self._schema.names
        ]
        return replace(chunk, batch=pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _rejected(self, chunk: Chunk, what: str) -> Chunk:
        rows = chunk.batch
        good = range(rows.num_rows) if chunk.good is None else chunk.good.tolist()
        bad = [
            BadRow(raw, chunk.line(raw), BadRecord(repr(row_values(rows, i)), None, what))
            for i, raw in enumerate(good)
        ]
        return replace(
            chunk,
            batch=pa.RecordBatch.from_pylist([], schema=self._schema),
            good=np.empty(0, np.int64),
            rejected=sorted([*chunk.rejected, *bad], key=lambda row: row.raw),
        )


class UnpartitionedDecoder(_FileDecoder):
    """Decoder of lines that fails if a column has no value in them, but one in the name of a folder."""

    def __init__(self, file: ChunkDecoder, path: str, columns: Sequence[str]) -> None:
        super().__init__(file)
        self._path = path
        self._columns = columns

    def read(self) -> Chunk | None:
        try:
            chunk = self._file.read()
        except InputError as error:
            if any(repr(name) in error.what for name in self._columns):
                error.hint = read_from_folders(self._columns)
            raise
        if chunk is not None and chunk.batch.num_rows:
            for name in self._columns:
                if chunk.batch.column(name).null_count == chunk.batch.num_rows:
                    raise InputError(
                        f"{self._path} has no values of column {name!r}",
                        hint=read_from_folders(self._columns),
                    )
        return chunk
