"""Google Cloud Storage: a staged object is composed into its name, unless an object has the name.

`compose` with the precondition `ifGenerationMatch=0` creates the target in one step, without a copy
through the client. The staged object is deleted afterwards.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rheos.connectors.files.publication.contract import FileCommittable, StagedOutput
from rheos.connectors.files.publication.marks import MARK, check_own, decode_upload, new_mark
from rheos.connectors.files.publication.rename_publication import OpenStagedFile, StagedFiles

_EXISTS = ("412", "conditionnotmet", "precondition")


class GcsUpload(msgspec.Struct, frozen=True, array_like=True):
    """Identity of the published object."""

    mark: str


class GcsPublication(StagedFiles):
    """Composes staged objects into their names."""

    def create(self, staged: str, target: str) -> StagedOutput:
        upload = msgspec.msgpack.encode(GcsUpload(new_mark()))
        return OpenStagedFile(self.folder.create(staged), upload)

    def publish(self, file: FileCommittable) -> None:
        upload = decode_upload(file, GcsUpload)
        present = self._metadata(file.target)
        if present is None and self.folder.exists(file.staged):
            self._compose(file, upload)
            present = self._metadata(file.target)
        check_own(self, file, present, upload.mark)
        self.folder.remove(file.staged)

    def _compose(self, file: FileCommittable, upload: GcsUpload) -> None:
        bucket, staged, _ = self.folder.system.split_path(self.folder.path(file.staged))
        _, target, _ = self.folder.system.split_path(self.folder.path(file.target))
        request = {
            "sourceObjects": [{"name": staged}],
            "destination": {
                "contentType": "application/octet-stream",
                "metadata": {MARK: upload.mark},
            },
        }
        try:
            self.folder.system.call(
                "POST", "b/{}/o/{}/compose", bucket, target, json=request, ifGenerationMatch="0"
            )
        except Exception as error:
            # The object exists: a request whose answer was lost created it, or another writer did.
            if not any(phrase in str(error).lower() for phrase in _EXISTS):
                raise

    def _metadata(self, target: str) -> dict[str, str] | None:
        """Return the metadata of the object; None if it does not exist."""
        self.folder.system.invalidate_cache()
        try:
            found: dict[str, Any] = self.folder.system.info(self.folder.path(target))
        except FileNotFoundError:
            return None
        return dict(found.get("metadata") or {}) if found.get("type") == "file" else None
