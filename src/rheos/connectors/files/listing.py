"""Resolution of paths to files: a file, a folder, a glob, or a list of these; local or an fsspec
URL."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from glob import has_magic
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from rheos import formats
from rheos.connectors.calls.file_systems import installation_of, raise_if_away, url_to_fs
from rheos.connectors.files.compression import Codec, codec_by_name, without_end
from rheos.core.errors import ConfigurationError, InputError, ProgramError
from rheos.core.formats.contract import Format

Kind: TypeAlias = Literal["parquet", "jsonl", "csv", "text"]
"""Name of a file format."""

OF_LINES: Mapping[str, Format] = {
    "jsonl": formats.json(),
    "csv": formats.csv(),
    "text": formats.text(),
}
"""Formats of lines, by the names that users write."""

_EXTENSIONS: dict[str, Kind] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
}


class FileToRead(msgspec.Struct, frozen=True):
    path: str
    format: str
    """A `Kind`, or the name of the format object that the user passed."""
    gzip: bool = False
    """Compression as 0.1.0 stored it, instead of `codec`. Checkpoints of 0.1.0 must stay readable."""
    codec: Codec = "none"
    size_bytes: int | None = None
    """Size when the file was discovered, in a watched folder; else None."""
    changed_ms: int | None = None
    """Time of the last change, in ms since the epoch, if the source forgets files by their age."""

    @property
    def compression(self) -> Codec:
        return "gzip" if self.gzip else self.codec


@dataclass(frozen=True)
class ListedFile:
    """File as found by one listing."""

    file: FileToRead
    changed_s: float | None
    """Time of the last change, in seconds since the epoch; None if the storage does not report it."""


def list_files(
    paths: Sequence[str], format: str | None, codec: Codec | None = None
) -> list[FileToRead]:
    """Return all files that the paths match, sorted, without duplicates. Raises InputError.

    In folders, names that begin with "." or "_" are ignored at any depth, as in Spark. A folder of a
    partition, such as `_day=1`, is not.
    """
    found: set[str] = set()
    for path in paths:
        names = _expand(path, format)
        if not names:
            raise InputError(
                f"{path} contains no file to read",
                hint=f"files are recognised by extension ({', '.join(_EXTENSIONS)}; lines also .gz "
                "and .zst); with format= all files are read",
            )
        found |= names.keys()
    return [_file(name, format, codec) for name in sorted(found)]


def list_watched(
    paths: Sequence[str], format: str | None, codec: Codec | None = None
) -> list[ListedFile]:
    """Return the files of watched folders and globs, sorted by name. There may be none."""
    found = {name: info for path in paths for name, info in _expand(path, format, grows=True).items()}
    return [
        ListedFile(
            msgspec.structs.replace(_file(name, format, codec), size_bytes=found[name].get("size")),
            _changed_s(found[name]),
        )
        for name in sorted(found)
    ]


def size_of(path: str) -> int | None:
    """Return the size of a file in bytes; None if it does not exist or its storage does not report the
    size. Raises InputError."""
    system, inner = url_to_fs(path)
    system.invalidate_cache()
    try:
        size: int | None = system.info(inner).get("size")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise_if_away(error, f"{path} cannot be accessed")
        raise InputError(f"{path} cannot be accessed: {error}") from error
    return size


def _changed_s(info: Mapping[str, Any]) -> float | None:
    for name in ("mtime", "LastModified", "last_modified", "updated", "created"):
        match info.get(name):
            case datetime() as moment:
                return moment.timestamp()
            case float() | int() as seconds:
                return float(seconds)
            case str() as text:
                return datetime.fromisoformat(text).timestamp()
    return None


def _expand(path: str, format: str | None, *, grows: bool = False) -> dict[str, Mapping[str, Any]]:
    """Return the files that a path matches, with what their file system reports about each."""
    try:
        system, inner = url_to_fs(path)
    except (ValueError, ImportError) as error:
        raise ConfigurationError(
            f"{path} cannot be opened: {error}",
            hint=installation_of(path) or "install the package for this kind of storage",
        ) from error
    system.invalidate_cache()  # Listings that are cached for an earlier job may be outdated.
    found: dict[str, Mapping[str, Any]]
    try:
        if system.isfile(inner):
            if grows:
                raise InputError(
                    f"{path} is a file, but only a folder can be watched",
                    hint="watch its folder, or a glob: watching finds new files",
                )
            return {path: {}}
        if system.isdir(inner):
            found = {
                name: info
                for name, info in system.find(inner, detail=True).items()
                if not _is_hidden(name[len(inner) :]) and (format or by_name(name))
            }
        else:
            found = {
                name: info
                for name, info in system.glob(inner, detail=True).items()
                if system.isfile(name) and not _is_hidden(name.rsplit("/", 1)[-1])
            }
            if not found and not has_magic(inner):
                raise InputError(f"the file or folder {path} does not exist", hint="correct the path")
    except OSError as error:
        raise_if_away(error, f"{path} cannot be listed")
        raise InputError(
            f"{path} cannot be listed: {error}", hint="check that this user may read it"
        ) from error
    local = "file" in system.protocol and "://" not in path
    return {name if local else system.unstrip_protocol(name): info for name, info in found.items()}


def _is_hidden(path: str) -> bool:
    *folders, name = (part for part in path.split("/") if part)
    return name[0] in "._" or any(
        folder[0] == "." or (folder[0] == "_" and "=" not in folder) for folder in folders
    )


def check_kind(format: Kind | Format | None) -> None:
    """Raise ProgramError if `format` is not a format of files."""
    if isinstance(format, Format):
        if format.in_lines is None:
            raise ProgramError(
                f"the format {format.name} cannot be used in files of lines",
                hint=f"write one of {', '.join(map(repr, get_args(Kind)))}, or rh.formats.json()",
            )
    elif format is not None and format not in get_args(Kind):
        raise ProgramError(
            f"format={format!r} is not known",
            hint=f"write one of {', '.join(map(repr, get_args(Kind)))}, or a format of rh.formats",
        )


def lines_of(kind: str | Format | None) -> Format | None:
    """Return the format of lines; None for Parquet."""
    return kind if isinstance(kind, Format) else OF_LINES.get(kind or "")


def by_name(name: str) -> Kind | None:
    kind = _EXTENSIONS.get(os.path.splitext(without_end(name.lower()))[1])
    return None if kind == "parquet" and codec_by_name(name) != "none" else kind


def _file(name: str, format: str | None, codec: Codec | None) -> FileToRead:
    known = format or by_name(name)
    if known is None:
        raise InputError(
            f"the format of {name} cannot be inferred from its name",
            hint='pass format="parquet", "jsonl", "csv" or "text"',
        )
    if known == "parquet":
        return FileToRead(name, known)
    return FileToRead(name, known, codec=codec or codec_by_name(name))
