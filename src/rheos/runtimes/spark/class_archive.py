"""An archive of a JVM's classes, with which Spark and servers for development start almost twice as
fast.

A JVM reads and verifies some ten thousand classes of Spark before the first row. At exit it can store
the result (class data sharing, `-XX:ArchiveClassesAtExit`), and map it at the next start
(`-XX:SharedArchiveFile`), which takes little more than half the time. The first session that Rheos
makes on a machine writes the archive, about 150 MB, and later sessions use it.

The archive is code that a JVM runs. So it is in a folder that only its user can enter, and is used only
if it belongs to that user and nobody else could have written it. The JVM itself refuses an archive of
other jars or another Java version, and starts without it. `RHEOS_CLASS_ARCHIVE=off` disables it.
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
"""First bytes of a dynamic archive. The JVM writes them last, so an incomplete file lacks them."""
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Options without which the JVM would warn about every class of a signed jar."""
_UNUSED_S = 30 * 24 * 3600
_MOST_ARCHIVES = 10
"""Maximum number of archives, one for each folder of jars and version of Java."""
_BROKEN_S = 3600
_NAME = re.compile(r"[a-z]+-[0-9a-f]{16}(\.\d+\.new|\.jsa)")


def java_options(
    java_version: str, jars: Path, folder: Path | None = None, of: str = "spark"
) -> list[str]:
    """Return the options for the JVM's archive; none if it cannot have one. `java_version` is the
    output of `java -version`, `jars` the folder of its jars, `of` a name for them."""
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
        return []  # No home, no space, or not our own folder: the JVM only starts more slowly.


def _private(folder: Path) -> Path:
    """Return the folder, made if it is missing. Raise OSError if others own it or may enter it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is accessible to other users")
    if " " in str(folder):
        raise OSError("options of a JVM are cut at spaces")
    return folder


def _identity(java_version: str, jars: Path) -> str:
    """Return the identity of the classes, which differs for another Java version or other jars."""
    stats = sorted((entry.name, entry.stat()) for entry in os.scandir(jars))
    known = [f"{name} {found.st_size} {found.st_mtime_ns}" for name, found in stats]
    return hashlib.sha256("\n".join([java_version, str(jars), *known]).encode()).hexdigest()[:16]


def _tidy(folder: Path, archive: Path) -> None:
    """Put an archive that a JVM has finished in place. Delete incomplete and long unused ones, and the
    least recently used ones beyond the maximum number.
    """
    others = []
    for path in sorted(folder.iterdir()):
        if _NAME.fullmatch(path.name) is None or path == archive:
            continue
        with contextlib.suppress(FileNotFoundError):
            new = path.suffix == ".new"
            ours = path.name.startswith(f"{archive.stem}.")
            if new and ours and _trusted(path):
                # If several JVMs wrote one at the same time, the first is kept.
                path.unlink() if _trusted(archive) else path.rename(archive)
                continue
            used_s = path.lstat().st_mtime
            if time.time() - used_s > (_BROKEN_S if new else _UNUSED_S):
                path.unlink()
            elif not new:
                others.append((used_s, path))
    for _, path in sorted(others)[: -(_MOST_ARCHIVES - 1)]:
        path.unlink(missing_ok=True)


def _trusted(path: Path) -> bool:
    """Return whether it is a complete archive that only this user can have written."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            found = os.fstat(file.fileno())
            ours = found.st_uid == os.getuid() and not found.st_mode & 0o022
            return ours and stat.S_ISREG(found.st_mode) and file.read(4) == _MAGIC
    except OSError:
        return False
