"""Compression of files of lines, chosen by a setting or by file extension."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Mapping
from typing import IO, Any, Literal, TypeAlias

import pyarrow as pa

from rheos.core.errors import ProgramError

Codec: TypeAlias = Literal["none", "gzip", "zstd"]

ENDS: Mapping[Codec, str] = {"none": "", "gzip": ".gz", "zstd": ".zst"}
"""File extension of each codec."""

_SKIP_BYTES = 1 << 20


def check_codec(codec: str | None) -> None:
    """Raise ProgramError for an unknown codec."""
    if codec is not None and codec not in ENDS:
        raise ProgramError(
            f"compression={codec!r} is not known for files of lines",
            hint=f"write one of {', '.join(ENDS)}",
        )


def codec_by_name(name: str) -> Codec:
    lowered = name.lower()
    return next((codec for codec, end in ENDS.items() if end and lowered.endswith(end)), "none")


def without_end(name: str) -> str:
    """Return the name without the extension of the compression."""
    return name.removesuffix(ENDS[codec_by_name(name)])


def reader(file: Any, codec: Codec) -> Any:
    """Open the uncompressed content of an open file. The result has `read`, `close` and `seek`. `close`
    also closes the file; `seek` returns the new position. They raise OSError, EOFError or zlib.error
    for a damaged file."""
    return _READERS[codec](file)


class _GzipReader(gzip.GzipFile):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._below = file

    def close(self) -> None:
        super().close()
        self._below.close()


class _ZstdReader:
    def __init__(self, file: Any) -> None:
        self._file = file
        self._rewind()

    def _rewind(self) -> None:
        self._file.seek(0)
        self._data = pa.CompressedInputStream(pa.PythonFile(_WithoutClose(self._file), "r"), "zstd")
        self._at = 0

    def read(self, size: int) -> bytes:
        data: bytes = self._data.read(size)
        self._at += len(data)
        return data

    def seek(self, offset: int) -> int:
        if offset < self._at:
            self._rewind()
        while self._at < offset and self.read(min(offset - self._at, _SKIP_BYTES)):
            pass
        return self._at

    def close(self) -> None:
        self._file.close()


class _WithoutClose:
    """A file for Arrow to read, whose `close` leaves the underlying file open."""

    closed = False

    def __init__(self, file: Any) -> None:
        self.read = file.read

    def close(self) -> None:
        """Do nothing: the file belongs to the code that opened it."""


_READERS: Mapping[Codec, Callable[[Any], Any]] = {
    "none": lambda file: file,
    "gzip": _GzipReader,
    "zstd": _ZstdReader,
}


def writer(file: Any, codec: Codec) -> Any:
    """Return an object with `write` and `close`. `close` writes the end, but leaves the file open."""
    return _WRITERS[codec](file)


class _PlainWriter:
    def __init__(self, file: Any) -> None:
        self.write = file.write

    def close(self) -> None:
        """Do nothing: uncompressed data has no end mark."""


class _ZstdWriter:
    """Writes each buffer as a separate zstd frame; a file may have many."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        if data:
            self._file.write(pa.Codec("zstd").compress(data, asbytes=True))

    def close(self) -> None:
        """Do nothing: every frame is already complete."""


_WRITERS: Mapping[Codec, Callable[[Any], Any]] = {
    "none": _PlainWriter,
    "gzip": lambda file: gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0),
    "zstd": _ZstdWriter,
}


def compressed(data: bytes, codec: Codec) -> bytes:
    """Return the content of a compressed file that contains only this data."""
    out = io.BytesIO()
    into = writer(out, codec)
    into.write(data)
    into.close()
    return out.getvalue()
