"""The data files of a snapshot of an Iceberg table, and those that later snapshots append.

A snapshot that only rewrites files has no new rows, so its files are left out. A snapshot that removes
rows is an error: rows that were read before would be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rheos.connectors.iceberg.library import library
from rheos.core.errors import ConfigurationError, InputError


def snapshot_files(table: Any, snapshot: int) -> list[str]:
    """Return the paths of the data files of a snapshot; 0 is the empty table before the first one.

    Raises:
        ConfigurationError: the snapshot has files of deleted rows.
    """
    if snapshot == 0:
        return []
    tasks = list(table.scan(snapshot_id=snapshot).plan_files())
    if any(task.delete_files for task in tasks):
        raise ConfigurationError(
            f"snapshot {snapshot} of the table has files of deleted rows, which the source does not "
            "support",
            hint="compact the table first, by Spark's rewrite_data_files",
        )
    return sorted(task.file.file_path for task in tasks)


class AppendedSnapshots:
    """Files that snapshots after the first one append, as the driver has found them so far."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._read: int | None = None
        """Newest snapshot whose files are found."""

    def after(self, table: Any, snapshot: int) -> list[str]:
        """Return the files that all snapshots after one have appended, in their order.

        Args:
            table: the table, with its newest metadata.
            snapshot: the snapshot of the branch `main` after which to begin; 0 for all.

        Raises:
            InputError: a snapshot has removed rows, or has expired.
        """
        for each in list_snapshots(table, snapshot if self._read is None else self._read):
            files = _appended(table, each)
            check_parent(table, each, files)
            self._found += files
            self._read = each.snapshot_id
        return list(self._found)

    def __reduce__(self) -> tuple[type[AppendedSnapshots], tuple[()]]:
        return AppendedSnapshots, ()  # Only the driver uses its content.


def list_snapshots(table: Any, snapshot: int) -> list[Any]:
    """Return the snapshots of `main` after one, the oldest first; 0 for all. Raises InputError if it is
    not among them."""
    known = {each.snapshot_id: each for each in table.metadata.snapshots}
    found: list[Any] = []
    at = table.current_snapshot()
    at_id = 0 if at is None else at.snapshot_id
    while at_id != snapshot:
        if at_id not in known:
            raise _expired(table, at_id or snapshot)
        found.append(known[at_id])
        at_id = known[at_id].parent_snapshot_id or 0
    return found[::-1]


def check_parent(table: Any, snapshot: Any, added: Sequence[str]) -> None:
    """Raise InputError if a snapshot claims to be the first one, but is not. Some libraries remove the
    parent's id when they expire the parent.

    Args:
        table: the table, with its newest metadata.
        snapshot: the snapshot.
        added: the data files that the snapshot adds.
    """
    if not snapshot.parent_snapshot_id and {*added} != {*snapshot_files(table, snapshot.snapshot_id)}:
        raise _expired(table, 0)


def _expired(table: Any, snapshot: int) -> InputError:
    what = f"snapshot {snapshot}" if snapshot else "the first snapshot"
    return InputError(
        f"{what} of the table {'.'.join(table.name())} is not among the snapshots of its branch main",
        hint="it has expired, or main was set back: start the job anew from a newer snapshot",
    )


def _appended(table: Any, snapshot: Any) -> list[str]:
    """Return the files with new rows of one snapshot."""
    operations, manifest = library("table.snapshots").Operation, library("manifest")
    operation = snapshot.summary.operation if snapshot.summary else None
    if operation == operations.REPLACE:
        return []
    if operation != operations.APPEND:
        raise InputError(
            f"snapshot {snapshot.snapshot_id} of the table {'.'.join(table.name())} deletes or "
            "replaces rows, which a source of appended rows cannot follow",
            hint="read its changes, by rh.iceberg.changes(...); or start the job anew with "
            f"snapshot={snapshot.snapshot_id}",
        )
    return [
        entry.data_file.file_path
        for listed in snapshot.manifests(table.io)
        if listed.added_snapshot_id == snapshot.snapshot_id
        for entry in listed.fetch_manifest_entry(table.io, discard_deleted=True)
        if entry.status == manifest.ManifestEntryStatus.ADDED
    ]
