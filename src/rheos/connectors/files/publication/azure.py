"""Azure Blob Storage: a file is a list of blocks of its own blob. The commit creates the blob from
them.

Azure shows no blob before its block list is committed. It removes blocks that were not committed within
a week; it has no request that removes them earlier.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Awaitable, Callable, Collection
from typing import Annotated, Any, TypeVar

import msgspec

from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.files.publication.contract import FileCommittable, Publication, StagedOutput
from rheos.connectors.files.publication.marks import (
    MARK,
    PartedOutput,
    check_own,
    decode_upload,
    new_mark,
)
from rheos.core.protocol.ids import Attempt, JobId

BLOCK_BYTES = 8 << 20
_MAX_BLOCKS = 50_000

T = TypeVar("T")


class AzureUpload(msgspec.Struct, frozen=True, array_like=True):
    """Block list of a blob."""

    mark: str
    blocks: Annotated[int, msgspec.Meta(ge=1, le=_MAX_BLOCKS)]
    """Number of blocks."""


def _block_id(mark: str, number: int) -> str:
    """Return the id of a block. All ids of a blob have one length."""
    return base64.b64encode(f"{mark}{number:05d}".encode()).decode()


class _Blobs:
    """Requests for blobs below a folder, through the asynchronous client of adlfs."""

    def __init__(self, folder: SinkFolder) -> None:
        self._folder = folder

    def run(self, target: str, what: str, request: Callable[[Any], Awaitable[T]]) -> T:
        """Return what `request` returns for the client of a blob."""
        from fsspec.asyn import sync

        system = self._folder.system
        container, name, *_ = system.split_path(self._folder.path(target))

        async def ask() -> T:
            async with system.service_client.get_blob_client(container, name) as blob:
                return await request(blob)

        result: T = system.run(self._folder.path(target), what, lambda: sync(system.loop, ask))
        return result

    def metadata(self, target: str) -> dict[str, str] | None:
        """Return the metadata of the blob; None if it does not exist."""
        from azure.core.exceptions import ResourceNotFoundError

        async def ask(blob: Any) -> dict[str, str]:
            properties = await blob.get_blob_properties()
            return dict(properties.metadata or {})

        try:
            return self.run(target, "get_blob_properties", ask)
        except (ResourceNotFoundError, FileNotFoundError):
            return None


class _BlockUpload(PartedOutput):
    """Blocks of a file on their way to Azure."""

    def __init__(self, blobs: _Blobs, target: str) -> None:
        super().__init__(BLOCK_BYTES)
        self._blobs = blobs
        self._target = target
        self._mark = new_mark()

    def send(self, part: bytes) -> None:
        name = _block_id(self._mark, self._parts)
        self._blobs.run(
            self._target,
            "stage_block",
            lambda blob: blob.stage_block(name, io.BytesIO(part), length=len(part)),
        )

    def encoded_upload(self) -> bytes:
        return msgspec.msgpack.encode(AzureUpload(self._mark, self._parts))


class AzurePublication(Publication):
    """Commits block lists, unless a blob has the name."""

    def __init__(self, folder: SinkFolder, owner: str = "") -> None:
        super().__init__(folder, owner)
        self._blobs = _Blobs(folder)

    def create(self, staged: str, target: str) -> StagedOutput:
        return _BlockUpload(self._blobs, target)

    def publish(self, file: FileCommittable) -> None:
        from azure.core import MatchConditions
        from azure.core.exceptions import HttpResponseError
        from azure.storage.blob import BlobBlock

        upload = decode_upload(file, AzureUpload)
        blocks = [BlobBlock(_block_id(upload.mark, number)) for number in range(upload.blocks)]

        async def commit(blob: Any) -> None:
            await blob.commit_block_list(
                blocks,
                metadata={MARK: upload.mark},
                match_condition=MatchConditions.IfMissing,
            )

        present = self._blobs.metadata(file.target)
        if present is None:
            try:
                self._blobs.run(file.target, "commit_block_list", commit)
                return
            except HttpResponseError as error:
                # 409, 412: the blob exists. 400: the blocks do not, as after a commit or after a week.
                if error.status_code not in (400, 404, 409, 412):
                    raise
                present = self._blobs.metadata(file.target)
        check_own(self, file, present, upload.mark)

    def drop(self, file: FileCommittable) -> None:
        """Do nothing: Azure removes blocks by itself."""

    def drop_stale(self, job: JobId, before: Attempt, keep: Collection[FileCommittable]) -> None:
        """Do nothing: Azure removes blocks by itself."""
