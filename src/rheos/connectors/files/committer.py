"""Publishing staged files by rename, and clearing away what was staged in vain.

Files are staged in `<path>/.rheos-staging/<job>/<attempt>/` and published as
`<path>/part-<sink>-<run>-<attempt>-<subtask>-<number>.<end>`. A name is never used twice, so that the
pair (staged there?, published there?) says how far a commit has come:

    staged, not published      to be renamed
    not staged, published      done already
    staged, published          somebody else's file has the name: an error, nothing is overwritten
    neither                    lost: an error
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

import msgspec

from rheos.connectors.contract import Committer
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.files.target import EmptyFile, Mode, check_target, put_empty, remove_own
from rheos.errors import CheckpointError, UnrestorableError
from rheos.protocol.ids import Attempt, JobId

STAGING = ".rheos-staging"


class FileCommittable(msgspec.Struct, frozen=True):
    """The committable: both paths are relative to the sink's folder."""

    staged: str
    target: str
    rows: int
    size_bytes: int


_decoder = msgspec.msgpack.Decoder(FileCommittable)


def staging_folder(job: JobId, attempt: Attempt) -> str:
    return posixpath.join(STAGING, quote(job, safe=""), str(attempt))


@dataclass(frozen=True)
class FileCommitter(Committer):
    path: str
    mode: Mode = "append"
    owner: str = ""
    empty: EmptyFile | None = None

    def check(self) -> None:
        check_target(SinkFolder(self.path), self.path, self.mode, self.owner)

    def begin(self) -> None:
        folder = SinkFolder(self.path)
        if self.mode == "overwrite" and self.owner:
            remove_own(folder, self.owner)
        if self.empty is not None:
            put_empty(folder, self.empty)

    def commit(self, committables: Sequence[bytes]) -> None:
        files = [_decoder.decode(committable) for committable in committables]
        folder = SinkFolder(self.path)
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

    def _publish(self, folder: SinkFolder, file: FileCommittable) -> None:
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
        folder = SinkFolder(self.path)
        of_job = posixpath.join(STAGING, quote(job, safe=""))
        for attempt in folder.names(of_job):
            if not unquote(attempt).isdigit() or int(attempt) >= before:
                continue
            staged_in = posixpath.join(of_job, attempt)
            for name in folder.names(staged_in):
                if posixpath.join(staged_in, name) not in kept:
                    folder.remove(posixpath.join(staged_in, name))
            folder.remove_if_empty(staged_in)
