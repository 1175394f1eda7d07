"""Stores: files on a local disk, and any fsspec file system that has a conditional put.

The job's log depends on `put_if_absent`, so a place that cannot do it atomically is refused.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from rheos.connectors.calls.file_systems import TEMPORARY, installation_of, url_to_fs
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.ports import Content, Store
from rheos.core.safe_strings import named_error
from rheos.runtimes.host.direct_writes import LEAST_BYTES, write_directly

_CONDITIONAL = {"memory", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "hdfs", "webhdfs"}
"""Schemes of fsspec whose `pipe_file(mode="create")` is atomic: in one process, or by the service."""


def open_store(directory: str, *, durable: bool = True, make: bool = True) -> Store:
    """Return the store at a path or fsspec URL. Raise ConfigurationError, with the directory, if it
    cannot be opened.

    If `durable` is False, local files are not synced to disk: for folders that are deleted with the
    process. If `make` is False, a local folder is made only with the first file in it.
    """
    scheme, separator, rest = directory.partition("://")
    if not separator:
        return LocalStore(directory, durable=durable, make=make)
    if scheme in ("file", "local"):
        return LocalStore(rest, durable=durable, make=make)
    if scheme not in _CONDITIONAL:
        raise ConfigurationError(
            f"checkpoints cannot be stored in {directory!r}: {scheme!r} has no atomic "
            "put-if-absent, without which two drivers could run the same job",
            hint="use a path on a local or shared disk, or one of s3://, gs://, abfs://, hdfs://",
        )
    return FsspecStore(directory)


def folder_exists(directory: str) -> bool:
    """Return whether the folder exists, without making it. True for a URL, as only opening checks
    it."""
    scheme, separator, rest = directory.partition("://")
    if separator and scheme not in ("file", "local"):
        return True
    return os.path.isdir(rest if separator else directory)


def allow_scheme(scheme: str) -> None:
    """Allow an fsspec file system of the user's own. Its `pipe_file(mode="create")` must be atomic, and
    must raise FileExistsError if the file exists. Call it in every process, such as in the module that
    registers the file system with fsspec."""
    _CONDITIONAL.add(scheme)


def check_lasting(directory: str) -> None:
    """Raise ConfigurationError if the folder is lost with this process. Nobody else could read it."""
    if directory.startswith("memory://"):
        raise ConfigurationError(
            f"a savepoint in {directory!r} would be lost with this process",
            hint="choose a folder on a disk, or one of s3://, gs://, abfs://, hdfs://",
        )


def check_writable(store: Store, directory: str) -> None:
    """Check that the store supports put-if-absent writes. Raise ConfigurationError, with the directory,
    if it does not, or a write fails."""
    path = f".probe/{uuid4().hex}"
    try:
        first = store.put_if_absent(path, uuid4().bytes)
        second = store.put_if_absent(path, b"")
        store.delete(path)
    except OSError as error:
        raise ConfigurationError(
            f"the checkpoint directory {directory!r} cannot be written: {error}",
            hint="choose one that this user may write to: Environment(checkpoint_dir=...)",
        ) from error
    if not first or second:
        raise ConfigurationError(
            f"the checkpoint directory {directory!r} ignores put-if-absent: a file was written twice",
            hint="use a store with conditional writes; some S3-compatible services lack them",
        )


class LocalStore:
    """A store of files in a folder of a local or shared disk. Safe for many threads and processes."""

    def __init__(
        self, root: str | os.PathLike[str], *, durable: bool = True, make: bool = True
    ) -> None:
        self._root = Path(root).absolute()
        self._durable = durable
        if not make:
            return
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"the checkpoint directory {str(root)!r} cannot be created: {error}",
                hint="choose one that this user may write to: Environment(checkpoint_dir=...)",
            ) from error

    def put(self, path: str, data: Content) -> None:
        target = self._root / _inside(path)
        with self._write_temporary(target, data) as temporary:
            temporary.replace(target)
        self._sync_folder(target.parent)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        target = self._root / _inside(path)
        with self._write_temporary(target, data) as temporary:
            try:
                os.link(temporary, target)
            except FileExistsError:
                # NFS may repeat a request whose answer was lost, and then finds its own file.
                if not _holds(self, path, data):
                    return False
        self._sync_folder(target.parent)
        return True

    def get(self, path: str) -> bytes:
        return (self._root / _inside(path)).read_bytes()

    def unfinished(self, prefix: str, idle_s: int = 0) -> list[str]:
        found = sorted(path for path in self._walk(prefix) if _is_temporary(path))
        return [path for path in found if not idle_s or self._is_idle(path, idle_s)]

    def list(self, prefix: str) -> list[str]:
        return sorted(path for path in self._walk(prefix) if not _is_temporary(path))

    def delete(self, path: str) -> None:
        """Delete the file, and folders that become empty by that, up to the root."""
        target = self._root / _inside(path)
        target.unlink(missing_ok=True)
        for folder in target.parents:
            if folder == self._root:
                return
            try:
                folder.rmdir()
            except OSError:
                return  # It is not empty, or does not exist.

    def _walk(self, prefix: str) -> Iterator[str]:
        for folder, _, files in os.walk(self._root / prefix, onerror=_unless_missing):
            relative = Path(folder).relative_to(self._root)
            yield from ((relative / name).as_posix() for name in files)

    def _is_idle(self, path: str, idle_s: int) -> bool:
        try:
            return time.time() - (self._root / path).stat().st_mtime >= idle_s
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def _write_temporary(self, target: Path, data: Content) -> Iterator[Path]:
        """Yield a temporary file next to the target, complete and synced to the disk."""
        descriptor, name = self._make_temporary(target.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if self._durable and len(data) >= LEAST_BYTES:
                    write_directly(descriptor, data)
                else:
                    file.write(data)
                    file.flush()
                if self._durable:
                    os.fsync(descriptor)
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    def _make_temporary(self, folder: Path) -> tuple[int, str]:
        while True:
            # If another process removes the folder as empty at this moment, make it again.
            try:
                folder.mkdir(parents=True, exist_ok=True)
                return tempfile.mkstemp(prefix=TEMPORARY, dir=folder)
            except FileNotFoundError:
                pass
            except FileExistsError:
                if folder.is_file():
                    raise

    def _sync_folder(self, folder: Path) -> None:
        if not self._durable:
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _holds(store: Store, path: str, data: bytes) -> bool:
    """Return whether a file has this content. False if another process has deleted it."""
    try:
        return store.get(path) == data
    except FileNotFoundError:
        return False


def _is_temporary(path: str) -> bool:
    return path.rpartition("/")[2].startswith(TEMPORARY)


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _inside(path: str) -> str:
    """Return the path. Raise PermissionError if it leads out of the store's root (CP32)."""
    if path.startswith("/") or ".." in path.split("/"):
        raise PermissionError(f"{path!r} is outside of the store")
    return path


class FsspecStore:
    """A store of objects under an fsspec URL. It needs the library of the scheme (s3fs, gcsfs, adlfs,
    hdfs-native).
    Each call has a deadline; `connectors/calls/file_systems.py` describes what a late call may do."""

    _creating = threading.Lock()
    """Lock for the memory file system, which checks and writes in two steps."""

    def __init__(self, url: str) -> None:
        try:
            self._fs, root = url_to_fs(url, use_listings_cache=False)
        except (ImportError, ValueError, OSError) as error:
            raise ConfigurationError(
                f"the checkpoint directory {url!r} cannot be opened: {error}",
                hint=(isinstance(error, ImportError) and installation_of(url))
                or "check the URL, and the credentials of its service",
            ) from error
        self._root = str(root).rstrip("/")

    def put(self, path: str, data: Content) -> None:
        with _os_errors():
            self._make_folder(path)
            self._fs.pipe_file(self._full(path), bytes(data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        full = self._full(path)
        with _os_errors():
            self._make_folder(path)
            try:
                # Only the memory file system needs the lock: its holder must not wait for a store.
                with self._creating if self._fs.protocol == "memory" else contextlib.nullcontext():
                    self._fs.pipe_file(full, data, mode="create")
            except FileExistsError:
                return _holds(self, path, data)
            except (TimeoutError, ConnectionError):
                raise  # The file may exist, and the store does not respond.
            except Exception:
                # Services report a failed precondition in many ways, but whether a file exists is
                # clear.
                if self._fs.exists(full):
                    return _holds(self, path, data)
                raise
        return True

    def get(self, path: str) -> bytes:
        with _os_errors():
            return bytes(self._fs.cat_file(self._full(path)))

    def unfinished(self, prefix: str, idle_s: int = 0) -> list[str]:
        # Services list only complete objects, and drop incomplete ones. HDFS lists and keeps them.
        found = [path for path in self._find(prefix) if _is_temporary(path)]
        return [path for path in found if not idle_s or self._is_idle(path, idle_s)]

    def list(self, prefix: str) -> list[str]:
        return [path for path in self._find(prefix) if not _is_temporary(path)]

    def delete(self, path: str) -> None:
        with _os_errors(), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._full(path))

    def _find(self, prefix: str) -> Sequence[str]:
        folder = self._full(prefix).rstrip("/")
        with _os_errors():
            try:
                found: list[Any] = self._fs.find(folder)
            except FileNotFoundError:
                return []
        # s3fs returns the folder itself if its first file appears during the call.
        return sorted(str(path)[len(self._root) + 1 :] for path in found if path != folder)

    def _is_idle(self, path: str, idle_s: int) -> bool:
        with _os_errors():
            try:
                modified_s: float = self._fs.modified(self._full(path)).timestamp()
            except FileNotFoundError:
                return False
        return time.time() - modified_s >= idle_s

    def _full(self, path: str) -> str:
        return f"{self._root}/{_inside(path)}"

    def _make_folder(self, path: str) -> None:
        if self._fs.protocol == "memory":
            self._fs.makedirs(self._full(path).rpartition("/")[0], exist_ok=True)


@contextlib.contextmanager
def _os_errors() -> Iterator[None]:
    """Turn errors in the block into OSError: the libraries under fsspec raise their own."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(named_error(error)) from error
