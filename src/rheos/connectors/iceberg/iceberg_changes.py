"""The changes of each snapshot of an Iceberg table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.files.chunks import ChunkDecoder
from rheos.connectors.iceberg.catalogs import IcebergCatalog
from rheos.connectors.iceberg.file_decoder import FieldIdDecoder
from rheos.connectors.iceberg.iceberg_table import inspecting, lone_call
from rheos.connectors.iceberg.library import library
from rheos.connectors.iceberg.source_files import check_parent, list_snapshots, snapshot_files
from rheos.connectors.table_log.change_feed import ChangeLog, ChangeStep, Op, VersionChanges
from rheos.core.errors import InputError

T = TypeVar("T")


class IcebergChangeLog(ChangeLog):
    """The snapshots of one table's branch `main`, for one reader."""

    def __init__(
        self, catalog: IcebergCatalog, name: str, ids: Mapping[str, int], identities: frozenset[str]
    ) -> None:
        """Create it, without a request.

        Args:
            catalog: the catalog of the table.
            name: the table's name in the catalog.
            ids: field ids of the table's columns.
            identities: columns by whose values the table is partitioned.
        """
        self._catalog = catalog
        self._name = name
        self._ids = ids
        self._identities = identities

    def rows_of(self, version: int) -> VersionChanges:
        paths = self._asked(version, lambda table: snapshot_files(table, version))
        return VersionChanges(version, _steps(paths, "snapshot"))

    def changes_of(self, version: int, columns: Sequence[str]) -> VersionChanges:
        return self._asked(version, lambda table: self._changes(table, version))

    def following(self, version: int) -> int | None:
        def find(table: Any) -> int | None:
            later = list_snapshots(table, version)
            return int(later[0].snapshot_id) if later else None

        return self._asked(version, find)

    def decoder(self, step: ChangeStep, columns: pa.Schema, position: bytes) -> ChunkDecoder:
        return FieldIdDecoder(step.path, columns, self._ids, self._identities, position)

    def lost_file(self, version: int, path: str) -> InputError:
        return InputError(
            f"the file {path} of snapshot {version} of the table {self._name} no longer exists",
            hint="the snapshot had expired before the source read it: start the job anew from a newer "
            "snapshot, and expire snapshots later",
        )

    def _asked(self, version: int, ask: Callable[[Any], T]) -> T:
        """Return the result of a question about the table with its newest metadata."""

        def work(_: Progressed) -> T:
            with inspecting(self._name):
                return ask(self._catalog.load().load_table(self._name))

        doing = f"reading of the changes after snapshot {version} of the Iceberg table {self._name}"
        return lone_call(self._catalog, self._name, doing, work, user=str(id(self)))

    def _changes(self, table: Any, version: int) -> VersionChanges:
        snapshot = table.metadata.snapshot_by_id(version)
        if snapshot is None:
            raise InputError(
                f"snapshot {version} of the table {self._name} expired before its changes were read",
                hint="start the job anew from a newer snapshot, and expire snapshots later",
            )
        manifests, summary = library("manifest"), library("table.snapshots")
        removed: list[str] = []
        added: list[str] = []
        time_us = snapshot.timestamp_ms * 1000
        if snapshot.summary and snapshot.summary.operation == summary.Operation.REPLACE:
            return VersionChanges(version, [], time_us)
        for listed in snapshot.manifests(table.io):
            if listed.added_snapshot_id != version:
                continue
            for entry in listed.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.snapshot_id not in (None, version):
                    continue
                if listed.content != manifests.ManifestContent.DATA:
                    raise InputError(
                        f"snapshot {version} of the table {self._name} has files of deleted rows "
                        "(merge on read), which the source does not support",
                        hint="set write.delete.mode, write.update.mode and write.merge.mode to "
                        f"copy-on-write, and start the job anew with since={version}",
                    )
                if entry.status == manifests.ManifestEntryStatus.DELETED:
                    removed.append(entry.data_file.file_path)
                elif entry.status == manifests.ManifestEntryStatus.ADDED:
                    added.append(entry.data_file.file_path)
        check_parent(table, snapshot, added)
        return VersionChanges(version, [*_steps(removed, "delete"), *_steps(added, "insert")], time_us)


def _steps(paths: list[str], op: Op) -> list[ChangeStep]:
    return [ChangeStep(path, path, op) for path in sorted(paths)]
