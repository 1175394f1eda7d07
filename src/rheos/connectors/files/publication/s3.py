"""S3: a file is a multipart upload to its own name, which the commit completes.

S3 shows no object before its upload is completed, and then the whole object. Completing is idempotent
here: when the upload no longer exists, the object's mark tells whether this upload became the object.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Annotated, Any

import msgspec

from rheos.connectors.calls.store_retries import STORE_RETRIES
from rheos.connectors.files.folder import SinkFolder, attempt_of
from rheos.connectors.files.publication.contract import FileCommittable, Publication, StagedOutput
from rheos.connectors.files.publication.marks import (
    MARK,
    PartedOutput,
    check_own,
    decode_upload,
    new_mark,
)
from rheos.core.protocol.ids import Attempt, JobId

PART_BYTES = 8 << 20
"""Size of a part of an upload. S3 allows from 5 MB, except for the last part."""

_MAX_PARTS = 10_000
_PAGES = 10_000
"""Maximum number of pages of a listing, each of up to 1,000 uploads."""


class S3Upload(msgspec.Struct, frozen=True, array_like=True):
    """Identity and parts of an upload."""

    upload_id: str
    mark: str
    etags: Annotated[list[str], msgspec.Meta(min_length=1, max_length=_MAX_PARTS)]
    """Tags of its parts, in their order."""


class _Requests:
    """Requests to S3, through the client of s3fs, for objects below a folder."""

    def __init__(self, folder: SinkFolder) -> None:
        self._system = folder.system
        self._path = folder.path

    def __call__(self, method: str, target: str, **arguments: Any) -> dict[str, Any]:
        bucket, key, _ = self._system.split_path(self._path(target))
        answer: dict[str, Any] = self._system.call_s3(method, Bucket=bucket, Key=key, **arguments)
        return answer

    def uploads(self, target: str = "") -> Iterator[tuple[str, str]]:
        """Yield key and id of the uploads that are neither completed nor aborted: of all that are below
        the folder, or of those to a target."""
        bucket, folder, _ = self._system.split_path(self._path(""))
        folder = folder.rstrip("/") + "/"
        after: dict[str, str] = {}
        for _ in range(_PAGES):
            page = self._system.call_s3(
                "list_multipart_uploads", Bucket=bucket, Prefix=folder + target, **after
            )
            for upload in page.get("Uploads", ()):
                yield upload["Key"].removeprefix(folder), upload["UploadId"]
            if not page.get("IsTruncated"):
                return
            after = {
                "KeyMarker": page["NextKeyMarker"],
                "UploadIdMarker": page.get("NextUploadIdMarker", ""),
            }

    def abort(self, target: str, upload_id: str) -> None:
        """Abort an upload. Does nothing if it was aborted or completed before."""
        with contextlib.suppress(FileNotFoundError):
            self("abort_multipart_upload", target, UploadId=upload_id)


class _PartUpload(PartedOutput):
    """Parts of a file on their way to S3."""

    def __init__(self, requests: _Requests, target: str) -> None:
        super().__init__(PART_BYTES)
        self._requests = requests
        self._target = target
        self._mark = new_mark()
        retries = STORE_RETRIES.total()
        answer = requests("create_multipart_upload", target, Metadata={MARK: self._mark})
        self._upload_id = str(answer["UploadId"])
        if STORE_RETRIES.total() > retries:
            # A request whose answer was lost may have created another upload. No one else has its name.
            for key, upload_id in list(requests.uploads(target)):
                if key == target and upload_id != self._upload_id:
                    requests.abort(target, upload_id)
        self._etags: list[str] = []

    def send(self, part: bytes) -> None:
        number = len(self._etags) + 1
        answer = self._requests(
            "upload_part", self._target, UploadId=self._upload_id, PartNumber=number, Body=part
        )
        self._etags.append(str(answer["ETag"]))
        if number % 1000 == 0:  # S3 allows 10,000 parts: a very large file has larger ones.
            self._part_bytes *= 2

    def encoded_upload(self) -> bytes:
        return msgspec.msgpack.encode(S3Upload(self._upload_id, self._mark, self._etags))


class S3Publication(Publication):
    """Completes multipart uploads. Uploads that are not needed are aborted."""

    def __init__(self, folder: SinkFolder, owner: str = "") -> None:
        super().__init__(folder, owner)
        self._requests = _Requests(folder)

    def create(self, staged: str, target: str) -> StagedOutput:
        return _PartUpload(self._requests, target)

    def publish(self, file: FileCommittable) -> None:
        upload = decode_upload(file, S3Upload)
        present = self._mark_of(file.target)
        if present is None:
            parts = [
                {"PartNumber": number, "ETag": etag} for number, etag in enumerate(upload.etags, 1)
            ]
            try:
                self._requests(
                    "complete_multipart_upload",
                    file.target,
                    UploadId=upload.upload_id,
                    MultipartUpload={"Parts": parts},
                )
                return
            except FileNotFoundError:  # A request whose answer was lost has completed or aborted it.
                present = self._mark_of(file.target)
        check_own(self, file, present, upload.mark)

    def _mark_of(self, target: str) -> dict[str, str] | None:
        """Return the metadata of the object; None if it does not exist."""
        try:
            return dict(self._requests("head_object", target).get("Metadata") or {})
        except FileNotFoundError:
            return None

    def drop(self, file: FileCommittable) -> None:
        self._requests.abort(file.target, decode_upload(file, S3Upload).upload_id)

    def drop_stale(self, job: JobId, before: Attempt, keep: Collection[FileCommittable]) -> None:
        kept = {decode_upload(file, S3Upload).upload_id for file in keep}
        for target, upload_id in self._requests.uploads():
            attempt = attempt_of(target, self.owner)
            if attempt is not None and attempt < before and upload_id not in kept:
                self._requests.abort(target, upload_id)
