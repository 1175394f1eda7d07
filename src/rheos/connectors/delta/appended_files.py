"""The data files of a version of a Delta table, and those that later versions append.

A version that only compacts files has no new rows, so its files are left out. A version that removes
rows is an error: rows that were read before would be wrong.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from rheos.connectors.delta.delta_table import inspecting, readable_columns, relative_path, table_uri
from rheos.connectors.delta.registration import CONNECTOR
from rheos.connectors.files.folder import SinkFolder
from rheos.core.errors import InputError


class DataFile(msgspec.Struct, frozen=True):
    """Payload of a split: one data file."""

    path: str
    """Path relative to the table's folder."""
    partition: dict[str, str | None]
    """Values of the partition columns, as the log contains them."""


class _AddAction(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    data_change: bool
    partition_values: dict[str, str | None] = {}
    deletion_vector: Any = None


class _RemoveAction(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    data_change: bool


class _Action(msgspec.Struct, frozen=True):
    """One line of a version. Other actions concern no rows."""

    add: _AddAction | None = None
    remove: _RemoveAction | None = None


_decoder = msgspec.json.Decoder(_Action)


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


def _appended(folder: SinkFolder, location: str, version: int) -> list[DataFile]:
    """Return the files with new rows of one version."""
    path = folder.path(f"_delta_log/{version:020}.json")
    try:
        with folder.system.open(path, "rb") as log:
            actions = [_decoder.decode(line) for line in log.read().splitlines() if line.strip()]
    except FileNotFoundError as error:
        raise InputError(
            f"version {version} of the table {location} is not in its log any more",
            hint="the log's retention is too short for the source: start the job anew from a newer "
            "version, or set delta.logRetentionDuration",
        ) from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(f"{path} is not a version of a Delta table: {error}") from error
    files = []
    for action in actions:
        if action.remove is not None and action.remove.data_change:
            raise InputError(
                f"version {version} of the table {location} deletes or replaces rows "
                f"({action.remove.path}), which a source of appended rows cannot follow",
                hint=f"start the job anew with version={version}; a table that is upserted is read "
                "without discover=",
            )
        if action.add is not None and action.add.data_change:
            if action.add.deletion_vector is not None:
                raise InputError(
                    f"version {version} of the table {location} has deletion vectors, which the source "
                    "does not support",
                    hint="purge them: REORG TABLE ... APPLY (PURGE)",
                )
            files.append(DataFile(relative_path(unquote(action.add.path)), action.add.partition_values))
    return files
