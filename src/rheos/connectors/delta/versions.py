"""The log of a Delta table, read version by version."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import msgspec

from rheos.connectors.calls.file_systems import raise_if_away
from rheos.connectors.delta.delta_table import relative_path
from rheos.connectors.files.folder import SinkFolder
from rheos.core.errors import InputError

_NUMBER = re.compile(r"(\d{20})\.")
"""Beginning of the name of a file about one version."""


class DataFile(msgspec.Struct, frozen=True):
    """A data file: the payload of a split."""

    path: str
    """Path relative to the table's folder."""
    partition: dict[str, str | None]
    """Values of the partition columns, as the log contains them."""


class FileAction(msgspec.Struct, frozen=True, rename="camel"):
    """A file that a version adds or removes, or a file of its change data feed."""

    path: str
    data_change: bool = True
    partition_values: dict[str, str | None] | None = None
    deletion_vector: Any = None

    @property
    def file(self) -> DataFile:
        """Return the file."""
        return DataFile(relative_path(unquote(self.path)), self.partition_values or {})


class _CommitInfo(msgspec.Struct, frozen=True, rename="camel"):
    timestamp: int | None = None
    in_commit_timestamp: int | None = None


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    schema_string: str
    partition_columns: list[str] = []
    configuration: dict[str, str | None] = {}


class _Action(msgspec.Struct, frozen=True, rename="camel"):
    """One line of a version. Other actions concern no rows."""

    add: FileAction | None = None
    remove: FileAction | None = None
    cdc: FileAction | None = None
    meta_data: _Metadata | None = None
    commit_info: _CommitInfo | None = None


_decoder = msgspec.json.Decoder(_Action)


class _Field(msgspec.Struct, frozen=True):
    name: str


class _Columns(msgspec.Struct, frozen=True):
    fields: list[_Field]


@dataclass
class Version:
    """Changes that one version makes to the rows of the table."""

    number: int
    added: list[FileAction] = field(default_factory=list)
    removed: list[FileAction] = field(default_factory=list)
    changed: list[FileAction] = field(default_factory=list)
    """Files of the change data feed. If a version has some, they have all changes of its rows."""
    columns: frozenset[str] | None = None
    """Columns of the table, if the version sets them."""
    commit_time_ms: int | None = None


def read_version(folder: SinkFolder, location: str, number: int) -> Version:
    """Read a version: the files with changes of rows, without those that only move rows.

    Raises:
        InputError: it is not in the log any more, cannot be read, or introduces column mapping.
        UnavailableError: the store does not answer.
    """
    path = folder.path(f"_delta_log/{number:020}.json")
    version = Version(number)
    try:
        with folder.system.open(path, "rb") as log:
            for line in log.read().splitlines():
                if line.strip():
                    _take(version, _decoder.decode(line), location)
    except FileNotFoundError as error:
        raise lost_version(location, number) from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(f"{path} is not a version of a Delta table: {error}") from error
    except OSError as error:
        raise_if_away(error, f"{path} cannot be read")
        raise
    return version


def _take(version: Version, action: _Action, location: str) -> None:
    if action.add is not None and action.add.data_change:
        version.added.append(action.add)
    if action.remove is not None and action.remove.data_change:
        version.removed.append(action.remove)
    if action.cdc is not None:
        version.changed.append(action.cdc)
    if action.commit_info is not None:
        info = action.commit_info
        version.commit_time_ms = info.in_commit_timestamp or info.timestamp
    if action.meta_data is not None:
        if (action.meta_data.configuration.get("delta.columnMapping.mode") or "none") != "none":
            raise InputError(
                f"version {version.number} of the table {location} has column mapping, which the "
                "source does not support",
                hint="read the table by Spark, or copy its rows to a table without it",
            )
        columns = msgspec.json.decode(action.meta_data.schema_string, type=_Columns)
        version.columns = frozenset(each.name for each in columns.fields)


def lost_version(location: str, number: int) -> InputError:
    """Return the error for a version that has left the log."""
    return InputError(
        f"version {number} of the table {location} is not in its log any more",
        hint="the log's retention is too short for the source: start the job anew from a newer "
        "version, or set delta.logRetentionDuration",
    )


def unsupported_deletions(location: str, number: int) -> InputError:
    """Return the error for a version whose files have deletion vectors."""
    return InputError(
        f"version {number} of the table {location} has deletion vectors, which the source does not "
        "support",
        hint="purge them: REORG TABLE ... APPLY (PURGE)",
    )


class VersionNumbers:
    """Numbers of the versions in a log, as of the last listing."""

    def __init__(self, folder: SinkFolder, location: str) -> None:
        self._folder = folder
        self._location = location
        self._there: frozenset[int] = frozenset()
        self._newest = -1

    def following(self, number: int) -> int | None:
        """Return the number after a version; None if there is no such version yet.

        Raises:
            InputError: there are later versions, but that one is not in the log any more; or the log
                is missing.
        """
        wanted = number + 1
        # A listing in several requests may miss a file that was created meanwhile.
        for _ in range(2):
            if wanted not in self._there:
                self._list()
            if wanted in self._there:
                return wanted
            if self._newest < wanted:
                return None
        raise lost_version(self._location, wanted)

    def _list(self) -> None:
        path = self._folder.path("_delta_log")
        try:
            names = self._folder.names("_delta_log")
        except OSError as error:
            raise_if_away(error, f"{path} cannot be listed")
            raise
        found = {int(match[1]): name for name in names if (match := _NUMBER.match(name))}
        if not found:
            raise InputError(
                f"the table {self._location} has no log any more",
                hint="was the table deleted or moved? Start the job anew with its new path",
            )
        self._newest = max(found)
        self._there = frozenset(int(name[:20]) for name in names if re.fullmatch(r"\d{20}\.json", name))
