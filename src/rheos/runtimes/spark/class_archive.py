"""An archive of a JVM's classes, by which it starts in little more than half the time: Spark's, and
those of the servers for development.

A JVM reads some ten thousand classes of Spark from its jars, and checks each, before the first row. The
JVM can write down what it made of them as it exits (class data sharing, `-XX:ArchiveClassesAtExit`) and
map that the next time (`-XX:SharedArchiveFile`). The first session that Rheos makes on a machine writes
the archive, about 150 MB, and those that follow use it.

The archive is code that a JVM runs. So it lies in a folder that only its user can enter, and is used
only if it is that user's own and nobody else could have written it. The JVM itself refuses an archive
of other jars or of another Java, and goes on without. `RHEOS_CLASS_ARCHIVE=off` does without, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import time
from pathlib import Path

from rheos.runtimes.host.user_cache import user_cache

_OFF = ("off", "0", "no", "false")
_MAGIC = (0xF00BABA8).to_bytes(4, "little")
"""Of a dynamic archive. The JVM writes it last: a file that was broken off has none."""
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""It would warn of every class of a signed jar."""
_UNUSED_S = 30 * 24 * 3600
_BROKEN_S = 3600
_NAME = re.compile(r"[a-z]+-[0-9a-f]{16}(\.\d+\.new|\.jsa)")


def java_options(
    java_version: str, jars: Path, folder: Path | None = None, of: str = "spark"
) -> list[str]:
    """What the JVM is to be started with; nothing where it cannot have an archive.

    `java_version` is what `java -version` says, `jars` the folder of its jars, `of` a word for what
    they are.
    """
    if os.environ.get("RHEOS_CLASS_ARCHIVE", "").lower() in _OFF or "Server VM" not in java_version:
        return []
    try:
        folder = _private(user_cache("classes") if folder is None else folder)
        archive = folder / f"{of}-{_identity(java_version, jars)}.jsa"
        _tidy(folder, archive)
        if _trusted(archive):
            os.utime(archive)
            return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_QUIET]
        new = archive.with_suffix(f".{os.getpid()}.new")
        return [f"-XX:ArchiveClassesAtExit={new}", *_QUIET]
    except OSError:
        return []  # No home, no room, or not our own: it only starts more slowly.


def _private(folder: Path) -> Path:
    """Makes the folder where there is none. Raises OSError where others may enter or own it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is accessible to other users")
    if " " in str(folder):
        raise OSError("options of a JVM are cut at spaces")
    return folder


def _identity(java_version: str, jars: Path) -> str:
    """Of the classes: another Java or other jars have another."""
    stats = sorted((entry.name, entry.stat()) for entry in os.scandir(jars))
    known = [f"{name} {found.st_size} {found.st_mtime_ns}" for name, found in stats]
    return hashlib.sha256("\n".join([java_version, str(jars), *known]).encode()).hexdigest()[:16]


def _tidy(folder: Path, archive: Path) -> None:
    """Takes over an archive that a JVM has finished, and removes what is broken off or long unused."""
    for path in sorted(folder.iterdir()):
        if _NAME.fullmatch(path.name) is None or path == archive:
            continue
        with contextlib.suppress(FileNotFoundError):
            new = path.suffix == ".new"
            ours = path.name.startswith(f"{archive.stem}.")
            if new and ours and _trusted(path):
                # Of several JVMs that wrote one at the same time, the first will do.
                path.unlink() if _trusted(archive) else path.rename(archive)
            elif time.time() - path.lstat().st_mtime > (_BROKEN_S if new else _UNUSED_S):
                path.unlink()


def _trusted(path: Path) -> bool:
    """Whether it is a whole archive that nobody but this user can have written."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            found = os.fstat(file.fileno())
            ours = found.st_uid == os.getuid() and not found.st_mode & 0o022
            return ours and stat.S_ISREG(found.st_mode) and file.read(4) == _MAGIC
    except OSError:
        return False
