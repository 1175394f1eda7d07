"""Metadata files on HDFS, by the same client as data files.

`catalogs.py` registers this module with the library, which imports it when a table is on HDFS.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.io.fsspec import FsspecInputFile, FsspecOutputFile

from rheos.connectors.calls.file_systems import url_to_fs


class HdfsFileIO(FileIO):
    """Reads and writes files of a table on HDFS, with the time limits of its file system."""

    def new_input(self, location: str) -> Any:
        """Return a file to read."""
        return FsspecInputFile(location=location, fs=url_to_fs(location)[0])

    def new_output(self, location: str) -> Any:
        """Return a file to write."""
        return FsspecOutputFile(location=location, fs=url_to_fs(location)[0])

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        url = location if isinstance(location, str) else location.location
        system, path = url_to_fs(url)
        system.rm(path)
