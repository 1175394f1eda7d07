"""Which files a path means: a file, a folder, a glob, or a list of these; local or an fsspec URL."""

from __future__ import annotations

import os
from collections.abc import Sequence
from glob import has_magic
from typing import Literal, TypeAlias

import fsspec
import msgspec

from rheos.errors import ConfigurationError, InputError

Format: TypeAlias = Literal["parquet", "jsonl"]

_EXTENSIONS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


class FileToRead(msgspec.Struct, frozen=True):
    path: str
    format: Format
    gzip: bool


def absolute(path: str | os.PathLike[str]) -> str:
    """The path as any worker may be given it: a URL as it is, a local path made absolute."""
    text = os.fspath(path)
    if "://" in text or "::" in text:
        return text
    return os.path.abspath(os.path.expanduser(text))


def list_files(paths: Sequence[str], format: Format | None) -> list[FileToRead]:
    """All files that the paths mean, sorted, each once. Raises InputError.

    In folders, names that begin with "." or "_" are passed over at any depth, as Spark does.
    """
    found = {name for path in paths for name in _expand(path, format)}
    return [_file(name, format) for name in sorted(found)]


def _expand(path: str, format: Format | None) -> list[str]:
    try:
        system, inner = fsspec.core.url_to_fs(path)
    except (ValueError, ImportError) as error:
        raise ConfigurationError(
            f"{path} cannot be opened: {error}",
            hint="is the package for this kind of storage installed?",
        ) from error
    system.invalidate_cache()  # What was listed for a job before may have changed.
    try:
        if system.isfile(inner):
            return [path]
        if system.isdir(inner):
            names = [
                name
                for name in system.find(inner)
                if not _hidden(name[len(inner) :]) and (format or by_name(name))
            ]
        else:
            names = [
                name
                for name in system.glob(inner)
                if system.isfile(name) and not _hidden(name.rsplit("/", 1)[-1])
            ]
            if not names and not has_magic(inner):
                raise InputError(f"there is no file or folder {path}", hint="correct the path")
    except OSError as error:
        raise InputError(f"{path} cannot be listed: {error}", hint="may this user read it?") from error
    if not names:
        raise InputError(
            f"{path} holds no file to read",
            hint=f"files are known by their ends ({', '.join(_EXTENSIONS)}; JSON Lines also .gz); "
            "format= takes all there are",
        )
    local = "file" in system.protocol and "://" not in path
    return [name if local else system.unstrip_protocol(name) for name in names]


def _hidden(path: str) -> bool:
    return any(part[0] in "._" for part in path.split("/") if part)


def by_name(name: str) -> Format | None:
    lowered = name.lower()
    if lowered.endswith(".gz"):
        format = _EXTENSIONS.get(os.path.splitext(lowered.removesuffix(".gz"))[1])
        return format if format == "jsonl" else None
    return _EXTENSIONS.get(os.path.splitext(lowered)[1])


def _file(name: str, format: Format | None) -> FileToRead:
    known = format or by_name(name)
    if known is None:
        raise InputError(
            f"the format of {name} is not known by its name",
            hint='say format="parquet" or format="jsonl"',
        )
    return FileToRead(name, known, known == "jsonl" and name.lower().endswith(".gz"))
