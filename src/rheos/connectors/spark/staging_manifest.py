"""Manifest of a staging, and removal of leftover files.

{"format": 2, "crc32": ..., "staging": {"of": ..., "staging": ..., "schema": ..., "files": [...]}}

The manifest contains the identity of its folder, and the size and checksums of each file. Rheos opens
and removes only files whose names follow its own pattern. It removes files only if the manifest is
intact and all listed files exist. Format 1, of Rheos 0.1.0, had neither envelope nor checksums: Rheos
reads it, but removes nothing based on it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any
from uuid import uuid4

import msgspec

from rheos.connectors.files.checksummed_files import BLOCK_BYTES
from rheos.core.protocol.sealed_files import SealedFileKind

MANIFEST = "manifest.json"
FORMAT = 2

_STAGING = re.compile(r"[0-9a-f]{12}")
_FILE = re.compile(r"[0-9]{5}-[0-9]{1,20}\.parquet")

_RESTORE = (
    "restore it from a copy; without it the job cannot resume from its checkpoints. Nothing was removed"
)


class StagedFile(msgspec.Struct, frozen=True):
    name: str
    rows: int
    first_ms: int | None
    """Smallest event time; None without rows or event time."""
    size_bytes: int | None = None
    """Size of the file; None, like the checksums, in format 1."""
    checksums: bytes | None = None
    last_ms: int | None = None
    """Largest event time; None without rows or event time, and in stagings of 0.1.0."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    of: str
    """Identity of the folder: job and operator."""
    staging: str
    schema: bytes
    event_time: str | None
    files: list[StagedFile]
    staged_ms: int | None = None
    """Time of staging, for a batch of a stream."""


class _Manifest1(msgspec.Struct, frozen=True, tag_field="version", tag=1):
    staging: str
    schema: bytes
    event_time: str | None
    files: list[StagedFile]


_decoder: msgspec.json.Decoder[Manifest] = msgspec.json.Decoder(Manifest)
_decoder_1: msgspec.json.Decoder[_Manifest1] = msgspec.json.Decoder(_Manifest1)


def identity(root: str) -> str:
    """Return a folder's identity, independent of the place of its checkpoint directory:
    `<job>/staged/<operator>`."""
    return "/".join(root.strip("/").split("/")[-3:])


def read_manifest(system: Any, root: str) -> Manifest | None:
    """Read the manifest; None if it does not exist. Raises UnrestorableError if it is damaged, belongs
    to another folder, or lists files that do not exist."""
    try:
        data = system.cat_file(f"{root}/{MANIFEST}")
    except FileNotFoundError:
        return None
    manifest = decode_manifest(data, root)
    if problem := _absent(system, root, manifest):
        raise _sealed(root).damaged(problem)
    return manifest


def decode_manifest(data: bytes, root: str) -> Manifest:
    """Decode a manifest. Raises UnrestorableError if it is damaged or belongs to another folder."""
    sealed = _sealed(root)
    manifest = _of_format_1(data, root) or _opened(data, sealed)
    if problem := _problem(manifest, root):
        raise sealed.damaged(problem)
    return manifest


def put_manifest(system: Any, root: str, manifest: Manifest) -> None:
    """Write the manifest, unless one exists."""
    data = _sealed(root).seal(msgspec.json.encode(manifest), FORMAT)
    put_if_absent(system, f"{root}/{MANIFEST}", data)


def put_if_absent(system: Any, path: str, data: bytes) -> None:
    """Write a file atomically. An existing file is kept."""
    with suppress(FileExistsError):
        if "file" not in system.protocol:
            system.pipe_file(path, data, mode="create")
            return
        temporary = f"{path}.{uuid4().hex}"
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        finally:
            os.unlink(temporary)


def remove_leftovers(system: Any, root: str, manifest: Manifest) -> None:
    """Remove files staged here by drivers that died and by repeated Spark tasks.

    `manifest` is the result of `read_manifest`. Files whose names do not follow Rheos's pattern remain,
    and so does everything next to a manifest of format 1.
    """
    if any(file.size_bytes is None for file in manifest.files):
        return
    system.invalidate_cache()
    for info in system.ls(root, detail=True):
        name = _name(info)
        if name != manifest.staging and _is_folder(info) and _STAGING.fullmatch(name):
            _remove_files(system, f"{root}/{name}", frozenset())
    _remove_files(system, f"{root}/{manifest.staging}", {file.name for file in manifest.files})


def remove_whole(system: Any, root: str, manifest: Manifest) -> None:
    """Remove a staging that is not needed any more: the files in its manifest, then the manifest."""
    folder = f"{root}/{manifest.staging}"
    for file in manifest.files:
        with suppress(FileNotFoundError):
            system.rm_file(f"{folder}/{file.name}")
    with suppress(FileNotFoundError):
        system.rm_file(f"{root}/{MANIFEST}")
    for each in (folder, root):
        # object stores have no folders to remove
        with suppress(OSError, NotImplementedError):
            system.rmdir(each)


def remove_staging(system: Any, root: str, staging: str) -> None:
    """Remove a failed staging of this process."""
    with suppress(OSError):
        _remove_files(system, f"{root}/{staging}", frozenset())


def _remove_files(system: Any, folder: str, kept: frozenset[str] | set[str]) -> None:
    left = len(kept)
    for info in system.ls(folder, detail=True):
        name = _name(info)
        if name in kept:
            continue
        if info["type"] == "file" and not info.get("islink") and _FILE.fullmatch(name):
            system.rm_file(f"{folder}/{name}")
        else:
            left += 1
    if not left:
        # object stores have no folders to remove
        with suppress(OSError, NotImplementedError):
            system.rmdir(folder)


def _name(info: Any) -> str:
    return str(info["name"]).rstrip("/").rpartition("/")[2]


def _is_folder(info: Any) -> bool:
    return info["type"] == "directory" and not info.get("islink")


# --- checks of a decoded manifest -------------------------------------------------------------------


def _sealed(root: str) -> SealedFileKind:
    return SealedFileKind(
        what=f"the manifest {root}/{MANIFEST}",
        key="staging",
        newest=FORMAT,
        if_damaged=_RESTORE,
        if_later="start the job with the version of Rheos that it used before",
    )


def _of_format_1(data: bytes, root: str) -> Manifest | None:
    try:
        old = _decoder_1.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    files = [StagedFile(file.name, file.rows, file.first_ms) for file in old.files]
    return Manifest(
        of=identity(root),
        staging=old.staging,
        schema=old.schema,
        event_time=old.event_time,
        files=files,
    )


def _opened(data: bytes, sealed: SealedFileKind) -> Manifest:
    format, body = sealed.open(data)
    if format != FORMAT:
        raise sealed.damaged(f"unknown format {format} of the envelope")
    manifest = sealed.decoded(body, _decoder)
    if any(file.size_bytes is None or file.checksums is None for file in manifest.files):
        raise sealed.damaged("a file has no checksums")
    return manifest


def _problem(manifest: Manifest, root: str) -> str | None:
    if manifest.of != identity(root):
        return f"it belongs in {manifest.of!r}"
    if not _STAGING.fullmatch(manifest.staging):
        return f"{manifest.staging!r} is not a valid name of a staging"
    names = [file.name for file in manifest.files]
    if not names or len(set(names)) != len(names):
        return f"it lists {len(names)} files, of which only {len(set(names))} are different"
    for file in manifest.files:
        if not _FILE.fullmatch(file.name):
            return f"{file.name!r} is not a valid name of a staged file"
        blocks = -(-(file.size_bytes or 0) // BLOCK_BYTES)
        if file.rows < 0 or (file.size_bytes or 0) < 0 or len(file.checksums or b"") != 4 * blocks:
            return f"{file.name} has {file.rows} rows in {file.size_bytes} bytes"
    return None


def _absent(system: Any, root: str, manifest: Manifest) -> str | None:
    system.invalidate_cache()
    try:
        found = {_name(info): info for info in system.ls(f"{root}/{manifest.staging}", detail=True)}
    except FileNotFoundError:
        return f"the staging {manifest.staging} does not exist"
    for file in manifest.files:
        if file.name not in found:
            return f"{file.name} of the staging {manifest.staging} is missing"
        size_bytes = found[file.name]["size"]
        if file.size_bytes is not None and size_bytes != file.size_bytes:
            return f"{file.name} has {size_bytes} bytes, but {file.size_bytes} were written"
    return None
