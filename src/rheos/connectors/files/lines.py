"""Files of lines, each the payload of a format: JSON Lines and text; plain or gzip."""

from __future__ import annotations

import gzip
import threading
import zlib
from typing import IO, Any

import fsspec
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.files.chunks import BadRow, Chunk, ChunkDecoder, bad_row
from rheos.connectors.rejected import BadRecord
from rheos.errors import InputError
from rheos.formats.contract import Format
from rheos.formats.payloads import NEWLINE

CHUNK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 26

_BOM = b"\xef\xbb\xbf"
_SPACES = np.frombuffer(b" \t\r\n\v\f", np.uint8)


class LineCursor(msgspec.Struct, frozen=True, array_like=True):
    """Where the next line begins."""

    offset: int = 0
    """In bytes; of a compressed file, in decompressed ones."""
    line: int = 0
    """How many lines precede it."""


START = msgspec.msgpack.encode(LineCursor())


class LinesDecoder(ChunkDecoder):
    def __init__(
        self,
        path: str,
        format: Format,
        schema: pa.Schema,
        *,
        position: bytes = START,
        compressed: bool = False,
        skip_bad: bool = False,
    ) -> None:
        assert format.in_lines is not None
        self._path = path
        self._blank = format.in_lines.blank
        self._decoder = format.decoder(schema)
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
            if not self._cursor.offset:
                self._tail = self._file.read(len(_BOM))
                if self._tail == _BOM:
                    self._tail, self._cursor = b"", LineCursor(len(_BOM))
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
                    hint="it should hold one record per line; is this another kind of file?",
                )

    def _decode(self, data: bytes) -> Chunk:
        first = self._cursor
        raw = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(raw == NEWLINE) + 1
        if not len(ends) or ends[-1] != len(data):
            ends = np.append(ends, len(data))
        starts = np.concatenate(([0], ends[:-1]))
        payloads = _without_ends(data).slice(0, len(starts))
        lines = np.arange(len(starts))
        if not self._blank:
            maybe = np.flatnonzero(np.isin(raw[starts], _SPACES))
            empty = [i for i in maybe.tolist() if not payloads[i].as_py().strip()]
            if empty:
                lines = np.delete(lines, empty)
                payloads = payloads.take(pa.array(lines))
        decoded = self._decoder.decode(payloads)
        bad = [
            BadRow(each.at, first.line + int(lines[each.at]) + 1, BadRecord.of(each))
            for each in decoded.bad
        ]
        if bad and not self._skip_bad:
            raise bad_row(self._path, bad[0])
        self._cursor = LineCursor(first.offset + len(data), first.line + len(starts))
        end = self._cursor

        def position(row: int) -> bytes:
            if row == len(lines):
                return msgspec.msgpack.encode(end)
            line = int(lines[row])
            return msgspec.msgpack.encode(
                LineCursor(first.offset + int(starts[line]), first.line + line)
            )

        return Chunk(decoded.rows, decoded.origin, len(lines), bad, position)

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


def _without_ends(data: bytes) -> pa.Array:
    """The lines, and an empty one behind the last line end."""
    if b"\r" in data:
        return pa.array([line.removesuffix(b"\r") for line in data.split(b"\n")], pa.binary())
    return pc.split_pattern(pa.array([data], pa.binary()), b"\n").values


class _OwningGzip(gzip.GzipFile):
    """A gzip reader that closes the file below it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._below = file

    def close(self) -> None:
        super().close()
        self._below.close()
