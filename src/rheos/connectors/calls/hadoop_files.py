"""Common parts of `hdfs://` and `webhdfs://`: atomic writes, and errors by their kinds.

HDFS makes a file visible while it is being written, so a whole file is written under a temporary name
and renamed. The NameNode decides a rename in one step, and refuses one whose target exists.

A client repeats a call whose answer was lost, and the repetition fails. So if a rename failed, but the
source is gone and the target exists, the rename has succeeded: nobody else uses the source's name.
"""

from __future__ import annotations

import contextlib
import errno
from abc import abstractmethod
from typing import Any
from uuid import uuid4

from fsspec import AbstractFileSystem

from rheos.connectors.calls.file_systems import TEMPORARY

_CODES = {
    "FileNotFoundException": errno.ENOENT,
    "FileAlreadyExistsException": errno.EEXIST,
    "AccessControlException": errno.EACCES,
    "AuthorizationException": errno.EACCES,
    "SecurityException": errno.EACCES,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
    "NSQuotaExceededException": errno.EDQUOT,
    "DSQuotaExceededException": errno.EDQUOT,
    # An outage: the NameNode or the DataNode is starting, or has no other DataNode to write to.
    "SafeModeException": errno.ECONNABORTED,
    "RetriableException": errno.ECONNABORTED,
    "StandbyException": errno.ECONNABORTED,
    "NotReplicatedYetException": errno.ECONNABORTED,
    "ConnectException": errno.ECONNABORTED,
    "EOFException": errno.ECONNABORTED,
}
_NO_DATA_NODE = ("could only be written to", "Failed to find datanode")


def remote_error(kind: str, message: str) -> OSError:
    """Return the error for an exception of a server of Hadoop.

    Args:
        kind: class of the exception, with or without its package.
        message: its message; only the first line is used, as a stack trace may follow.
    """
    name, line = kind.rpartition(".")[2], message.partition("\n")[0]
    code = _CODES.get(name)
    if any(each in line for each in _NO_DATA_NODE):
        code = errno.ECONNABORTED
    return OSError(f"{name}: {line}") if code is None else OSError(code, line)


class HadoopFiles(AbstractFileSystem):  # type: ignore[misc]
    """The part of a file system of fsspec in which clients of HDFS do not differ."""

    @abstractmethod
    def _rename(self, source: str, target: str, overwrite: bool) -> None:
        """Rename a file in one step. Raise FileExistsError if the target exists, unless `overwrite`."""

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        """Rename a file that nobody else uses. Raise FileExistsError if the target exists."""
        self._move(path1, path2, overwrite=False)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        """Write a whole file in one step.

        Args:
            path: its path.
            value: its content.
            mode: "overwrite" replaces a file; "create" raises FileExistsError if one exists.
        """
        folder = path.rpartition("/")[0]
        self.makedirs(folder, exist_ok=True)
        temporary = f"{folder}/{TEMPORARY}{uuid4().hex}"
        try:
            with self.open(temporary, "wb") as file:
                file.write(value)
            self._move(temporary, path, overwrite=mode != "create")
        except BaseException:
            with contextlib.suppress(Exception):  # The first error is the one to report.
                self.rm_file(temporary)
            raise

    def _move(self, source: str, target: str, overwrite: bool) -> None:
        try:
            self._rename(source, target, overwrite)
        except Exception:
            if self.exists(source) or not self.exists(target):
                raise
