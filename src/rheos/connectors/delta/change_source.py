"""Source of the changes of a Delta table: `delta.changes("lake/orders")`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.change_columns import check_names, known_fields
from rheos.connectors.delta.delta_changes import DeltaChangeLog
from rheos.connectors.delta.delta_table import inspecting, lone_call, readable_columns, table_uri
from rheos.connectors.delta.registration import CONNECTOR
from rheos.connectors.table_log.change_feed import FeedColumns, Known
from rheos.connectors.table_log.change_source import (
    ChangeBounds,
    TableChanges,
    check_end,
    without_metadata,
)
from rheos.connectors.urls import absolute
from rheos.core.connectors.datasets import Dataset, path_dataset
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.site import located_at_call

_FIELDS: Final[tuple[Known, ...]] = ("op", "version", "commit_time")


@located_at_call
def changes(
    path: str | os.PathLike[str],
    *,
    schema: Any = None,
    metadata: Sequence[str] | Mapping[str, str] = ("op",),
    version: int | None = None,
    snapshot: bool = True,
    end: Literal["now"] | None = None,
    discover: Duration = "10s",
) -> DeltaChanges:
    """Read the rows of a Delta table, and then each of its changes, exactly once.

    ```python
    orders = env.from_source(rh.delta.changes("lake/orders")).upserts(key="id")
    ```

    A row has the table's columns and `op`: "snapshot" for a row of the first version, "insert",
    "delete", and for an update "update_before" (the old row) and "update_after". Changes come in the
    order of the versions. In a version, old rows come before new ones.

    A version with files of the change data feed (`delta.enableChangeDataFeed`) changes the rows that
    are in these files. Another version deletes all rows of the files that it removes, and inserts those
    of the files that it adds. So a rewritten row is deleted and inserted again.

    Args:
        path: the folder of the table: a local path, or a URL of S3, Google Cloud Storage or Azure.
        schema: the columns to read: a dataclass, a pyarrow.Schema or a dict. By default all columns.
        metadata: metadata to add as columns: "op", "version", and "commit_time" (null for rows of the
            snapshot). Names, or a mapping to the names of the columns.
        version: the version whose changes are already known; by default the newest one when the job is
            first submitted.
        snapshot: whether a job without a checkpoint first emits the rows of that version.
        end: "now" ends with the newest version at the time of this call: such a source is bounded and
            may be read in batch.
        discover: interval at which to look for new versions.

    Returns:
        The source, for `env.from_source`. It is bounded if it has an end.

    Raises:
        ProgramError: An argument is invalid.
        SchemaError: The table does not have the columns, or two columns have one name.
        ConfigurationError: The table cannot be read.
    """
    text = os.fspath(path)
    if not isinstance(text, str) or not text.strip():
        raise ProgramError(f"{path!r} is not a path", hint='write rh.delta.changes("lake/orders")')
    if version is not None and (
        isinstance(version, bool) or not isinstance(version, int) or version < 0
    ):
        raise ProgramError(f"version={version!r} is not a version", hint="write a number from 0 on")
    check_end(end)
    known: tuple[tuple[Known, str], ...] = known_fields(metadata, _FIELDS)
    look_every_ms = duration_ms(discover)
    location = absolute(text).rstrip("/")
    wanted, record = (None, None) if schema is None else resolve(schema)

    def inspect(progressed: object) -> tuple[int, int, pa.Schema, bool]:
        with inspecting(location):
            table = CONNECTOR.client().DeltaTable(table_uri(location))
            columns = readable_columns(table, location, may_have_deletions=True)
            newest, partitions = table.version(), table.metadata().partition_columns
            begin = newest if version is None else version
            if snapshot:
                table = CONNECTOR.client().DeltaTable(table_uri(location), version=begin)
                readable_columns(table, location)
            elif begin > newest:
                raise ConfigurationError(
                    f"the table {location} has no version {begin}", hint=f"the newest is {newest}"
                )
            return begin, newest, columns, bool(partitions)

    begin, newest, columns, is_partitioned = lone_call(
        location, f"inspection of the table {location}", inspect
    )
    names = [name for _, name in known]
    kept = columns if wanted is None else without_metadata(wanted, names)
    check_names(location, columns.names, columns.names, kept, names)
    rows = FeedColumns(kept, known)
    given = record if wanted is not None and rows.schema.names == wanted.names else None
    return DeltaChanges(
        name=location,
        rows=rows,
        is_partitioned=is_partitioned,
        bounds=ChangeBounds(begin, newest if end else None),
        snapshot=snapshot,
        look_every_ms=look_every_ms,
        record=given,
    )


@dataclass(frozen=True, kw_only=True)
class DeltaChanges(TableChanges):
    """Source that `delta.changes` creates."""

    format = "Delta"
    version_name = "version"

    is_partitioned: bool

    def datasets(self) -> Sequence[Dataset]:
        return [path_dataset(self.name)]

    def log(self) -> DeltaChangeLog:
        return DeltaChangeLog(self.name, self.is_partitioned)

    def newest(self) -> int:
        def inspect(_: Progressed) -> int:
            with inspecting(self.name):
                return int(CONNECTOR.client().DeltaTable(table_uri(self.name)).version())

        return lone_call(self.name, f"inspection of the table {self.name}", inspect)
