"""Publishing of the files that a checkpoint contains, and removal of staged files that are not needed.

Files are published as `<path>/part-<sink>-<run>-<attempt>-<subtask>-<number>.<end>`, with partition
columns in their folders: `<path>/day=2026-03-01/part-...`. `publication/` has the procedure of each
file system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from rheos.connectors.files.folder import (
    EmptyFile,
    Mode,
    SinkFolder,
    check_target,
    remove_own,
)
from rheos.connectors.files.publication.contract import FileCommittable, Publication, damaged
from rheos.connectors.files.publication.rename_publication import STAGING, RenamePublication
from rheos.connectors.files.publication.schemes import open_publication
from rheos.core.connectors.contract import Committer
from rheos.core.connectors.outages import is_outage
from rheos.core.errors import CheckpointError, UnavailableError
from rheos.core.protocol.ids import Attempt, JobId


class _StagedPaths(Protocol):
    """Paths that both kinds of committables have, relative to the sink's folder."""

    @property
    def staged(self) -> str: ...

    @property
    def target(self) -> str: ...


T = TypeVar("T", bound=_StagedPaths)


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
        raise damaged(str(error)) from error
    if not file.staged.startswith(f"{STAGING}/") or not _is_below(file.staged):
        raise damaged(f"the name of a staged file is {file.staged!r}")
    if not _is_below(file.target):
        raise damaged(f"the name of a file to publish is {file.target!r}")
    return file


def _is_below(path: str) -> bool:
    """CP32: return whether the path is below the sink's folder."""
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


@dataclass(frozen=True)
class FileCommitter(Committer):
    path: str
    mode: Mode = "append"
    owner: str = ""
    empty: EmptyFile | None = None
    depth: int = 0
    """Number of folders above a published file, which is the number of partition columns."""
    by_rename: bool = False
    """Whether files are published by rename also on an object store, as those of a table are."""

    def check(self) -> None:
        check_target(SinkFolder(self.path), self.path, self.mode, self.owner, self.depth)

    def begin(self) -> None:
        folder = SinkFolder(self.path)
        if self.mode == "overwrite" and self.owner:
            remove_own(folder, self.owner, self.depth)
        if self.empty is not None:
            folder.put(self.empty.name, self.empty.content)

    def commit(self, committables: Sequence[bytes]) -> None:
        files = list(map(decode_staged, committables))
        publication = self._publication()
        try:
            for file in files:
                publication.publish(file)
            publication.tidy(files)
        except OSError as error:
            kind = UnavailableError if is_outage(error) else CheckpointError
            raise kind(
                f"files staged in {self.path} could not be published: {error}",
                hint="the folder must stay writable while the job runs",
            ) from error

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        kept = list(map(decode_staged, keep))
        self._publication().drop_stale(job, before, kept)

    def _publication(self) -> Publication:
        if self.by_rename:
            return RenamePublication(SinkFolder(self.path))
        return open_publication(self.path, self.owner)
