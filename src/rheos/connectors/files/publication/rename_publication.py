"""Files that are staged in a hidden folder, `<folder>/.rheos-staging/<job>/<attempt>/<name>`.

`RenamePublication` moves them to their names: on local disks and HDFS, where a rename is one step. A
name is never used twice, so that the pair (is it staged?, is it published?) determines the state:

    staged, not published      rename it
    not staged, published      done already
    staged, published          another file has this name: an error, nothing is overwritten
    neither                    lost: an error
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import quote, unquote

from rheos.connectors.files.publication.contract import FileCommittable, Publication, StagedOutput
from rheos.core.protocol.ids import Attempt, JobId

STAGING = ".rheos-staging"


def staging_folder(job: JobId, attempt: Attempt) -> str:
    """Return the folder of an attempt's staged files, relative to the sink's folder."""
    return posixpath.join(STAGING, quote(job, safe=""), str(attempt))


class OpenStagedFile(StagedOutput):
    """A staged file of a file system."""

    def __init__(self, raw: Any, upload: bytes = b"") -> None:
        super().__init__()
        self.upload = upload
        self._raw = raw

    def write(self, data: Any) -> int:
        written = int(self._raw.write(data))
        self._size_bytes += written
        return written

    def flush(self) -> None:
        if not self._raw.closed:
            self._raw.flush()

    def close(self) -> None:
        if not self._raw.closed:
            self._raw.close()
        super().close()


class StagedFiles(Publication):
    """Publication of files that are staged in the hidden folder."""

    def create(self, staged: str, target: str) -> StagedOutput:
        return OpenStagedFile(self.folder.create(staged))

    def settle(self, staged: Sequence[str]) -> None:
        for path in staged:
            self.folder.sync(path)

    def tidy(self, files: Sequence[FileCommittable]) -> None:
        for place in sorted({place for file in files for place in _folders_of(file.target)}):
            self.folder.sync(place)
        for staged in sorted({posixpath.dirname(file.staged) for file in files}):
            self.folder.remove_if_empty(staged)

    def drop(self, file: FileCommittable) -> None:
        self.folder.remove(file.staged)

    def drop_stale(self, job: JobId, before: Attempt, keep: Collection[FileCommittable]) -> None:
        kept = {file.staged for file in keep}
        of_job = posixpath.join(STAGING, quote(job, safe=""))
        for attempt in self.folder.names(of_job):
            if not unquote(attempt).isdigit() or int(attempt) >= before:
                continue
            staged_in = posixpath.join(of_job, attempt)
            for name in self.folder.names(staged_in):
                if posixpath.join(staged_in, name) not in kept:
                    self.folder.remove(posixpath.join(staged_in, name))
            self.folder.remove_if_empty(staged_in)


class RenamePublication(StagedFiles):
    """Moves staged files to their names."""

    def publish(self, file: FileCommittable) -> None:
        staged, published = self.folder.exists(file.staged), self.folder.exists(file.target)
        if staged and published:
            raise self.taken(file)
        if not staged and not published:
            raise self.lost(file)
        if staged:
            try:
                self.folder.rename(file.staged, file.target)
            except FileExistsError:  # Another file has got the name since.
                raise self.taken(file) from None


def _folders_of(target: str) -> list[str]:
    """Return the folders whose listing the published file changes: its own, and all that contain it."""
    parts = target.split("/")[:-1]
    return ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]
