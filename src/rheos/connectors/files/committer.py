"""Publishing staged files by rename, and clearing away what was staged in vain.

Files are staged in `<path>/.rheos-staging/<job>/<attempt>/` and published as
`<path>/part-<sink>-<attempt>-<subtask>-<number>.<end>`. A name is never used twice, so that the pair
(staged there?, published there?) says how far a commit has come:

    staged, not published      to be renamed
    not staged, published      done already
    staged, published          somebody else's file has the name: an error, nothing is overwritten
    neither                    lost: an error
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import fsspec
import msgspec

from rheos.connectors.contract import Committer
from rheos.errors import CheckpointError, UnrestorableError
from rheos.protocol.ids import Attempt, JobId

STAGING = ".rheos-staging"


class StagedFile(msgspec.Struct, frozen=True):
    """The committable: both paths are relative to the sink's folder."""

    staged: str
    target: str
    rows: int
    size_bytes: int


_decoder = msgspec.msgpack.Decoder(StagedFile)


def staging_folder(job: JobId, attempt: Attempt) -> str:
    return posixpath.join(STAGING, quote(job, safe=""), str(attempt))


class Folder:
    """The sink's folder. Locally, what is written and renamed is also made to survive a power cut."""

    def __init__(self, url: str) -> None:
        self.system, self.root = fsspec.core.url_to_fs(url)
        self.local = "file" in self.system.protocol

    def path(self, relative: str) -> str:
        return posixpath.join(self.root, relative)

    def exists(self, relative: str) -> bool:
        self.system.invalidate_cache()  # Other processes write here, too.
        return bool(self.system.exists(self.path(relative)))

    def create(self, relative: str) -> Any:
        """Opens a new file for writing, and makes its folder, which others may remove meanwhile."""
        parent = posixpath.dirname(self.path(relative))
        for _ in range(100):
            try:
                self.system.makedirs(parent, exist_ok=True)
                return self.system.open(self.path(relative), "wb")
            except FileNotFoundError:
                continue
        raise FileNotFoundError(parent)

    def rename(self, staged: str, target: str) -> None:
        if self.local:
            os.rename(self.path(staged), self.path(target))
        else:
            self.system.mv(self.path(staged), self.path(target))

    def sync(self, relative: str) -> None:
        """Makes a closed file, or the names in a folder, durable."""
        if self.local:
            handle = os.open(self.path(relative), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def remove(self, relative: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.system.rm_file(self.path(relative))

    def names(self, relative: str) -> list[str]:
        """The names in a folder; none where there is no such folder."""
        path = self.path(relative)
        self.system.invalidate_cache()
        try:
            found = self.system.ls(path, detail=False)
        except FileNotFoundError:
            return []
        return sorted(posixpath.basename(name.rstrip("/")) for name in found)

    def remove_if_empty(self, relative: str) -> None:
        """Removes the folder and its empty parents, up to the staging folder."""
        while relative:
            try:
                if self.names(relative):
                    return
                self.system.rmdir(self.path(relative))
            except FileNotFoundError:
                pass
            except OSError:
                return  # Another subtask has put a file there meanwhile.
            relative = posixpath.dirname(relative)


@dataclass(frozen=True)
class FileCommitter(Committer):
    path: str

    def commit(self, committables: Sequence[bytes]) -> None:
        files = [_decoder.decode(committable) for committable in committables]
        folder = Folder(self.path)
        try:
            for file in files:
                self._publish(folder, file)
            if files:
                folder.sync("")
        except OSError as error:
            raise CheckpointError(
                f"files staged in {self.path} could not be published: {error}",
                hint="the folder must stay writable while the job runs",
            ) from error
        for staged in sorted({posixpath.dirname(file.staged) for file in files}):
            folder.remove_if_empty(staged)

    def _publish(self, folder: Folder, file: StagedFile) -> None:
        staged, published = folder.exists(file.staged), folder.exists(file.target)
        if staged and published:
            raise CheckpointError(
                f"{folder.path(file.target)} is there already, and is not from this run",
                hint="do two jobs of one id write here? move the file away, or choose another folder",
            )
        if not staged and not published:
            raise UnrestorableError(
                f"{folder.path(file.target)} ({file.rows} rows) is lost: neither staged nor published",
                hint="was the folder cleaned, or are its files taken away, while the job ran? put the "
                "file back, or start the job from a savepoint before",
            )
        if staged:
            folder.rename(file.staged, file.target)

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        kept = {_decoder.decode(committable).staged for committable in keep}
        folder = Folder(self.path)
        of_job = posixpath.join(STAGING, quote(job, safe=""))
        for attempt in folder.names(of_job):
            if not unquote(attempt).isdigit() or int(attempt) >= before:
                continue
            staged_in = posixpath.join(of_job, attempt)
            for name in folder.names(staged_in):
                if posixpath.join(staged_in, name) not in kept:
                    folder.remove(posixpath.join(staged_in, name))
            folder.remove_if_empty(staged_in)
