"""Notes next to staged files, for a delivery of which an earlier try may have begun."""

from __future__ import annotations

import posixpath
from typing import Generic, TypeVar

import msgspec

from rheos.connectors.files.folder import SinkFolder
from rheos.core.errors import UnrestorableError

_BEGUN = ".begun"
_MOST_BYTES = 4096
N = TypeVar("N")


class EpochNotes(Generic[N]):
    """Notes of one kind, which are small structures."""

    def __init__(self, kind: type[N]) -> None:
        self._kind = kind

    def found(self, folder: SinkFolder, path: str) -> N | None:
        """Return the note of an earlier try to deliver a staged file; None if this is the first one.

        Args:
            folder: Folder with the staged files.
            path: Path of the file.

        Returns:
            The note, or None.

        Raises:
            UnrestorableError: The note is damaged.
        """
        name = path + _BEGUN
        if not folder.exists(name):
            return None
        with folder.system.open(folder.path(name), "rb") as file:
            content = file.read(_MOST_BYTES)
        try:
            return msgspec.json.decode(content, type=self._kind)
        except (msgspec.MsgspecError, ValueError) as error:
            raise UnrestorableError(
                f"the note of a staged epoch is damaged: {error}",
                hint="restore the job's checkpoint directory from a copy, or start it from a savepoint",
            ) from error

    def write(self, folder: SinkFolder, path: str, note: N) -> None:
        """Write the note of the first try. It is durable when this method returns."""
        name = path + _BEGUN
        with folder.create(f"{name}.tmp") as file:
            file.write(msgspec.json.encode(note))
        folder.sync(f"{name}.tmp")
        folder.rename(f"{name}.tmp", name)
        folder.sync(posixpath.dirname(name))

    def kept(self, folder: SinkFolder, path: str, note: N) -> N:
        """Return the note of an earlier try; otherwise write this one, and return it."""
        found = self.found(folder, path)
        if found is None:
            self.write(folder, path, note)
            return note
        return found
