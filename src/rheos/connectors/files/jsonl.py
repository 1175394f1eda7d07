"""JSON Lines: one object per line, read strictly by a schema; plain or gzip.

Arrow decodes a whole chunk at once; only where that fails are its bad lines sought. Types are strict:
"1" is no number, 1.0 no integer, 1 no string. Timestamps are ISO 8601 (without zone: UTC), dates and
times ISO strings. Fields that the schema does not name are ignored.
"""

from __future__ import annotations

import gzip
import re
import threading
import zlib
from typing import IO, Any

import fsspec
import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from rheos.connectors.files.chunks import BadRow, Chunk, ChunkDecoder, RowsError, bad_row, conform, sift
from rheos.errors import InputError, SchemaError
from rheos.protocol.elements import Batch

CHUNK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 26

_NEWLINE, _OPEN, _CLOSE = b"\n"[0], b"{"[0], b"}"[0]
_UNFIT = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_duration,
    pa.types.is_interval,
    pa.types.is_map,
    pa.types.is_time,  # Only within lists and records.
)
_BOM = b"\xef\xbb\xbf"
_CHANGED = re.compile(r"Column\((.*?)\) changed from (\w+) to (\w+)")


class LineCursor(msgspec.Struct, frozen=True, array_like=True):
    """Where the next line begins."""

    offset: int = 0
    """In bytes; of a gzip file, in decompressed ones."""
    line: int = 0
    """How many lines precede it."""


START = msgspec.msgpack.encode(LineCursor())


class JsonLinesDecoder(ChunkDecoder):
    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        *,
        position: bytes = START,
        compressed: bool = False,
        skip_bad: bool = False,
    ) -> None:
        self._path = path
        self._schema = schema
        self._wire = wire_schema(schema)
        self._cursor = msgspec.msgpack.decode(position, type=LineCursor)
        self._compressed = compressed
        self._skip_bad = skip_bad
        self._file: Any = None
        self._tail = b""
        self._lock = threading.Lock()
        self._closed = False

    def read(self) -> Chunk | None:
        with self._lock:
            while not self._closed:
                try:
                    data = self._whole_lines()
                except (OSError, EOFError, zlib.error) as error:
                    raise self._unreadable(error) from error
                if not data:
                    return None
                chunk = self._decode(data)
                if chunk.raw_rows:
                    return chunk
            return None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._file.close()
                self._file = None

    def _open(self) -> Any:
        if self._file is None:
            system, path = fsspec.core.url_to_fs(self._path)
            file = system.open(path, "rb")
            self._file = _OwningGzip(file) if self._compressed else file
            if self._cursor.offset and self._file.seek(self._cursor.offset) != self._cursor.offset:
                raise EOFError("it is shorter than when it was read before")
        return self._file

    def _whole_lines(self) -> bytes:
        """About a chunk of bytes, up to the end of a line; empty at the end of the file."""
        file = self._open()
        pieces = [self._tail]
        size = len(self._tail)
        while True:
            piece = file.read(CHUNK_BYTES)
            if not piece:
                self._tail = b""
                return b"".join(pieces)
            end = piece.rfind(b"\n") + 1
            if end:
                self._tail = piece[end:]
                pieces.append(piece[:end])
                return b"".join(pieces)
            pieces.append(piece)
            size += len(piece)
            if size > MAX_LINE_BYTES:
                raise InputError(
                    f"{self._path}:{self._cursor.line + 1}: the line exceeds {MAX_LINE_BYTES} bytes",
                    hint="JSON Lines holds one object per line; is this another kind of file?",
                )

    def _decode(self, data: bytes) -> Chunk:
        raw = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(raw == _NEWLINE) + 1
        if not len(ends) or ends[-1] != len(data):
            ends = np.append(ends, len(data))
        starts = np.concatenate(([0], ends[:-1]))
        # A line of {...} can only be one object or several: none can begin in it and end in another
        # one. So where all lines have this shape and there are as many rows as lines, each line is
        # one row; Arrow itself does not look at line ends.
        lasts = np.maximum(ends - 1 - (raw[ends - 1] == _NEWLINE), starts)
        shaped = (raw[starts] == _OPEN) & (raw[lasts] == _CLOSE)
        filled = np.ones(len(starts), np.bool_)
        for index in np.flatnonzero(~shaped).tolist():
            line = data[starts[index] : ends[index]].strip().removeprefix(_BOM)
            filled[index] = bool(line)
            shaped[index] = line.startswith(b"{") and line.endswith(b"}")
        lines = np.flatnonzero(filled)
        first = self._cursor
        buffer = pa.py_buffer(data)

        def decode(i: int, j: int) -> Batch:
            begin, end = int(starts[lines[i]]), int(ends[lines[j - 1]])
            if not shaped[lines[i:j]].all():
                raise RowsError("the line is not one whole JSON object")
            batch = decode_objects(buffer.slice(begin, end - begin), self._wire, self._schema)
            if batch.num_rows != j - i:
                raise RowsError("the line holds more than one JSON object")
            return batch

        batch, good, bad = sift(len(lines), decode, self._schema, all_bad=self._skip_bad)
        rejected = [
            BadRow(
                row,
                first.line + int(lines[row]) + 1,
                data[starts[lines[row]] : ends[lines[row]]].strip().decode(errors="replace"),
                what,
            )
            for row, what in bad
        ]
        if rejected and not self._skip_bad:
            raise bad_row(self._path, rejected[0])
        self._cursor = LineCursor(first.offset + len(data), first.line + len(starts))
        end = self._cursor

        def position(row: int) -> bytes:
            if row == len(lines):
                return msgspec.msgpack.encode(end)
            line = int(lines[row])
            return msgspec.msgpack.encode(
                LineCursor(first.offset + int(starts[line]), first.line + line)
            )

        return Chunk(batch, good, len(lines), rejected, position)

    def _unreadable(self, error: Exception) -> InputError:
        if isinstance(error, FileNotFoundError):
            return InputError(
                f"the file {self._path} is missing",
                hint="it was there when the job was planned; every worker must be able to read it",
            )
        return InputError(
            f"{self._path}: cannot be read after line {self._cursor.line}: {error}",
            hint="is the file whole, and of the kind that its name says?",
        )


class _OwningGzip(gzip.GzipFile):
    """A gzip reader that closes the file below it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._below = file

    def close(self) -> None:
        super().close()
        self._below.close()


def decode_objects(data: pa.Buffer, wire: pa.Schema, schema: pa.Schema) -> Batch:
    """JSON objects as rows of `schema`, nulls not checked. Raises RowsError."""
    try:
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=data.size + 1),
            parse_options=pj.ParseOptions(explicit_schema=wire, unexpected_field_behavior="ignore"),
        )
        table.validate(full=True)
        columns = [_typed(_whole(table.column(field.name)), field.type) for field in schema]
    except pa.ArrowInvalid as error:
        raise RowsError(_said(str(error))) from None
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.RecordBatch.from_arrays(columns, schema=nullable)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _typed(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_time(type_):  # Arrow reads no times of day, but timestamps.
        column = pc.binary_join_element_wise("1970-01-01", column, "T").cast(pa.timestamp(type_.unit))
    return conform(column, type_)


def _said(message: str) -> str:
    changed = _CHANGED.search(message)
    if changed:
        name, wanted, found = changed.groups()
        if not name:
            return f"the line must hold a JSON object, and holds a {found}"
        return f"column {name.lstrip('/')!r} must be a {wanted}, and is a {found}"
    said = message.removeprefix("JSON parse error: ")
    return re.sub(r" in row \d+$", "", said)


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """What Arrow's JSON reader is asked for: strings where it would read dates and times as numbers.

    Raises SchemaError for a type that has no form in JSON Lines.
    """
    fields = []
    for field in schema:
        time = pa.types.is_time(field.type)
        fields.append(pa.field(field.name, pa.string() if time else _wire_type(field.type, field)))
    return pa.schema(fields)


def _wire_type(type_: pa.DataType, column: pa.Field) -> pa.DataType:
    if pa.types.is_date(type_):
        return pa.string()
    if pa.types.is_dictionary(type_):
        return _wire_type(type_.value_type, column)
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _wire_type(field.type, column)) for field in type_])
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_wire_type(type_.value_type, column))
    if any(is_a(type_) for is_a in _UNFIT):
        raise SchemaError(
            f"column {column.name!r} of type {column.type} has no form in JSON Lines",
            hint="use Parquet, or make it a number, a string, a list or a nested record",
        )
    return type_


def encode_lines(rows: pa.Table) -> bytes:
    """Rows as JSON Lines: timestamps as ISO 8601 in UTC with Z; NaN and infinities become null."""
    frame = pl.DataFrame(rows)
    shown = [_shown(pl.col(name), type_).alias(name) for name, type_ in frame.schema.items()]
    return frame.select(shown).write_ndjson().encode()


def _shown(value: pl.Expr, type_: pl.DataType) -> pl.Expr:
    if isinstance(type_, pl.Datetime):
        digits = {"ms": 3, "us": 6, "ns": 9}[type_.time_unit]
        if type_.time_zone is not None:
            value = value.dt.convert_time_zone("UTC")
        return value.dt.strftime(f"%Y-%m-%dT%H:%M:%S%.{digits}fZ")
    if isinstance(type_, pl.List):
        inner = _inner(type_.inner)
        return value.list.eval(_shown(pl.element(), inner)) if _has_datetime(inner) else value
    if isinstance(type_, pl.Struct) and _has_datetime(type_):
        shown = [
            _shown(value.struct.field(field.name), _inner(field.dtype)).alias(field.name)
            for field in type_.fields
        ]
        return pl.when(value.is_not_null()).then(pl.struct(shown))
    return value


def _has_datetime(type_: pl.DataType) -> bool:
    if isinstance(type_, pl.List):
        return _has_datetime(_inner(type_.inner))
    if isinstance(type_, pl.Struct):
        return any(_has_datetime(_inner(field.dtype)) for field in type_.fields)
    return isinstance(type_, pl.Datetime)


def _inner(type_: Any) -> pl.DataType:
    made: pl.DataType = type_() if isinstance(type_, type) else type_
    return made
