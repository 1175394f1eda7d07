"""Files of lines, where each line is a payload of a format: JSON Lines, CSV, text; plain or
compressed."""

from __future__ import annotations

import re
import threading
import zlib
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.connectors.calls.file_systems import raise_if_away, url_to_fs
from rheos.connectors.files import compression
from rheos.connectors.files.chunks import BadRow, Chunk, ChunkDecoder, bad_row
from rheos.connectors.files.compression import Codec
from rheos.connectors.files.utf8_file import Utf8File
from rheos.core.connectors.rejected_records import BadRecord
from rheos.core.errors import InputError
from rheos.core.formats.contract import NOT_UTF_8, Decoder, Format
from rheos.core.formats.payloads import NEWLINE, JoinedPayloads

# --- where records end, if quoted fields may contain line ends ----------------------------------------


_RETURN = b"\r"[0]


class RecordEnds:
    """Finds the records of a format with one quote character and one delimiter."""

    def __init__(self, quote: bytes, delimiter: bytes) -> None:
        self._quote = quote
        self._delimiter = delimiter
        q, d = re.escape(quote), re.escape(delimiter)
        quoted = rb"%s(?:[^%s]++|%s%s)*+%s(?=[%s\r\n]|\Z)" % (q, q, q, q, q, d)
        field = rb"(?:%s|(?!%s)[^%s\r\n]*+)" % (quoted, q, d)
        self._record = re.compile(rb"%s(?:%s%s)*+\r?(?:\n|\Z)" % (field, d, field))
        self._open = re.compile(rb"(?:%s%s)*+%s(?:[^%s]++|%s%s)*+\Z" % (field, d, q, q, q, q))

    def starts(self, data: bytes, *, final: bool) -> tuple[npt.NDArray[np.int64], int]:
        """Return where the records in the data begin, and where the last of them ends.

        Unless the data is `final`, the bytes after the last line end are left out. So is a record whose
        quotes may be closed by later data.
        """
        raw = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(raw == NEWLINE)
        if self._quote in data:
            outside = self._ends_outside_quotes(raw, ends, final)
            if outside is None:
                return self._one_by_one(data, final=final)
            ends = outside
        ended = ends + 1
        if final and len(data) and (not len(ended) or ended[-1] < len(data)):
            ended = np.append(ended, len(data))
        if not len(ended):
            return np.empty(0, np.int64), 0
        return np.concatenate(([0], ended[:-1])), int(ended[-1])

    def _ends_outside_quotes(
        self, raw: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], final: bool
    ) -> npt.NDArray[np.int64] | None:
        """Return the line ends outside of quotes; None if a quote is at a position where none is
        allowed."""
        quotes = np.flatnonzero(raw == self._quote[0])
        if len(quotes) % 2:
            if final:
                return None
            # Later data may close the last quote.
            ends = ends[ends < quotes[-1]]
            raw, quotes = raw[: quotes[-1]], quotes[:-1]
            if not len(ends):
                return ends
        opening, closing = quotes[::2], quotes[1::2]
        before = raw[np.maximum(opening - 1, 0)]
        after = raw[np.minimum(closing + 1, len(raw) - 1)]
        quote, delimiter = self._quote[0], self._delimiter[0]
        opens = (before == delimiter) | (before == NEWLINE) | (before == quote) | (opening == 0)
        closes = (after == delimiter) | (after == NEWLINE) | (after == _RETURN) | (after == quote)
        if not opens.all() or not (closes | (closing == len(raw) - 1)).all():
            return None
        # Two adjacent quotes within a field are an escaped quote; they do not change the parity.
        outside: npt.NDArray[np.int64] = ends[np.searchsorted(quotes, ends) % 2 == 0]
        return outside

    def _one_by_one(self, data: bytes, *, final: bool) -> tuple[npt.NDArray[np.int64], int]:
        starts: list[int] = []
        at = 0
        while at < len(data):
            found = self._record.match(data, at)
            if found is None and not final and self._open.match(data, at) is not None:
                break
            end = data.find(b"\n", at) + 1 if found is None else found.end()
            end = end or len(data)
            if not final and not data.endswith(b"\n", at, end):
                break
            starts.append(at)
            at = end
        return np.array(starts, np.int64), at


CHUNK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 26
"""Maximum length of a line. A longer one is rejected, and only its beginning is kept."""

_BOM = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_SHOWN_BYTES = 200
_SPACES = np.frombuffer(b" \t\r\n\v\f", np.uint8)


class LineCursor(msgspec.Struct, frozen=True, array_like=True):
    """Position of the next line."""

    offset: int = 0
    """Byte offset in the file, or in the decompressed data."""
    line: int = 0
    """Number of lines before it."""


START = msgspec.msgpack.encode(LineCursor())


class LinesDecoder(ChunkDecoder):
    def __init__(
        self,
        path: str,
        format: Format,
        schema: pa.Schema,
        *,
        position: bytes = START,
        codec: Codec = "none",
        encoding: str | None = None,
        skip_bad: bool = False,
    ) -> None:
        """Create a decoder. `encoding` is the encoding of the file; None for UTF-8, which needs no
        conversion."""
        assert format.in_lines is not None
        self._path = path
        self._format = format
        self._lie = format.in_lines
        quote = self._lie.quote
        self._ends = None if quote is None else RecordEnds(quote, self._lie.delimiter)
        self._schema = schema
        self._cursor = msgspec.msgpack.decode(position, type=LineCursor)
        self._codec = codec
        self._encoding = encoding
        self._skip_bad = skip_bad
        self._file: Any = None
        self._decoder: Decoder
        """Decoder of lines, created when the file is opened: it may need the first line."""
        self._tail = b""
        self._lock = threading.Lock()
        self._closed = False

    def read(self) -> Chunk | None:
        with self._lock:
            while not self._closed:
                try:
                    if self._file is None:
                        self._open()
                    data, whole = self._whole_records()
                except UnicodeError as error:
                    raise InputError(
                        f"{self._path}: {error}",
                        hint="check that encoding= is the encoding of the file",
                    ) from None
                except (OSError, EOFError, zlib.error) as error:
                    raise self._unreadable(error) from error
                if not data:
                    return None
                chunk = self._decode(data) if whole else self._too_long(data)
                if chunk.raw_rows:
                    return chunk
            return None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._file.close()
                self._file = None

    def _open(self) -> None:
        system, path = url_to_fs(self._path)
        self._file = compression.reader(system.open(path, "rb"), self._codec)
        if self._encoding is not None:
            self._file = Utf8File(self._file, self._encoding)
        header, begin, rest = self._beginning()
        try:
            self._decoder = self._format.decoder(self._schema, header)
        except InputError as error:
            raise InputError(f"{self._path}:1: {error.what}", hint=error.hint) from None
        if not self._cursor.offset:
            self._cursor, self._tail = begin, rest
        elif self._file.seek(self._cursor.offset) != self._cursor.offset:
            raise EOFError("it is shorter than when it was first read")

    def _beginning(self) -> tuple[bytes | None, LineCursor, bytes]:
        """Return the header, the start of the first record, and the bytes after it that were already
        read."""
        data = self._file.read(len(_BOM))
        if data.startswith(_UTF_16):
            raise InputError(f"{self._path} begins like a file in UTF-16", hint=NOT_UTF_8)
        mark = len(_BOM) if data == _BOM else 0
        data = data[mark:]
        if not self._lie.header:
            return None, LineCursor(mark), data
        while b"\n" not in data and len(data) < MAX_LINE_BYTES:
            piece = self._file.read(CHUNK_BYTES)
            if not piece:
                break
            data += piece
        header, end, rest = data.partition(b"\n")
        return header or None, LineCursor(mark + len(header) + len(end), 1), rest

    def _whole_records(self) -> tuple[bytes, bool]:
        """Return about one chunk of bytes up to the end of a record, and True. The bytes are empty at
        the end of the file. If one record is too long, return its first bytes and False."""
        data, self._tail = self._tail, b""
        while True:
            end = self._end_of_records(data, final=False)
            if not end and len(data) > MAX_LINE_BYTES and self._ends is not None:
                # An unclosed quote damages its own line only.
                end = data.find(b"\n") + 1
            if end or len(data) > MAX_LINE_BYTES:
                self._tail = data[end:] if end else b""
                return (data[:end], True) if end else (data, False)
            piece = self._file.read(CHUNK_BYTES)
            if not piece:
                return data, True
            data += piece

    def _end_of_records(self, data: bytes, *, final: bool) -> int:
        if self._ends is None:
            return data.rfind(b"\n") + 1
        return self._ends.starts(data, final=final)[1]

    def _too_long(self, begin: bytes) -> Chunk:
        """Return a chunk that contains only the oversized record, as rejected."""
        what = f"the line exceeds {MAX_LINE_BYTES} bytes"
        line = self._cursor.line + 1
        if not self._skip_bad:
            raise InputError(
                f"{self._path}:{line}: {what}",
                hint="a file must hold one record per line; check that this is such a file",
            )
        size, ended = len(begin), False
        while not ended and (piece := self._file.read(CHUNK_BYTES)):
            end = piece.find(b"\n") + 1
            ended = end > 0
            size += end or len(piece)
            self._tail = piece[end:] if ended else b""
        start = self._cursor
        self._cursor = after = LineCursor(start.offset + size, line)
        shown = begin[: min(_SHOWN_BYTES, MAX_LINE_BYTES)].decode(errors="replace")
        rows = pa.RecordBatch.from_pylist([], schema=self._schema)
        return Chunk(
            rows,
            np.empty(0, np.int64),
            1,
            [BadRow(0, line, BadRecord(shown, None, what))],
            lambda row: msgspec.msgpack.encode(after if row else start),
            lambda row: line,
        )

    def _decode(self, data: bytes) -> Chunk:
        first = self._cursor
        size = len(data)
        if not data.endswith(b"\n"):
            data += b"\n"
        raw = np.frombuffer(data, np.uint8)
        line_ends = np.flatnonzero(raw == NEWLINE)
        starts = np.concatenate(([0], line_ends[:-1] + 1))
        if self._ends is not None:
            starts, _ = self._ends.starts(data, final=True)
        lines = np.searchsorted(line_ends, starts)
        payloads = JoinedPayloads(pa.py_buffer(data), np.append(starts, len(data)))
        keep = None if self._lie.blank else _filled(payloads)
        if keep is None and b"\r" not in data:
            decoded = self._decoder.decode_joined(payloads)
        else:
            listed = [payload.removesuffix(b"\r") for payload in payloads.column().to_pylist()]
            if keep is not None:
                listed = [listed[i] for i in keep.tolist()]
                starts, lines = starts[keep], lines[keep]
            decoded = self._decoder.decode(pa.array(listed, pa.binary()))

        def line(row: int) -> int:
            return first.line + int(lines[row]) + 1

        bad = [BadRow(each.at, line(each.at), BadRecord.of(each)) for each in decoded.bad]
        if bad and not self._skip_bad:
            raise bad_row(self._path, bad[0])
        self._cursor = end = LineCursor(first.offset + size, first.line + len(line_ends))

        def position(row: int) -> bytes:
            if row == len(lines):
                return msgspec.msgpack.encode(end)
            return msgspec.msgpack.encode(
                LineCursor(first.offset + int(starts[row]), first.line + int(lines[row]))
            )

        return Chunk(decoded.rows, decoded.origin, len(lines), bad, position, line)

    def _unreadable(self, error: Exception) -> InputError:
        raise_if_away(error, f"{self._path} cannot be read after line {self._cursor.line}")
        if isinstance(error, FileNotFoundError):
            return InputError(
                f"the file {self._path} is missing",
                hint="it existed when the job was planned; every worker must be able to read it",
            )
        return InputError(
            f"{self._path}: cannot be read after line {self._cursor.line}: {error}",
            hint="check that the file is complete, and in the format that its name suggests",
        )


def _filled(payloads: JoinedPayloads) -> npt.NDArray[np.int64] | None:
    """Return the payloads that are more than white space; None if all are."""
    maybe = np.flatnonzero(np.isin(payloads.bytes()[payloads.starts[:-1]], _SPACES))
    blank = [i for i in maybe.tolist() if not payloads[i].strip()]
    return np.delete(np.arange(len(payloads)), blank) if blank else None
