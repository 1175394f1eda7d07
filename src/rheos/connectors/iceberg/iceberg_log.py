"""The log of an Iceberg table: looks at its newest metadata, and writes the next snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.iceberg.catalogs import OneAttemptCatalog
from rheos.connectors.iceberg.columns import FIELD_ID
from rheos.connectors.iceberg.expired_snapshots import expire_snapshots
from rheos.connectors.iceberg.iceberg_table import (
    IcebergTarget,
    number_property,
    reading_or_writing,
    rewritable_columns,
)
from rheos.connectors.iceberg.library import library
from rheos.connectors.iceberg.table_files import IcebergTableFiles, live_files
from rheos.connectors.iceberg.writer import decoded_statistics
from rheos.connectors.table_log.epoch_append import (
    Append,
    StagedDataFile,
    TableVersion,
    UncertainAppendError,
)
from rheos.connectors.table_log.expiry_policy import VersionExpiry
from rheos.connectors.table_log.table_files import LiveFile
from rheos.core.errors import RheosError, SchemaError

_MANY_MANIFESTS = 100
"""Number of manifests above which they are merged, as the table's property has it by default."""


@dataclass(frozen=True)
class IcebergLog:
    """The log of one table, for one sink."""

    target: IcebergTarget
    sink: str
    """Id of the sink in the table (IC5)."""
    job: str

    def look(self) -> TableVersion:
        """Read the newest metadata.

        Raises:
            SchemaError: the sink's files do not fit the table any more.
            UnrestorableError: another table has taken its place.
            UnavailableError: the table cannot be read now.
        """
        with reading_or_writing(self.target.name):
            table = self.target.catalog.load().load_table(self.target.name)
            self._check(table)
            return TableVersion(self._number(table), table)

    def _check(self, table: Any) -> None:
        target = self.target
        target.check_identity(str(table.metadata.table_uuid))
        staged = {int(field.metadata[FIELD_ID]): field.name for field in target.staged}
        columns = {field.field_id: field for field in table.schema().fields}
        dropped = [name for field_id, name in staged.items() if field_id not in columns]
        changes = [f"the column {name!r} was dropped" for name in dropped]
        changes += [
            f"the column {field.name!r} is NOT NULL"
            for field_id, field in columns.items()
            if field.required and field_id not in staged
        ]
        if table.spec().spec_id != target.partitioning.spec.spec_id:
            changes.append("it is partitioned in another way")
        if target.key:
            rewritable_columns(table, target.name)
        if changes:
            raise SchemaError(
                f"the table {target.name} has changed while the job ran: {', '.join(changes)}",
                hint="the checkpoint's rows are not in the table, but not lost: change the table back, "
                "and start the job again",
            )

    def _number(self, table: Any) -> int:
        """Return the sink's number: from its property, or else from its newest snapshot (IC6)."""
        if (written := table.properties.get(number_property(self.sink))) is not None:
            return int(written)
        snapshots = {each.snapshot_id: each for each in table.metadata.snapshots}
        snapshot = table.current_snapshot()
        while snapshot is not None:
            about = snapshot.summary.additional_properties if snapshot.summary else {}
            if about.get("rheos.sink") == self.sink:
                return int(about["rheos.checkpoint"])
            snapshot = snapshots.get(snapshot.parent_snapshot_id)
        return 0

    def append(self, action: Append) -> None:
        """Write the snapshot that follows the one that was looked at (IC2).

        Raises:
            UncertainAppendError: another writer was first, or the outcome is unknown.
            UnrestorableError: a file is missing (IC4).
        """
        self.target.check_files(action.files, "orphan files of the table were removed")
        self.write(action.snapshot.version, action.checkpoint, action.files)

    def expire(self, policy: VersionExpiry, now_ms: int, progressed: Progressed) -> int:
        """Remove old versions, and return the number of deleted files."""
        return expire_snapshots(self.target, policy, now_ms, progressed)

    def files(self, version: Any) -> IcebergTableFiles:
        """Return the data files of a version of the table."""
        return IcebergTableFiles(self.target, version)

    def live_files(self, version: Any) -> list[LiveFile]:
        """Return descriptions of the data files of a version."""
        with reading_or_writing(self.target.name):
            return live_files(version)

    def write(
        self,
        version: Any,
        checkpoint: int | None,
        added: Sequence[StagedDataFile],
        removed: Sequence[LiveFile] = (),
    ) -> None:
        """Write the snapshot that follows the one of a version (IC2).

        Args:
            version: the table, with the metadata that was looked at.
            checkpoint: the sink's number after the commit; None for a compaction (IC10).
            added: files that the new snapshot has.
            removed: files of the earlier snapshot that it does not have.

        Raises:
            UncertainAppendError: another writer was first, or the outcome is unknown.
        """
        table = library("table").Table(
            version.name(),
            version.metadata,
            version.metadata_location,
            version.io,
            OneAttemptCatalog(version.catalog, replaces=checkpoint is None),
        )
        about = {"rheos.job": self.job}
        if checkpoint is None:
            about["rheos.compaction"] = "true"
        else:
            about |= {"rheos.sink": self.sink, "rheos.checkpoint": str(checkpoint)}
        try:
            with reading_or_writing(self.target.name):
                transaction = table.transaction()
                if checkpoint is not None:
                    transaction.set_properties({number_property(self.sink): str(checkpoint)})
                update = transaction.update_snapshot(snapshot_properties=about)
                if removed:
                    if _has_many_manifests(version):
                        # Replacing files leaves the manifests as they are. An append without files
                        # merges them, and leaves out those without files.
                        with _append_to(update, version):
                            pass
                    with update.overwrite() as snapshot:
                        # The library looks for removed files only where this condition may hold.
                        snapshot.delete_by_predicate(library("expressions").AlwaysTrue())
                        for live in removed:
                            snapshot.delete_data_file(live.described)
                        for file in added:
                            snapshot.append_data_file(self._data_file(file))
                else:
                    with _append_to(update, version) as snapshot:
                        for file in added:
                            snapshot.append_data_file(self._data_file(file))
                transaction.commit_transaction()
        except RheosError as error:
            raise UncertainAppendError(error) from error

    def _data_file(self, file: StagedDataFile) -> Any:
        manifest = library("manifest")
        return manifest.DataFile.from_args(
            content=manifest.DataFileContent.DATA,
            file_path=f"{self.target.folder}/{file.path}",
            file_format=manifest.FileFormat.PARQUET,
            partition=self.target.partitioning.record(file.partition),
            file_size_in_bytes=file.size_bytes,
            spec_id=self.target.partitioning.spec.spec_id,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            **decoded_statistics(file.statistics),
        )


def _append_to(update: Any, table: Any) -> Any:
    merges = table.properties.get("commit.manifest-merge.enabled", "").lower() == "true"
    return update.merge_append() if merges else update.fast_append()


def _has_many_manifests(table: Any) -> bool:
    limit = int(table.properties.get("commit.manifest.min-count-to-merge", _MANY_MANIFESTS))
    return len(table.current_snapshot().manifests(table.io)) >= limit
