"""Local folders that nobody else may read: for a subtask's state on disk, gone with it, and swept up
after a kill; and one of a name that is known."""

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

_PREFIX = "rheos-state-"
_LOCK = ".lock"


def folder_of(owner: object, prefix: str, directory: str | None = None) -> str:
    """The path of a new private folder, which goes when `owner` does: below `directory`, which is made
    if it is not there, or among the temporary files."""
    if directory is not None:
        os.makedirs(directory, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=prefix, dir=directory)
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def scratch_folder(directory: str | None) -> Iterator[str]:
    """The path of a new private folder below `directory`; None takes the disk that Spark gives its
    workers, or that for temporary files. Where it cannot be made, who needs it will fail to write
    there, and says why.

    Folders that killed processes left there are removed: beside each lies a file that its owner has
    locked as long as it lives.
    """
    base = Path(directory or _spark_folder() or tempfile.gettempdir())
    try:
        base.mkdir(parents=True, exist_ok=True)
        descriptor, lock = locked_file(base, _PREFIX, _LOCK)
    except OSError:
        yield str(base / f"{_PREFIX}{uuid4().hex}")
        return
    folder = lock.with_suffix("")
    try:
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700)
        _sweep(base)
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            lock.unlink()
        os.close(descriptor)


def locked_file(base: Path, prefix: str, suffix: str) -> tuple[int, Path]:
    """Return a new file (0600) that this process has locked, and that is still there: between its
    making and its locking the sweep of another process may take it for one that was left. Raises
    OSError."""
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


def left_files(base: Path, prefix: str, suffix: str) -> Iterator[Path]:
    """Yield the files of `locked_file` whose processes have ended, each locked until the next one. What
    is not this user's own is left out. The caller removes what it belongs to, and then the file."""
    for lock in base.glob(f"{prefix}*{suffix}"):
        with contextlib.suppress(OSError):
            descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
            try:
                # Raises where the owner lives: this process's own locks, too.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_uid == os.geteuid():
                    yield lock
            finally:
                os.close(descriptor)


def _spark_folder() -> str | None:
    """One of the disks, where Spark has given this worker several."""
    folders = [folder for folder in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if folder]
    return folders[os.getpid() % len(folders)] if folders else None


def _sweep(base: Path) -> None:
    """Remove what nobody holds any more."""
    for lock in left_files(base, _PREFIX, _LOCK):
        shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
        lock.unlink(missing_ok=True)


def private_folder(name: str) -> str:
    """The folder of this name for temporary files, which is this user's own and closed to all others;
    one of another name, where somebody else has made it first. It stays."""
    folder = Path(tempfile.gettempdir(), name)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return str(folder) if ours and not found.st_mode & 0o077 else tempfile.mkdtemp(prefix=f"{name}-")
