"""Folder that a sink writes files into, local or on fsspec; and the files in it when a job begins."""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import re
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rheos.connectors.calls.file_systems import url_to_fs
from rheos.core.errors import ConfigurationError

OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl"})
"""Schemes of fsspec without folders and renames."""

_TRIES = 100
"""Most attempts to create a folder that other subtasks remove at the same time."""


class SinkFolder:
    """The sink's folder. Local writes and renames are synced, so that they survive a power failure."""

    def __init__(self, url: str) -> None:
        self.system, self.root = url_to_fs(url)
        protocol = self.system.protocol
        schemes = {protocol} if isinstance(protocol, str) else set(protocol)
        self.local = "file" in schemes
        self.has_folders = not schemes & OBJECT_STORES
        """Whether folders exist independently of files, and a rename of a file is one step."""

    def path(self, relative: str) -> str:
        return posixpath.join(self.root, relative)

    def exists(self, relative: str) -> bool:
        self.system.invalidate_cache()  # Other processes write here, too.
        return bool(self.system.exists(self.path(relative)))

    def create(self, relative: str) -> Any:
        """Open a new file for writing. Creates its folder, which other subtasks may remove at the same
        time."""
        parent = posixpath.dirname(self.path(relative))
        for _ in range(_TRIES):
            self._make_folder(parent)
            with contextlib.suppress(FileNotFoundError):
                return self.system.open(self.path(relative), "wb")
        raise FileNotFoundError(parent)

    def _make_folder(self, path: str) -> None:
        """Create a folder and its parents, which other subtasks may remove at the same time. If one
        removes the folder just after it was found, it counts as a file that exists. If one removes the
        parent, the folder cannot be created. In both cases it is tried again."""
        for left in reversed(range(_TRIES)):
            try:
                self.system.makedirs(path, exist_ok=True)
                return
            except FileNotFoundError:
                if not left:
                    raise
            except FileExistsError:
                if not left or self.system.isfile(path):
                    raise

    def rename(self, staged: str, target: str) -> None:
        """Move a staged file to its target. Creates the target's folder if necessary."""
        if "/" in target:
            self._make_folder(posixpath.dirname(self.path(target)))
        if self.local:
            os.rename(self.path(staged), self.path(target))
        else:
            self.system.mv(self.path(staged), self.path(target))

    def put(self, name: str, content: bytes) -> None:
        """Write a whole file in one step. It may replace one."""
        if not self.has_folders:
            self.system.pipe_file(self.path(name), content)
            return
        staged = f".{name}.tmp"
        with self.create(staged) as out:
            out.write(content)
        if not self.local and self.exists(name):
            self.remove(name)
        self.rename(staged, name)

    def sync(self, relative: str) -> None:
        """Make a closed file, or the names in a folder, durable."""
        if self.local:
            handle = os.open(self.path(relative), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def remove(self, relative: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.system.rm_file(self.path(relative))

    def names(self, relative: str) -> list[str]:
        """Return the names in a folder; empty if it does not exist."""
        path = self.path(relative)
        self.system.invalidate_cache()
        try:
            found = self.system.ls(path, detail=False)
        except FileNotFoundError:
            return []
        return sorted(posixpath.basename(name.rstrip("/")) for name in found)

    def published(self, depth: int, below: str = "") -> list[str]:
        """Return the paths of visible files, in partition folders down to a depth. Readers ignore names
        that begin with "." or "_"."""
        found: list[str] = []
        for name in self.names(below):
            path = posixpath.join(below, name)
            if depth and "=" in name and self.system.isdir(self.path(path)):
                found += self.published(depth - 1, path)
            elif not name.startswith((".", "_")):
                found.append(path)
        return found

    def remove_if_empty(self, relative: str) -> None:
        """Remove the folder and its empty parents, up to the staging folder."""
        while relative and self.has_folders:
            try:
                if self.names(relative):
                    return
                self.system.rmdir(self.path(relative))
            except FileNotFoundError:
                pass
            except OSError:
                return  # Another subtask has created a file there since.
            relative = posixpath.dirname(relative)


# --- files that exist when a job begins ---------------------------------------------------------------


Mode: TypeAlias = Literal["error", "append", "overwrite"]

_MARK = 8
_END = r"([a-z0-9]{1,16}(\.gz|\.zst)?)"
_EMPTY = re.compile(rf"part-[0-9a-f]{{16}}-empty\.{_END}")
_NAMED = 3


@dataclass(frozen=True)
class EmptyFile:
    """File without rows. It exists from the beginning, so that readers can find the columns."""

    name: str
    content: bytes


def owner_mark(job: str, operator: str) -> str:
    """Return the mark in the names of a sink's files: 16 hexadecimal digits. The first half identifies
    the job."""
    return _digits(job) + _digits(f"{job}\0{operator}")


def check_target(folder: SinkFolder, url: str, mode: Mode, owner: str, depth: int = 0) -> None:
    """Raise ConfigurationError if rows would be mixed with existing files, down to a depth."""
    if mode == "append" or (mode == "overwrite" and not owner):
        return
    held = [name for name in folder.published(depth) if _EMPTY.fullmatch(name) is None]
    if mode == "overwrite":
        # Other sinks of the job may write here, too.
        held = [name for name in held if not _of_job(posixpath.basename(name), owner)]
    if not held:
        return
    named = ", ".join(held[:_NAMED]) + (", ..." if len(held) > _NAMED else "")
    if mode == "error":
        raise ConfigurationError(
            f"the sink's folder {url} already contains files ({named}), but this job starts "
            "from scratch",
            hint='to replace what it wrote before: mode="overwrite"; to add to it: '
            'mode="append"; or choose another folder. A job with a checkpoint_dir resumes '
            "where it stopped",
        )
    raise ConfigurationError(
        f"the sink's folder {url} contains files of another origin ({named}), which "
        'mode="overwrite" does not delete',
        hint="delete them yourself if you do not need them, or choose another folder",
    )


def remove_own(folder: SinkFolder, owner: str, depth: int = 0) -> None:
    """Remove the files that this sink published in earlier runs, down to a depth."""
    pattern = _parts(owner)
    for name in folder.published(depth):
        if pattern.fullmatch(posixpath.basename(name)):
            folder.remove(name)
            folder.remove_if_empty(posixpath.dirname(name))


def attempt_of(path: str, owner: str) -> int | None:
    """Return the attempt that wrote a file of this sink, from its name; None for any other file."""
    found = _parts(owner).fullmatch(posixpath.basename(path)) if owner else None
    return int(found["attempt"]) if found else None


def _of_job(name: str, owner: str) -> bool:
    return bool(owner) and _parts(owner[:_MARK] + "[0-9a-f]" * _MARK).fullmatch(name) is not None


def _parts(owner: str) -> re.Pattern[str]:
    return re.compile(rf"part-{owner}-[0-9a-f]{{12}}-(?P<attempt>\d+)-\d+-\d{{5,}}\.{_END}")


def _digits(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_MARK]
