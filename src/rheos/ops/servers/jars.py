"""Pinned jars from Maven Central: downloaded once per user, and checked before each use.

A list is a file next to this module, with one line per jar: `group:artifact:version SHA-256 bytes` (a
classifier may follow the version). The jars are stored in a folder of the user's cache, which is either
complete or missing. `RHEOS_MAVEN` names a repository to use instead of Maven Central, such as a mirror.
Its jars must have the same checksums.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rheos.connectors.calls.http_deadlines import opener
from rheos.core.errors import ConfigurationError
from rheos.runtimes.host.user_cache import user_cache

CENTRAL = "https://repo1.maven.org/maven2"
_AT_ONCE = 8
_TIMEOUT_S = 600.0
"""Time limit for one jar."""
_WITHOUT_NETWORK = (
    "if this machine reaches Maven Central through a mirror, set RHEOS_MAVEN=https://host/path"
)


@dataclass(frozen=True)
class Jar:
    group: str
    artifact: str
    version: str
    classifier: str
    """Maven classifier; empty for most jars."""
    sha256: str
    size_bytes: int

    @property
    def name(self) -> str:
        return f"{'-'.join(filter(None, [self.artifact, self.version, self.classifier]))}.jar"

    @property
    def path(self) -> str:
        """Path within a repository."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


def listed(name: str) -> Sequence[Jar]:
    """Return the jars of a list."""
    jars = []
    for line in _file(name).read_text().splitlines():
        if line and not line.startswith("#"):
            coordinates, sha256, size = line.split()
            group, artifact, version, *classifier = coordinates.split(":")
            jars.append(Jar(group, artifact, version, "".join(classifier), sha256, int(size)))
    return jars


def installed(name: str) -> Path:
    """Return the folder with the jars of a list, and download them first if they are missing. Raise
    ConfigurationError if a jar cannot be downloaded or does not match the list."""
    jars = listed(name)
    folder = default_folder() / f"{name}-{hashlib.sha256(_file(name).read_bytes()).hexdigest()[:16]}"
    if not folder.is_dir():
        _download(jars, folder)
    for jar in jars:
        _check(jar, folder / jar.name)
    return folder


def default_folder() -> Path:
    return user_cache("jars")


def _file(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.jars")


def _download(jars: Sequence[Jar], folder: Path) -> None:
    repository = os.environ.get("RHEOS_MAVEN") or CENTRAL
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    except OSError as error:
        raise ConfigurationError(
            f"the folder for downloaded jars cannot be created: {error}",
            hint="set XDG_CACHE_HOME to use another folder than ~/.cache",
        ) from None
    try:
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for _ in threads.map(lambda jar: _fetch(jar, repository, new), jars):
                pass
        try:
            new.rename(folder)
        except OSError:
            if not folder.is_dir():  # Otherwise another process has put it there meanwhile.
                raise
    except OSError as error:
        raise ConfigurationError(
            f"the jars cannot be downloaded from {repository}: {error}", hint=_WITHOUT_NETWORK
        ) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _fetch(jar: Jar, repository: str, folder: Path) -> None:
    url = f"{repository.rstrip('/')}/{jar.path}"
    with opener().open(url, timeout=_TIMEOUT_S) as answer:
        # One byte more would show that it is longer.
        content = answer.read(jar.size_bytes + 1)
    (folder / jar.name).write_bytes(content)
    _check(jar, folder / jar.name)


def _check(jar: Jar, path: Path) -> None:
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        found = "nothing"
    if found != jar.sha256:
        raise ConfigurationError(
            f"{path} is not the {jar.group}:{jar.artifact}:{jar.version} that Rheos expects",
            hint=f"its SHA-256 must be {jar.sha256}; remove the folder {path.parent}, and Rheos "
            "downloads it again",
        )
