"""The contract of a publication: a file is written without being visible, and becomes visible in one
step.

The writer calls `create`, writes the file, closes it, and calls `settle`. The file's committable goes
into a checkpoint. After the checkpoint is complete the committer calls `publish`, at least once and
after every restart, until it returns. Files that no checkpoint contains are removed: by `drop` while
the writer runs, by `drop_stale` when the next attempt starts.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

import msgspec

from rheos.connectors.files.folder import SinkFolder
from rheos.core.errors import CheckpointError, UnrestorableError
from rheos.core.protocol.ids import Attempt, JobId


class FileCommittable(msgspec.Struct, frozen=True):
    """One closed file that is not published yet. Both paths are relative to the sink's folder."""

    staged: str
    """Path of the staged file. No other file of any attempt has this path."""
    target: str
    rows: int
    size_bytes: int
    upload: bytes = b""
    """Data that the object store needs to publish the file; empty if it is published by rename."""


class StagedOutput(io.RawIOBase):
    """A file that is being written, and that no reader sees."""

    upload: bytes = b""
    """See `FileCommittable.upload`. Known once the file is closed."""

    def __init__(self) -> None:
        super().__init__()
        self._size_bytes = 0

    def __del__(self) -> None:
        """Do nothing, unlike other files: the writer closes or drops each of its files."""

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size_bytes


class Publication(ABC):
    """Publishes the files of one sink."""

    def __init__(self, folder: SinkFolder, owner: str = "") -> None:
        """Create the publication, without a request.

        Args:
            folder: the sink's folder.
            owner: mark in the names of the sink's files, from `owner_mark`.
        """
        self.folder = folder
        self.owner = owner

    @abstractmethod
    def create(self, staged: str, target: str) -> StagedOutput:
        """Open a new file for writing. Both paths are relative to the folder. Raises OSError."""

    def settle(self, staged: Sequence[str]) -> None:
        """Make closed files survive a power cut. An object store does so by itself (FS5)."""

    @abstractmethod
    def publish(self, file: FileCommittable) -> None:
        """Make the file visible as a whole; do nothing if it already is (FS2, FS3).

        Raises:
            CheckpointError: another file has the name; nothing is overwritten (FS3).
            UnrestorableError: the file is neither staged nor published (FS3).
            OSError: the store failed. The file may be published or not; the caller tries again.
        """

    def tidy(self, files: Sequence[FileCommittable]) -> None:
        """Make published names durable, and remove empty folders. Called after `publish` of all."""

    @abstractmethod
    def drop(self, file: FileCommittable) -> None:
        """Remove a file of this attempt that is not published (FS6)."""

    @abstractmethod
    def drop_stale(self, job: JobId, before: Attempt, keep: Collection[FileCommittable]) -> None:
        """Remove what attempts before `before` have staged, except for `keep` (FS6)."""

    def taken(self, file: FileCommittable) -> CheckpointError:
        """Return the error for a target that is another file."""
        return CheckpointError(
            f"{self.folder.path(file.target)} exists already, but this run did not write it",
            hint="if two jobs with the same id write here, choose another folder for one; else "
            "move the file away",
        )

    def lost(self, file: FileCommittable) -> UnrestorableError:
        """Return the error for a file that is neither staged nor published."""
        return UnrestorableError(
            f"{self.folder.path(file.target)} ({file.rows} rows) is lost: neither staged nor published",
            hint="check whether something deleted files in the folder while the job ran; "
            "restore the file, or start the job from an earlier savepoint",
        )


def damaged(why: str) -> UnrestorableError:
    """Return the error for a committable that cannot be one of ours."""
    return UnrestorableError(
        f"the checkpoint's list of staged files is damaged: {why}",
        hint="restore the job's checkpoint directory from a copy, or start it from a savepoint",
    )
