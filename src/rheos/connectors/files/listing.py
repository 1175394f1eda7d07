"""Which files a path means: a file, a folder, a glob, or a list of these; local or an fsspec URL."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from glob import has_magic
from typing import Literal, TypeAlias, get_args

import fsspec
import msgspec

from rheos import formats
from rheos.connectors.files.compression import Codec, codec_by_name, without_end
from rheos.errors import ConfigurationError, InputError, ProgramError
from rheos.formats.contract import Format

Kind: TypeAlias = Literal["parquet", "jsonl", "csv", "text"]
"""A word for how rows lie in a file."""

OF_LINES: Mapping[str, Format] = {
    "jsonl": formats.json(),
    "csv": formats.csv(),
    "text": formats.text(),
}
"""The format that a word means, of those whose payloads are lines."""

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
    """A `Kind`, or the name of the format that the user has given."""
    gzip: bool = False
    """Said in place of the codec by 0.1.0, whose checkpoints are read."""
    codec: Codec = "none"

    @property
    def compression(self) -> Codec:
        return "gzip" if self.gzip else self.codec


def absolute(path: str | os.PathLike[str]) -> str:
    """The path as any worker may be given it: a URL as it is, a local path made absolute."""
    text = os.fspath(path)
    if "://" in text or "::" in text:
        return text
    return os.path.abspath(os.path.expanduser(text))


def list_files(
    paths: Sequence[str], format: str | None, codec: Codec | None = None
) -> list[FileToRead]:
    """All files that the paths mean, sorted, each once. Raises InputError.

    In folders, names that begin with "." or "_" are passed over at any depth, as Spark does.
    """
    found = {name for path in paths for name in _expand(path, format)}
    return [_file(name, format, codec) for name in sorted(found)]


def _expand(path: str, format: str | None) -> list[str]:
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
            hint=f"files are known by their ends ({', '.join(_EXTENSIONS)}; lines also .gz and .zst); "
            "format= takes all there are",
        )
    local = "file" in system.protocol and "://" not in path
    return [name if local else system.unstrip_protocol(name) for name in names]


def _hidden(path: str) -> bool:
    return any(part[0] in "._" for part in path.split("/") if part)


def check_kind(format: Kind | Format | None) -> None:
    """Raises ProgramError for what is no format of files."""
    if isinstance(format, Format):
        if format.in_lines is None:
            raise ProgramError(
                f"the format {format.name} is not one of files of lines",
                hint=f"write one of {', '.join(map(repr, get_args(Kind)))}, or rh.formats.json()",
            )
    elif format is not None and format not in get_args(Kind):
        raise ProgramError(
            f"format={format!r} is not known",
            hint=f"write one of {', '.join(map(repr, get_args(Kind)))}, or a format of rh.formats",
        )


def lines_of(kind: str | Format | None) -> Format | None:
    """The format of the lines, where the files are of lines."""
    return kind if isinstance(kind, Format) else OF_LINES.get(kind or "")


def by_name(name: str) -> Kind | None:
    kind = _EXTENSIONS.get(os.path.splitext(without_end(name.lower()))[1])
    return None if kind == "parquet" and codec_by_name(name) != "none" else kind


def _file(name: str, format: str | None, codec: Codec | None) -> FileToRead:
    known = format or by_name(name)
    if known is None:
        raise InputError(
            f"the format of {name} is not known by its name",
            hint='say format="parquet", "jsonl", "csv" or "text"',
        )
    if known == "parquet":
        return FileToRead(name, known)
    return FileToRead(name, known, codec=codec or codec_by_name(name))
