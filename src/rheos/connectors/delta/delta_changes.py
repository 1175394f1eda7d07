"""The changes of each version of a Delta table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from rheos.connectors.delta.appended_files import version_files
from rheos.connectors.delta.delta_table import lone_call
from rheos.connectors.delta.file_decoder import DataFileDecoder, partition_values
from rheos.connectors.delta.versions import (
    FileAction,
    Version,
    VersionNumbers,
    read_version,
    unsupported_deletions,
)
from rheos.connectors.files.chunks import ChunkDecoder
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.table_log.change_feed import (
    ChangeLog,
    ChangeStep,
    FeedColumn,
    Op,
    VersionChanges,
)
from rheos.core.errors import InputError

_KIND: Final = "_change_type"
_OLD: Final[Mapping[str, Op]] = {"delete": "delete", "update_preimage": "update_before"}
_NEW: Final[Mapping[str, Op]] = {"insert": "insert", "update_postimage": "update_after"}
_KNOWN = frozenset({*_OLD, *_NEW})


class DeltaChangeLog(ChangeLog):
    """The log of a table, for one reader."""

    def __init__(self, location: str, is_partitioned: bool) -> None:
        """Create it, without reading the log.

        Args:
            location: the table's folder.
            is_partitioned: whether the table has partition columns.
        """
        self._location = location
        self._is_partitioned = is_partitioned
        self._folder = SinkFolder(location)
        self._numbers = VersionNumbers(self._folder, location)

    def rows_of(self, version: int) -> VersionChanges:
        doing = f"listing of version {version} of the table {self._location}"
        key = f"{self._location} {id(self)}"  # Other readers may list the same table.
        files = lone_call(key, doing, lambda _: version_files(self._location, version))
        files.sort(key=lambda file: file.path)
        return VersionChanges(version, [ChangeStep(file, file.path, "snapshot") for file in files])

    def changes_of(self, version: int, columns: Sequence[str]) -> VersionChanges:
        found = read_version(self._folder, self._location, version)
        self._check_columns(found, columns)
        if found.changed:
            steps = [
                *self._steps(found, found.changed, FeedColumn(_KIND, _KNOWN, _OLD)),
                *self._steps(found, found.changed, FeedColumn(_KIND, _KNOWN, _NEW)),
            ]
        else:
            if any(each.deletion_vector is not None for each in [*found.added, *found.removed]):
                raise unsupported_deletions(self._location, version)
            steps = [
                *self._steps(found, found.removed, "delete"),
                *self._steps(found, found.added, "insert"),
            ]
        time_ms = found.commit_time_ms
        return VersionChanges(version, steps, None if time_ms is None else time_ms * 1000)

    def following(self, version: int) -> int | None:
        return self._numbers.following(version)

    def decoder(self, step: ChangeStep, columns: pa.Schema, position: bytes) -> ChunkDecoder:
        values = partition_values(step.file, columns)
        return DataFileDecoder(f"{self._location}/{step.file.path}", columns, values, position)

    def lost_file(self, version: int, path: str) -> InputError:
        return InputError(
            f"the file {path} of version {version} of the table {self._location} no longer exists",
            hint="the table was vacuumed before the source had read the version: start the job anew "
            "from a newer version, or set delta.deletedFileRetentionDuration",
        )

    def _steps(
        self, version: Version, actions: Iterable[FileAction], op: Op | FeedColumn
    ) -> list[ChangeStep]:
        return [self._step(version, action, op) for action in actions]

    def _step(self, version: Version, action: FileAction, op: Op | FeedColumn) -> ChangeStep:
        file = action.file
        if self._is_partitioned and action.partition_values is None:
            raise InputError(
                f"version {version.number} of the table {self._location} does not have the values of "
                f"the partition columns for the file {file.path}",
                hint="start the job anew from a newer version",
            )
        return ChangeStep(file, file.path, op)

    def _check_columns(self, version: Version, columns: Sequence[str]) -> None:
        """Raise InputError if the version drops a column that is read."""
        for name in columns:
            if version.columns is not None and name not in version.columns:
                raise InputError(
                    f"version {version.number} of the table {self._location} no longer has the column "
                    f"{name!r}",
                    hint="start the job anew from that version, or leave out the column by schema=",
                )
