"""Files with a checksum per block, by which a reader detects damage.

Every block is checked when it is read, even those of page headers and the footer. Parquet's own
checksums do not cover these.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

BLOCK_BYTES = 4 << 20


class ChecksummingFile:
    """Forwards writes to a file, and computes a CRC-32 of each block."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._full: list[int] = []
        self._crc = 0
        self.size_bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size_bytes = len(rest)
        while rest:
            room = BLOCK_BYTES - self.size_bytes % BLOCK_BYTES
            part, rest = rest[:room], rest[room:]
            self._crc = zlib.crc32(part, self._crc)
            self.size_bytes += len(part)
            if len(part) == room:
                self._full.append(self._crc)
                self._crc = 0
        self._file.write(data)
        return size_bytes

    def checksums(self) -> bytes:
        """Return four bytes per block, including a last one that is incomplete."""
        crcs = [*self._full, self._crc] if self.size_bytes % BLOCK_BYTES else self._full
        return struct.pack(f"<{len(crcs)}I", *crcs)

    def tell(self) -> int:
        return self.size_bytes

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Mark this file as closed. The underlying file stays open; its owner closes it."""
        self.closed = True


class CheckedFile(io.RawIOBase):
    """Reads a file whose size and checksums are known. Raises OSError if they do not match."""

    def __init__(self, file: Any, size_bytes: int, checksums: bytes) -> None:
        self._file = file  # Also if it is refused: then the collector closes it.
        blocks = -(-size_bytes // BLOCK_BYTES)
        if size_bytes < 0 or len(checksums) != 4 * blocks:
            raise OSError(f"there are {len(checksums)} bytes of checksums for {size_bytes} bytes")
        found = file.seek(0, io.SEEK_END)
        if found != size_bytes:
            raise OSError(f"it has {found} bytes, and {size_bytes} were written")
        self._size_bytes = size_bytes
        self._crcs = struct.unpack(f"<{blocks}I", checksums)
        self._at = 0
        self._block: tuple[int, bytes] = (-1, b"")
        """Number and bytes of the block read last: the next read often begins in it."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size_bytes

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = self._size_bytes
        if size is not None and size >= 0:
            end = min(end, self._at + size)
        parts = []
        while self._at < end:
            number, begin = divmod(self._at, BLOCK_BYTES)
            part = self._checked(number)[begin : begin + end - self._at]
            parts.append(part)
            self._at += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readall(self) -> bytes:
        return self.read()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def _checked(self, number: int) -> bytes:
        if self._block[0] != number:
            self._file.seek(number * BLOCK_BYTES)
            wanted = min(BLOCK_BYTES, self._size_bytes - number * BLOCK_BYTES)
            data: bytes = self._file.read(wanted)
            if len(data) != wanted or zlib.crc32(data) != self._crcs[number]:
                raise OSError(f"the checksum of its block {number} does not match")
            self._block = (number, data)
        return self._block[1]
