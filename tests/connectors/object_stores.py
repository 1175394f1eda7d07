# ruff: noqa: N803
"""Object stores in memory, by the calls that publications make, with faults at any request.

Each store does what its service documents: S3 shows no object before its upload is completed, GCS
composes under a precondition, Azure shows no blob before its block list is committed.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

from fsspec.asyn import get_loop
from fsspec.implementations.memory import MemoryFileSystem

Moment = Literal["before", "after"]


class KilledError(Exception):
    """The process ended at a request."""


@dataclass
class Faults:
    """One fault, at the request with a number."""

    at: int | None = None
    moment: Moment = "before"
    error: Callable[[], Exception] = KilledError
    requests: int = 0
    """Number of requests so far."""

    @contextmanager
    def request(self) -> Iterator[None]:
        self.requests += 1
        strikes = self.requests == self.at
        if strikes and self.moment == "before":
            raise self.error()
        yield
        if strikes:
            raise self.error()


@dataclass
class Stored:
    data: bytes
    metadata: dict[str, str] = field(default_factory=dict)


class ObjectStore:
    """What the three have in common: the calls of fsspec for whole objects."""

    protocol: Any = "store"

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.objects: dict[str, Stored] = {}

    def leftovers(self) -> list[str]:
        """Return what is stored besides published objects."""
        return [key for key in self.objects if "/.rheos-staging/" in key]

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.partition("/")
        return bucket, key, None

    def invalidate_cache(self) -> None:
        pass

    def ls(self, path: str, detail: bool = False) -> list[str]:
        with self.faults.request():
            prefix = path.rstrip("/") + "/"
            names = {key[len(prefix) :].split("/")[0] for key in self.objects if key.startswith(prefix)}
            if not names:
                raise FileNotFoundError(path)
            return [prefix + name for name in sorted(names)]

    def isdir(self, path: str) -> bool:
        return any(key.startswith(path.rstrip("/") + "/") for key in self.objects)

    def exists(self, path: str) -> bool:
        with self.faults.request():
            return path in self.objects

    def info(self, path: str) -> dict[str, Any]:
        with self.faults.request():
            if path not in self.objects:
                raise FileNotFoundError(path)
            return {"type": "file", "metadata": self.objects[path].metadata}

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        pass

    def pipe_file(self, path: str, data: bytes) -> None:
        with self.faults.request():
            self.objects[path] = Stored(bytes(data))

    def rm_file(self, path: str) -> None:
        with self.faults.request():
            if self.objects.pop(path, None) is None:
                raise FileNotFoundError(path)

    def open(self, path: str, mode: str) -> io.BytesIO:
        store = self

        class Uploaded(io.BytesIO):
            def close(self) -> None:
                if not self.closed:
                    store.pipe_file(path, self.getvalue())
                super().close()

        assert mode == "wb"
        return Uploaded()


class S3(ObjectStore):
    protocol = "s3"

    def __init__(self, faults: Faults) -> None:
        super().__init__(faults)
        self.uploads: dict[str, tuple[str, dict[str, str], dict[int, bytes]]] = {}

    def leftovers(self) -> list[str]:
        return [key for key, _, _ in self.uploads.values()]

    def call_s3(self, method: str, **arguments: Any) -> dict[str, Any]:
        with self.faults.request():
            answer: dict[str, Any] = getattr(self, f"_{method}")(**arguments)
            return answer

    def _create_multipart_upload(
        self, Bucket: str, Key: str, Metadata: dict[str, str]
    ) -> dict[str, Any]:
        upload = uuid4().hex
        self.uploads[upload] = (f"{Bucket}/{Key}", Metadata, {})
        return {"UploadId": upload}

    def _upload_part(
        self, Bucket: str, Key: str, UploadId: str, PartNumber: int, Body: bytes
    ) -> dict[str, Any]:
        self._of(UploadId)[2][PartNumber] = Body
        return {"ETag": f'"{PartNumber}-{len(Body)}"'}

    def _complete_multipart_upload(
        self, Bucket: str, Key: str, UploadId: str, MultipartUpload: dict[str, Any]
    ) -> dict[str, Any]:
        key, metadata, parts = self._of(UploadId)
        named = [part["PartNumber"] for part in MultipartUpload["Parts"]]
        assert [part["ETag"] for part in MultipartUpload["Parts"]] == [
            f'"{number}-{len(parts[number])}"' for number in named
        ]
        self.objects[key] = Stored(b"".join(parts[number] for number in named), metadata)
        del self.uploads[UploadId]
        return {}

    def _abort_multipart_upload(self, Bucket: str, Key: str, UploadId: str) -> dict[str, Any]:
        self._of(UploadId)
        del self.uploads[UploadId]
        return {}

    def _list_multipart_uploads(
        self, Bucket: str, Prefix: str, KeyMarker: str = "", UploadIdMarker: str = ""
    ) -> dict[str, Any]:
        """A page has one upload: so that each listing has several."""
        found = sorted((key, upload) for upload, (key, _, _) in self.uploads.items())
        found = [(key.removeprefix(f"{Bucket}/"), upload) for key, upload in found]
        found = [
            one for one in found if one[0].startswith(Prefix) and one > (KeyMarker, UploadIdMarker)
        ]
        page = [{"Key": key, "UploadId": upload} for key, upload in found[:1]]
        more = {"NextKeyMarker": found[0][0], "NextUploadIdMarker": found[0][1]} if found else {}
        return {"Uploads": page, "IsTruncated": len(found) > 1, **more}

    def _head_object(self, Bucket: str, Key: str) -> dict[str, Any]:
        if f"{Bucket}/{Key}" not in self.objects:
            raise FileNotFoundError(Key)
        return {"Metadata": self.objects[f"{Bucket}/{Key}"].metadata}

    def _of(self, upload: str) -> tuple[str, dict[str, str], dict[int, bytes]]:
        if upload not in self.uploads:
            raise FileNotFoundError("The specified upload does not exist.")
        return self.uploads[upload]


class Gcs(ObjectStore):
    protocol = "gs"

    def call(
        self, method: str, path: str, bucket: str, key: str, json: Any, ifGenerationMatch: str
    ) -> None:
        assert (method, path, ifGenerationMatch) == ("POST", "b/{}/o/{}/compose", "0")
        with self.faults.request():
            if f"{bucket}/{key}" in self.objects:
                raise OSError("412 Precondition Failed: conditionNotMet")
            [source] = json["sourceObjects"]
            data = self.objects[f"{bucket}/{source['name']}"].data
            self.objects[f"{bucket}/{key}"] = Stored(data, json["destination"]["metadata"])


class Azure(ObjectStore):
    protocol = "abfs"

    def __init__(self, faults: Faults) -> None:
        super().__init__(faults)
        self.blocks: dict[str, dict[str, bytes]] = {}
        self.service_client = self
        self.loop = get_loop()

    def leftovers(self) -> list[str]:
        return []  # Azure removes blocks by itself, after a week.

    def run(self, path: str, request: str, work: Callable[[], Any]) -> Any:
        return work()

    def get_blob_client(self, container: str, name: str) -> _Blob:
        return _Blob(self, f"{container}/{name}")


class _Blob:
    def __init__(self, store: Azure, key: str) -> None:
        self._store = store
        self._key = key

    async def __aenter__(self) -> _Blob:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def stage_block(self, block: str, data: io.BytesIO, length: int) -> None:
        with self._store.faults.request():
            self._store.blocks.setdefault(self._key, {})[block] = data.read(length)

    async def commit_block_list(self, blocks: Any, *, metadata: Any, match_condition: Any) -> None:
        from azure.core import MatchConditions
        from azure.core.exceptions import HttpResponseError, ResourceExistsError

        assert match_condition is MatchConditions.IfMissing
        with self._store.faults.request():
            staged = self._store.blocks.get(self._key, {})
            if self._key in self._store.objects:
                error: HttpResponseError = ResourceExistsError("BlobAlreadyExists")
                error.status_code = 409
                raise error
            if any(block.id not in staged for block in blocks):
                error = HttpResponseError("InvalidBlockList")
                error.status_code = 400
                raise error
            data = b"".join(staged[block.id] for block in blocks)
            self._store.objects[self._key] = Stored(data, metadata)
            del self._store.blocks[self._key]

    async def get_blob_properties(self) -> Any:
        from azure.core.exceptions import ResourceNotFoundError

        with self._store.faults.request():
            if self._key not in self._store.objects:
                raise ResourceNotFoundError("BlobNotFound")
            return self._store.objects[self._key]


class Renaming(MemoryFileSystem):  # type: ignore[misc]
    """A file system with renames, in memory, with faults."""

    cachable = False

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self.faults = faults
        self.store, self.pseudo_dirs = {}, [""]

    @property
    def objects(self) -> dict[str, Stored]:
        return {path.lstrip("/"): Stored(file.getvalue()) for path, file in self.store.items()}

    def leftovers(self) -> list[str]:
        return [key for key in self.store if "/.rheos-staging/" in key]

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        with self.faults.request():
            if self._strip_protocol(path2) in self.store:
                raise FileExistsError(path2)
            self.store[self._strip_protocol(path2)] = self.store.pop(self._strip_protocol(path1))

    def exists(self, path: str, **options: Any) -> bool:
        with self.faults.request():
            return bool(super().exists(path, **options))

    def rm_file(self, path: str) -> None:
        with self.faults.request():
            super().rm_file(path)

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        with self.faults.request():
            return super().open(path, mode, **options)
