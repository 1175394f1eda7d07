"""The log of a Delta table: looks at its newest version, and appends the next one, by the library
`deltalake`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.delta.delta_table import (
    DeltaTarget,
    check_writable,
    fitted_target,
    readable_columns,
    reading_or_writing,
    relative_path,
    table_uri,
)
from rheos.connectors.delta.expired_files import delete_expired_files
from rheos.connectors.delta.registration import CONNECTOR
from rheos.connectors.delta.table_files import DeltaTableFiles
from rheos.connectors.table_log.epoch_append import (
    Append,
    StagedDataFile,
    TableVersion,
    UncertainAppendError,
)
from rheos.connectors.table_log.expiry_policy import VersionExpiry
from rheos.connectors.table_log.table_files import LiveFile
from rheos.core.errors import ConfigurationError, RheosError, SchemaError


@dataclass(frozen=True)
class DeltaLog:
    """The log of one table, for one sink."""

    target: DeltaTarget
    sink: str
    """Id of the sink in the table (DL5)."""
    job: str

    def look(self) -> TableVersion:
        """Read the newest version.

        Raises:
            SchemaError: the sink's files do not fit the table any more.
            UnrestorableError: another table has taken its place.
            UnavailableError: the table cannot be read now.
        """
        target = self.target
        with reading_or_writing(target.folder):
            table = CONNECTOR.client().DeltaTable(table_uri(target.folder))
        target.check_identity(str(table.metadata().id))
        try:
            check_writable(table, target.folder, rewrites=bool(target.key))
            fitted_target(table, target.folder, target.staged, target.partition_by)
        except (ConfigurationError, SchemaError) as error:
            raise SchemaError(
                f"the table has changed while the job ran: {error.what}",
                hint="the checkpoint's rows are not in the table, but not lost: change the table back, "
                "and start the job again",
            ) from error
        return TableVersion(table.transaction_version(self.sink) or 0, table)

    def append(self, action: Append) -> None:
        """Write the version that follows the snapshot's (DL2).

        Raises:
            UncertainAppendError: another writer was first, or the outcome is unknown.
            UnrestorableError: a file is missing (DL4).
        """
        self.target.check_files(action.files, "the table was vacuumed with a short retention")
        self.write(action.snapshot.version, action.checkpoint, action.files)

    def expire(self, policy: VersionExpiry, now_ms: int, progressed: Progressed) -> int:
        """Remove old versions, and return the number of deleted files."""
        return delete_expired_files(self.target, policy, progressed)

    def files(self, version: Any) -> DeltaTableFiles:
        """Return the data files of a version."""
        return DeltaTableFiles(self.target, readable_columns(version, self.target.folder))

    def live_files(self, table: Any) -> list[LiveFile]:
        """Return the data files of a version."""
        with reading_or_writing(self.target.folder):
            found = pa.table(table.get_add_actions()).to_pylist()
        return [
            LiveFile(
                # The library returns the path as it is in the log, but expects a decoded one.
                relative_path(unquote(each["path"])),
                each["size_bytes"],
                {name: each["partition"][name] for name in self.target.partition_by},
                each.get("min") or {},
                each.get("max") or {},
                partition=tuple(each["partition"][name] for name in self.target.partition_by),
                written_ms=each["modification_time"],
            )
            for each in found
        ]

    def write(
        self,
        table: Any,
        checkpoint: int | None,
        added: Sequence[StagedDataFile],
        removed: Sequence[LiveFile] = (),
    ) -> None:
        """Write the version that follows another one (DL2).

        Args:
            table: the version that it follows.
            checkpoint: the sink's number in the new version; None for a compaction (DL10).
            added: files that the new version has.
            removed: files of the earlier version that it does not have.

        Raises:
            UncertainAppendError: another writer was first, or the outcome is unknown.
        """
        delta, now_ms = CONNECTOR.client(), time.time_ns() // 1_000_000
        changes_rows = checkpoint is not None
        actions = [
            delta.transaction.AddAction(
                path=file.path,
                size=file.size_bytes,
                partition_values=dict(zip(self.target.partition_by, file.partition, strict=True)),
                modification_time=now_ms,
                data_change=changes_rows,
                stats=file.statistics,
            )
            for file in added
        ]
        actions += [
            delta.transaction.RemoveAction(file.path, changes_rows, now_ms, file.size_bytes)
            for file in removed
        ]
        about = {"rheos.checkpoint": checkpoint} if changes_rows else {"rheos.compaction": True}
        properties = delta.CommitProperties(
            custom_metadata={"rheos.job": self.job, **about},
            max_commit_retries=0,
            app_transactions=[delta.Transaction(self.sink, checkpoint)] if changes_rows else None,
        )
        try:
            with reading_or_writing(self.target.folder):
                table.create_write_transaction(
                    actions,
                    "append",
                    table.schema(),
                    partition_by=list(self.target.partition_by),
                    commit_properties=properties,
                )
        except RheosError as error:
            raise UncertainAppendError(error) from error
