"""Files of a bounded file system: one that is open for reading or writing, and one that is uploaded."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rheos.connectors.calls.file_systems import BoundedFileSystem


class _WrappedFile(ABC):
    """A file of a bounded file system. What it does not define is forwarded to the wrapped file."""

    def __init__(self, system: BoundedFileSystem, path: str, file: Any) -> None:
        self._system = system
        self._path = path
        self._file = file

    @abstractmethod
    def close(self) -> None:
        """Complete the file. May be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name == "_file":
            raise AttributeError(name)
        return getattr(self._file, name)


class BoundedFile(_WrappedFile):
    """A file whose reads and writes are bounded calls."""

    def __init__(
        self, system: BoundedFileSystem, path: str, opened: Callable[[], Any], file: Any
    ) -> None:
        super().__init__(system, path, file)
        self._opened = opened

    def read(self, *args: Any) -> Any:
        return self._read_again("read", *args)

    def readline(self, *args: Any) -> Any:
        return self._read_again("readline", *args)

    def _read_again(self, method: str, *args: Any) -> Any:
        """Read from the current position. A try that has failed may have moved it, and the file system
        may have been replaced: so the next try opens the file again."""
        position = self._file.tell()
        failed = False

        def work() -> Any:
            nonlocal failed
            if failed:
                self._file = self._opened()
                self._file.seek(position)
            failed = True
            return getattr(self._file, method)(*args)

        return self._system.run(self._path, "read", work)

    def readinto(self, buffer: Any) -> int:
        into = memoryview(buffer).cast("B")
        # An abandoned call may still write into its buffer, so it does not get the caller's.
        data = self.read(len(into))
        into[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> Any:
        copied = bytes(data)  # An abandoned call may still read its argument, so it gets a copy.
        return self._system.run(self._path, "write", lambda: self._file.write(copied), repeat=False)

    def flush(self, *args: Any) -> Any:
        return self._system.run(self._path, "write", lambda: self._file.flush(*args), repeat=False)

    def close(self) -> None:
        self._system.run(self._path, "close", self._file.close, repeat=False)


class UploadedFile(_WrappedFile):
    """A new object. It is a temporary file on the local disk until it is closed, so that the upload can
    be repeated as a whole."""

    def __init__(self, system: BoundedFileSystem, path: str) -> None:
        file = tempfile.NamedTemporaryFile(prefix="rheos-upload-")  # noqa: SIM115
        super().__init__(system, path, file)

    def close(self) -> None:
        if not self._file.closed:
            with self._file:
                self._file.flush()
                self._system.put_file(self._file.name, self._path)
