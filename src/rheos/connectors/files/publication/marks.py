"""Uploads of object stores: files in parts, and the mark that recognises a published object.

The mark is a random nonce in the object's metadata. Object stores may lose the answer of a request that
took effect. Then the commit is repeated. It finds an object, and must decide whether it has created
that object itself (FS3).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar
from uuid import uuid4

import msgspec

from rheos.connectors.files.publication.contract import (
    FileCommittable,
    Publication,
    StagedOutput,
    damaged,
)

MARK = "rheos_file"
"""Name of the metadata entry. Azure allows letters, digits and underscores only."""

T = TypeVar("T")


def new_mark() -> str:
    """Return a mark that no other object has."""
    return uuid4().hex


def check_own(
    publication: Publication, file: FileCommittable, metadata: Mapping[str, str] | None, mark: str
) -> None:
    """Check that a published object has the mark. Services may change the case of names.

    Args:
        publication: the publication of the file, for the error.
        file: the file to publish.
        metadata: metadata of the object at its target; None if it does not exist.
        mark: the mark of the upload.

    Raises:
        UnrestorableError: there is no object.
        CheckpointError: the object is another one.
    """
    if metadata is None:
        raise publication.lost(file)
    if not any(name.lower() == MARK and value == mark for name, value in metadata.items()):
        raise publication.taken(file)


def decode_upload(file: FileCommittable, kind: type[T]) -> T:
    """Decode `file.upload`. Raises UnrestorableError if the bytes are not such an upload."""
    try:
        return msgspec.msgpack.decode(file.upload, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise damaged(f"{file.target!r} has no upload of this store: {error}") from error


class PartedOutput(StagedOutput):
    """A file that is sent in parts. Up to one part is in memory."""

    def __init__(self, part_bytes: int) -> None:
        super().__init__()
        self._part_bytes = part_bytes
        self._parts = 0
        """Number of parts that have been sent."""
        self._buffer = bytearray()

    def write(self, data: Any) -> int:
        self._buffer += data
        size_bytes = memoryview(data).nbytes
        self._size_bytes += size_bytes
        while len(self._buffer) >= self._part_bytes:
            self._send(self._part_bytes)
        return size_bytes

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self._buffer or not self._parts:
                self._send(len(self._buffer))
        finally:
            self.upload = self.encoded_upload()  # Also after an error: it identifies what to drop.
            super().close()

    def _send(self, size_bytes: int) -> None:
        self.send(bytes(self._buffer[:size_bytes]))
        del self._buffer[:size_bytes]
        self._parts += 1

    @abstractmethod
    def send(self, part: bytes) -> None:
        """Send the next part. Raises OSError."""

    @abstractmethod
    def encoded_upload(self) -> bytes:
        """Return the data that is needed to publish the file; see `FileCommittable.upload`. Called
        after the last part."""
