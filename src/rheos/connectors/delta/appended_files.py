"""The data files of a version of a Delta table, and those that later versions append.

A version that only compacts files has no new rows, so its files are left out. A version that removes
rows is an error: rows that were read before would be wrong.
"""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow as pa

from rheos.connectors.delta.delta_table import inspecting, readable_columns, relative_path, table_uri
from rheos.connectors.delta.registration import CONNECTOR
from rheos.connectors.delta.versions import DataFile, read_version, unsupported_deletions
from rheos.connectors.files.folder import SinkFolder
from rheos.core.errors import InputError


def version_files(location: str, version: int) -> list[DataFile]:
    """Return the data files of a version. Raises ConfigurationError if it cannot be read."""
    with inspecting(location):
        table = CONNECTOR.client().DeltaTable(table_uri(location), version=version)
        readable_columns(table, location)
        found = pa.table(table.get_add_actions())
    paths = found["path"].to_pylist()
    if "partition" not in found.column_names:
        return [DataFile(relative_path(unquote(path)), {}) for path in paths]
    partition = found["partition"].combine_chunks()
    texts = {each.name: partition.field(each.name).cast(pa.string()) for each in partition.type}
    rows = pa.table(texts).to_pylist()
    return [DataFile(relative_path(unquote(path)), row) for path, row in zip(paths, rows, strict=True)]


class AppendedFiles:
    """Files that versions after the first one append, as the driver has found them so far."""

    def __init__(self) -> None:
        self._found: list[DataFile] = []
        self._read = -1
        """Newest version whose files are found."""

    def after(self, location: str, version: int) -> list[DataFile]:
        """Return the files that all versions after one have appended, in their order.

        Raises:
            InputError: a version has removed rows, or is not in the log any more.
        """
        with inspecting(location):
            newest = CONNECTOR.client().DeltaTable(table_uri(location)).version()
        folder = SinkFolder(location)
        for number in range(max(self._read, version) + 1, newest + 1):
            self._found += _appended(folder, location, number)
            self._read = number
        return list(self._found)

    def __reduce__(self) -> tuple[type[AppendedFiles], tuple[()]]:
        return AppendedFiles, ()  # Only the driver uses its content.


def _appended(folder: SinkFolder, location: str, number: int) -> list[DataFile]:
    """Return the files with new rows of one version."""
    version = read_version(folder, location, number)
    if version.removed:
        raise InputError(
            f"version {number} of the table {location} deletes or replaces rows "
            f"({version.removed[0].path}), which a source of appended rows cannot follow",
            hint="read its changes, by rh.delta.changes(...); or start the job anew with "
            f"version={number}",
        )
    if any(each.deletion_vector is not None for each in version.added):
        raise unsupported_deletions(location, number)
    return [each.file for each in version.added]
