"""Local folders that no other user may read. A subtask's folder is removed with it, or after a kill by
the next process. `private_folder` has a known name, and stays."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

_STATE = "rheos-state-"
_KINDS = (
    _STATE,
    "rheos-check-",
    "rheos-checkpoints-",
    "rheos-debug-",
    "rheos-fork-",
    "rheos-jvm-",
    "rheos-proof-",
    "rheos-reads-",
    "rheos-slot-",
    "rheos-staged-",
)
"""Prefixes of the names of such folders. Folders with other names are never removed."""
_LOCK = ".lock"


class OwnedFolder:
    """A new private folder that is removed when its process ends, also after a kill. The process holds
    a lock on a file next to the folder while it lives. The next process that makes such a folder there
    removes the folders whose locks no process holds."""

    def __init__(self, prefix: str, directory: str | os.PathLike[str] | None = None) -> None:
        """Make the folder.

        Args:
            prefix: start of its name; one that a sweep knows.
            directory: where to make it; created if missing. By default among the temporary files.

        Raises:
            OSError: it cannot be made there.
        """
        assert prefix in _KINDS, prefix
        base = Path(directory or tempfile.gettempdir())
        base.mkdir(parents=True, exist_ok=True)
        self._pid = os.getpid()
        self._lock, self._lock_file = locked_file(base, prefix, _LOCK)
        self.path = str(self._lock_file.with_suffix(""))
        try:
            os.mkdir(self.path, 0o700)
        except BaseException:
            self.close()
            raise
        _sweep(base)

    def close(self) -> None:
        """Remove it. May be called again. Does nothing in a forked process."""
        if self._lock < 0 or os.getpid() != self._pid:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._lock_file.unlink()
        os.close(self._lock)
        self._lock = -1


def folder_of(owner: object, prefix: str, directory: str | None = None) -> str:
    """Return the path of a new `OwnedFolder`, which is removed when `owner` is garbage-collected."""
    folder = OwnedFolder(prefix, directory)
    weakref.finalize(owner, folder.close)
    return folder.path


@contextlib.contextmanager
def scratch_folder(directory: str | None) -> Iterator[str]:
    """Yield the path of a new `OwnedFolder` below `directory`. None uses the local disk of Spark's
    workers, or the folder for temporary files. If the folder cannot be created, later writes to it fail
    and report the reason."""
    base = directory or _spark_folder() or tempfile.gettempdir()
    try:
        folder = OwnedFolder(_STATE, base)
    except OSError:
        yield str(Path(base) / f"{_STATE}{uuid4().hex}")
        return
    with contextlib.closing(folder):
        yield folder.path


def locked_file(base: Path, prefix: str, suffix: str) -> tuple[int, Path]:
    """Return a new file (0600) that this process has locked. Another process's sweep may remove it as
    abandoned between its creation and its locking; then make another one. Raise OSError if it cannot be
    made."""
    while True:
        lock = base / f"{prefix}{uuid4().hex}{suffix}"
        descriptor = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            lock.lstat()
        except FileNotFoundError:
            os.close(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        else:
            return descriptor, lock


def left_files(base: Path, prefixes: tuple[str, ...], suffix: str) -> Iterator[Path]:
    """Yield the files of `locked_file` whose processes have ended, each locked until the next one.
    Files of other users are omitted. The caller removes the folder of a file, and then the file."""
    for lock in base.glob(f"*{suffix}"):
        if not lock.name.startswith(prefixes):
            continue
        with contextlib.suppress(OSError):
            descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
            try:
                # Raises an error if the owner lives. This process's own locks count, too.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_uid == os.geteuid():
                    yield lock
            finally:
                os.close(descriptor)


def _spark_folder() -> str | None:
    """Return the local folder of Spark's workers, or one of several; None without Spark."""
    folders = [folder for folder in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if folder]
    return folders[os.getpid() % len(folders)] if folders else None


def _sweep(base: Path) -> None:
    """Remove the folders whose locks no process holds. Folders of other users are left alone."""
    for lock in left_files(base, _KINDS, _LOCK):
        folder = lock.with_suffix("")
        with contextlib.suppress(FileNotFoundError):
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            shutil.rmtree(folder, ignore_errors=True)
        lock.unlink(missing_ok=True)


def private_folder(name: str) -> str:
    """Return the folder of this name among the temporary files, which only this user can enter. If
    another user made it first, return a folder of another name. The folder stays."""
    folder = Path(tempfile.gettempdir(), name)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return str(folder) if ours and not found.st_mode & 0o077 else tempfile.mkdtemp(prefix=f"{name}-")
