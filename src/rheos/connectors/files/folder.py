"""A folder that files are written into: local, or of a file system of fsspec."""

from __future__ import annotations

import contextlib
import os
import posixpath
from typing import Any

from rheos.connectors.files.remote import url_to_fs


class SinkFolder:
    """The sink's folder. Locally, what is written and renamed is also made to survive a power cut."""

    def __init__(self, url: str) -> None:
        self.system, self.root = url_to_fs(url)
        self.local = "file" in self.system.protocol

    def path(self, relative: str) -> str:
        return posixpath.join(self.root, relative)

    def exists(self, relative: str) -> bool:
        self.system.invalidate_cache()  # Other processes write here, too.
        return bool(self.system.exists(self.path(relative)))

    def create(self, relative: str) -> Any:
        """Opens a new file for writing, and makes its folder, which others may remove meanwhile."""
        parent = posixpath.dirname(self.path(relative))
        for _ in range(100):
            try:
                self.system.makedirs(parent, exist_ok=True)
                return self.system.open(self.path(relative), "wb")
            except FileNotFoundError:
                continue
        raise FileNotFoundError(parent)

    def rename(self, staged: str, target: str) -> None:
        if self.local:
            os.rename(self.path(staged), self.path(target))
        else:
            self.system.mv(self.path(staged), self.path(target))

    def sync(self, relative: str) -> None:
        """Makes a closed file, or the names in a folder, durable."""
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
        """The names in a folder; none where there is no such folder."""
        path = self.path(relative)
        self.system.invalidate_cache()
        try:
            found = self.system.ls(path, detail=False)
        except FileNotFoundError:
            return []
        return sorted(posixpath.basename(name.rstrip("/")) for name in found)

    def remove_if_empty(self, relative: str) -> None:
        """Removes the folder and its empty parents, up to the staging folder."""
        while relative:
            try:
                if self.names(relative):
                    return
                self.system.rmdir(self.path(relative))
            except FileNotFoundError:
                pass
            except OSError:
                return  # Another subtask has put a file there meanwhile.
            relative = posixpath.dirname(relative)
