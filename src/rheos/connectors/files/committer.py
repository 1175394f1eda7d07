"""Publishing of staged files by rename, and removal of staged files that are not needed.

Files are staged in `<path>/.rheos-staging/<job>/<attempt>/` and published as
`<path>/part-<sink>-<run>-<attempt>-<subtask>-<number>.<end>`, with partition columns in their folders:
`<path>/day=2026-03-01/part-...`. A name is never used twice, so that the
pair (is it staged?, is it published?) determines the state of a commit:

    staged, not published      rename it
    not staged, published      done already
    staged, published          another file has this name: an error, nothing is overwritten
    neither                    lost: an error
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar
from urllib.parse import quote, unquote

import msgspec

from rheos.connectors.files.folder import (
    EmptyFile,
    Mode,
    SinkFolder,
    check_target,
    put_empty,
    remove_own,
)
from rheos.core.connectors.contract import Committer
from rheos.core.connectors.outages import is_outage
from rheos.core.errors import CheckpointError, UnavailableError, UnrestorableError
from rheos.core.protocol.ids import Attempt, JobId

STAGING = ".rheos-staging"


class _Staged(Protocol):
    """Committable of either kind: paths relative to the sink's folder."""

    @property
    def staged(self) -> str: ...

    @property
    def target(self) -> str: ...


T = TypeVar("T", bound=_Staged)


class FileCommittable(msgspec.Struct, frozen=True):
    """Committable of a file; both paths are relative to the sink's folder."""

    staged: str
    target: str
    rows: int
    size_bytes: int


_decoder = msgspec.msgpack.Decoder(FileCommittable)


def decode_staged(committable: bytes) -> FileCommittable:
    """Decode a committable. Raises UnrestorableError if it is damaged, or contains a path that Rheos
    would not create."""
    return checked(committable, _decoder)


def checked(committable: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """Decode a committable that has `staged` and `target`. Raises like `decode_staged`."""
    try:
        file = decoder.decode(committable)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _damaged(str(error)) from error
    if not file.staged.startswith(f"{STAGING}/") or not _is_below(file.staged):
        raise _damaged(f"the name of a staged file is {file.staged!r}")
    if not _is_below(file.target):
        raise _damaged(f"the name of a file to publish is {file.target!r}")
    return file


def _is_below(path: str) -> bool:
    """CP32: return whether the path is below the sink's folder."""
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def _damaged(why: str) -> UnrestorableError:
    return UnrestorableError(
        f"the checkpoint's list of staged files is damaged: {why}",
        hint="restore the job's checkpoint directory from a copy, or start it from a savepoint",
    )


def staging_folder(job: JobId, attempt: Attempt) -> str:
    return posixpath.join(STAGING, quote(job, safe=""), str(attempt))


def _folders_of(target: str) -> list[str]:
    """Return the folders whose listing the published file changes: its own, and all that contain it."""
    parts = target.split("/")[:-1]
    return ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]


@dataclass(frozen=True)
class FileCommitter(Committer):
    path: str
    mode: Mode = "append"
    owner: str = ""
    empty: EmptyFile | None = None
    depth: int = 0
    """Number of folders above a published file, which is the number of partition columns."""

    def check(self) -> None:
        check_target(SinkFolder(self.path), self.path, self.mode, self.owner, self.depth)

    def begin(self) -> None:
        folder = SinkFolder(self.path)
        if self.mode == "overwrite" and self.owner:
            remove_own(folder, self.owner, self.depth)
        if self.empty is not None:
            put_empty(folder, self.empty)

    def commit(self, committables: Sequence[bytes]) -> None:
        files = list(map(decode_staged, committables))
        folder = SinkFolder(self.path)
        try:
            for file in files:
                self._publish(folder, file)
            for place in sorted({place for file in files for place in _folders_of(file.target)}):
                folder.sync(place)
        except OSError as error:
            kind = UnavailableError if is_outage(error) else CheckpointError
            raise kind(
                f"files staged in {self.path} could not be published: {error}",
                hint="the folder must stay writable while the job runs",
            ) from error
        for staged in sorted({posixpath.dirname(file.staged) for file in files}):
            folder.remove_if_empty(staged)

    def _publish(self, folder: SinkFolder, file: FileCommittable) -> None:
        staged, published = folder.exists(file.staged), folder.exists(file.target)
        if staged and published:
            raise CheckpointError(
                f"{folder.path(file.target)} exists already, but this run did not write it",
                hint="if two jobs with the same id write here, choose another folder for one; else "
                "move the file away",
            )
        if not staged and not published:
            raise UnrestorableError(
                f"{folder.path(file.target)} ({file.rows} rows) is lost: neither staged nor published",
                hint="check whether something deleted files in the folder while the job ran; "
                "restore the file, or start the job from an earlier savepoint",
            )
        if staged:
            folder.rename(file.staged, file.target)

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        kept = {decode_staged(committable).staged for committable in keep}
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
