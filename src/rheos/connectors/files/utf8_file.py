"""Text files in encodings other than UTF-8, read as UTF-8."""

from __future__ import annotations

import codecs
from typing import Any

from rheos.core.errors import ProgramError

_PIECE_BYTES = 1 << 20


def check_encoding(encoding: str) -> str | None:
    """Return the encoding's name; None for UTF-8. Raises ProgramError if Python does not know it."""
    try:
        found = codecs.lookup(encoding)
        "".encode(encoding)
    except (LookupError, TypeError, ValueError):
        raise ProgramError(
            f"encoding={encoding!r} is not a character encoding",
            hint='use an encoding that Python knows, such as "latin-1", "cp1252" or "utf-16"',
        ) from None
    return None if found.name in ("utf-8", "utf-8-sig") else found.name


class Utf8File:
    """Reads a file as UTF-8, without a byte order mark. Offsets refer to the UTF-8 bytes.

    Raises UnicodeError, with the offset in the file, if bytes are invalid in the encoding.
    """

    def __init__(self, file: Any, encoding: str) -> None:
        self._file = file
        self._encoding = encoding
        self._rewind()

    def _rewind(self) -> None:
        self._decoder = codecs.getincrementaldecoder(self._encoding)()
        self._read = 0
        """Number of bytes of the file that the decoder has consumed."""
        self._rest = b""
        self._at = 0
        self._ended = False

    def read(self, size: int) -> bytes:
        while len(self._rest) < size and not self._ended:
            piece = self._file.read(_PIECE_BYTES)
            self._ended = not piece
            self._rest += self._decoded(piece)
        data, self._rest = self._rest[:size], self._rest[size:]
        self._at += len(data)
        return data

    def _decoded(self, piece: bytes) -> bytes:
        pending = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(piece, final=self._ended)
        except UnicodeDecodeError as error:
            at = self._read - pending + error.start
            raise UnicodeError(
                f"it is not valid {self._encoding} from byte {at} on: {error.reason}"
            ) from None
        if not self._read:
            text = text.removeprefix("\ufeff")
        self._read += len(piece)
        return text.encode("utf-8", "surrogatepass")

    def seek(self, offset: int) -> int:
        if offset < self._at:
            self._file.seek(0)
            self._rewind()
        while self._at < offset and self.read(min(offset - self._at, _PIECE_BYTES)):
            pass
        return self._at

    def close(self) -> None:
        self._file.close()
