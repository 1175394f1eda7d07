"""A file system `torn://` for checkpoints: files next to it make it fail, tear or delay writes.

    <root>.faults/full     every write runs out of space half-way
    <root>.faults/torn     every tenth write fails half-way, and leaves what it had written
    <root>.faults/slow     every operation is delayed

Files are written under a temporary name first, as in a store that shows only complete objects."""

from __future__ import annotations

import errno
import itertools
import os
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
from fsspec.spec import AbstractFileSystem

from rheos.runtimes.host.stores import allow_scheme

_SLOW_S = 0.03


class TornFileSystem(AbstractFileSystem):  # type: ignore[misc]
    protocol = "torn"
    cachable = False
    writes = itertools.count()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return "/" + str(path).removeprefix("torn://").strip("/")

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        target = Path(self._strip_protocol(path))
        faults = self._delayed(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.parent / f".torn-{uuid4().hex}"
        if "full" in faults or ("torn" in faults and next(self.writes) % 10 == 9):
            half.write_bytes(value[: len(value) // 2])
            if "full" in faults:
                raise OSError(errno.ENOSPC, "No space left on device")
            raise OSError(errno.EIO, "the connection broke")
        half.write_bytes(value)
        try:
            if mode == "create":
                os.link(half, target)
            else:
                os.replace(half, target)
        finally:
            half.unlink(missing_ok=True)

    def cat_file(self, path: str, start: Any = None, end: Any = None, **_: Any) -> bytes:
        target = Path(self._strip_protocol(path))
        self._delayed(target)
        return target.read_bytes()[start:end]

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        folder = Path(self._strip_protocol(path))
        self._delayed(folder)
        if not folder.is_dir():
            raise FileNotFoundError(folder)
        shown = [
            {
                "name": str(file),
                "size": file.stat().st_size,
                "type": "directory" if file.is_dir() else "file",
            }
            for file in sorted(folder.iterdir())
            if not file.name.startswith(".torn-")
        ]
        return shown if detail else [entry["name"] for entry in shown]

    def _rm(self, path: str) -> None:
        target = Path(self._strip_protocol(path))
        self._delayed(target)
        target.unlink()

    rm_file = _rm

    def _delayed(self, path: Path) -> set[str]:
        """Wait as long as the current faults demand, and return those faults."""
        root = next((each for each in path.parents if each.name and faults_of(each).is_dir()), path)
        faults = {file.name for file in faults_of(root).glob("*")}
        if "slow" in faults:
            time.sleep(_SLOW_S)
        return faults


def faults_of(root: Path) -> Path:
    return root.with_name(root.name + ".faults")


fsspec.register_implementation("torn", TornFileSystem, clobber=True)
allow_scheme("torn")
