"""The format of files that Rheos reads back: JSON with a format version and a checksum.

    {"format": 2, "crc32": 3735928559, "entry": {...}}

The checksum covers the bytes of the part that follows it, so content that changed since it was written
is never decoded. That part also contains the file's own identity.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from rheos.core.errors import CheckpointError, UnrestorableError

MAX_BYTES = 512 * 1024 * 1024
"""Maximum size of a file that is decoded."""

T = TypeVar("T")

_envelope_decoder: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(
    dict[str, msgspec.Raw]
)
_number_decoder: msgspec.json.Decoder[int] = msgspec.json.Decoder(int)


@dataclass(frozen=True, slots=True)
class SealedFileKind:
    """One kind of file, and how errors refer to the file."""

    what: str
    """Description of the file in errors, such as "the log entry job/log/0000000001.json"."""
    key: str
    """Name of the JSON field with the content."""
    newest: int
    """Newest supported format. All formats from 1 to this one can be read."""
    if_damaged: str
    """Hint for a file that has changed since it was written."""
    if_later: str
    """Hint for a file that a later version has written."""

    def seal(self, body: bytes, format: int) -> bytes:
        """Return a file with the content `body`. Raise CheckpointError if the file would be too large
        to be read back."""
        data = msgspec.json.encode(
            {"format": format, "crc32": zlib.crc32(body), self.key: msgspec.Raw(body)}
        )
        if len(data) > MAX_BYTES:
            raise CheckpointError(
                f"{self.what} would have {len(data)} bytes; the limit is {MAX_BYTES}",
                hint="it contains small parts of state and what sinks have staged: reduce the number "
                "of sinks, files or operators",
            )
        return data

    def open(self, data: bytes) -> tuple[int, bytes]:
        """Return the format and the content of a sealed file. Raise UnrestorableError, with the file's
        name, if it is damaged or of a later format."""
        if len(data) > MAX_BYTES:
            raise self.damaged(f"it has {len(data)} bytes, but the maximum is {MAX_BYTES}")
        try:
            parts = _envelope_decoder.decode(data)
            format, checksum = (_number_decoder.decode(parts.pop(name)) for name in ("format", "crc32"))
        except KeyError as error:
            raise self.damaged(f"it has no field {error}") from error
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self.damaged(str(error)) from error
        if format > self.newest:
            raise UnrestorableError(
                f"{self.what} has format {format}; this version reads up to {self.newest}",
                hint=self.if_later,
            )
        if format < 1:
            raise self.damaged(f"unknown format {format}")
        if list(parts) != [self.key]:
            raise self.damaged(f"it has the fields {sorted(parts)} instead of {self.key!r}")
        body = bytes(parts[self.key])
        if zlib.crc32(body) != checksum:
            raise self.damaged("its checksum does not match")
        return format, body

    def decoded(self, body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
        """Decode the content. Raise UnrestorableError, with the file's name, if that fails."""
        try:
            return decoder.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self.damaged(str(error)) from error

    def damaged(self, why: str) -> UnrestorableError:
        return UnrestorableError(f"{self.what} is damaged: {why}", hint=self.if_damaged)
