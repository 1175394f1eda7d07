"""A local folder for a subtask's state on disk: its own, gone with it, and swept up after a kill."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

_PREFIX = "rheos-state-"
_LOCK = ".lock"


@contextlib.contextmanager
def scratch_folder(directory: str | None) -> Iterator[str]:
    """The path of a new folder below `directory`; None takes the disk that Spark gives its workers,
    or that for temporary files. The folder is not made: who needs it does.

    Folders that killed processes left there are removed: beside each lies a file that its owner has
    locked as long as it lives.
    """
    base = Path(directory or _spark_folder() or tempfile.gettempdir())
    folder = base / f"{_PREFIX}{uuid4().hex}"
    lock = folder.with_suffix(_LOCK)
    try:
        base.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR)
    except OSError:
        # Who needs the folder will fail to make it, and says why.
        yield str(folder)
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        _sweep(base)
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            lock.unlink()
        os.close(descriptor)


def _spark_folder() -> str | None:
    """One of the disks, where Spark has told this worker of several."""
    folders = [folder for folder in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if folder]
    return folders[os.getpid() % len(folders)] if folders else None


def _sweep(base: Path) -> None:
    for lock in base.glob(f"{_PREFIX}*{_LOCK}"):
        with contextlib.suppress(OSError):
            descriptor = os.open(lock, os.O_RDWR)
            try:
                # Raises where the owner lives: this process's own locks, too.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink()
            finally:
                os.close(descriptor)
