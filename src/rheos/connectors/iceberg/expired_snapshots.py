"""Removes old snapshots of an Iceberg table, and files that only they have.

The files are those that a removed snapshot names. So files that no snapshot has named yet, such as
those of a checkpoint that is not in the table, are never deleted (IC12).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.iceberg.iceberg_table import (
    IcebergTarget,
    number_property,
    reading_or_writing,
)
from rheos.connectors.table_log.expiry_policy import MOST_EXPIRED, VersionExpiry
from rheos.core.errors import ConfigurationError


def expire_snapshots(
    target: IcebergTarget, policy: VersionExpiry, now_ms: int, progressed: Progressed
) -> int:
    """Remove snapshots, delete files that no other snapshot names, and return their number.

    Args:
        target: the table.
        policy: the policy.
        now_ms: the current time.
        progressed: called after each file that is read or deleted.

    Raises:
        ConfigurationError: the table forbids it.
        CheckpointError: a file of the table's metadata cannot be read. No file was deleted.
        UnavailableError: the table cannot be read or written now.
    """
    with reading_or_writing(target.name):
        table = target.catalog.load().load_table(target.name)
        target.check_identity(str(table.metadata.table_uuid))
        if table.properties.get("gc.enabled", "true").lower() == "false":
            raise ConfigurationError(
                f"the table {target.name} has the property gc.enabled=false, which forbids expiry",
                hint="leave out expire=, or set the property to true",
            )
        expired = _expired(table.metadata, policy, now_ms)
        if not expired:
            return 0
        manifests = _manifests_of(expired, table.io, progressed)
        ids = {each.snapshot_id for each in expired}
        table.maintenance.expire_snapshots().by_ids([*ids]).commit()
        table = target.catalog.load().load_table(target.name)
        if ids & {each.snapshot_id for each in table.metadata.snapshots}:
            return 0  # Another program has changed the table meanwhile.
        retained = _manifests_of(table.metadata.snapshots, table.io, progressed)
        gone = {path: each for path, each in manifests.items() if path not in retained}
        files = _named_by(gone.values(), table.io, progressed)
        for each in retained.values():
            if not files:
                break
            # A file that a retained snapshot removes is needed to read the changes of that snapshot.
            files -= _named_by([each], table.io, progressed)
        unnamed = [*files, *gone, *(each.manifest_list for each in expired)]
        return _deleted(unnamed, table, target, progressed)


def _expired(metadata: Any, policy: VersionExpiry, now_ms: int) -> list[Any]:
    """Return the oldest snapshots that may be removed."""
    known = {each.snapshot_id: each for each in metadata.snapshots}
    retained: set[int] = set()
    for name, ref in metadata.refs.items():
        retained.add(ref.snapshot_id)
        if ref.snapshot_ref_type.value == "tag":
            continue
        keep, at = max(policy.keep, ref.min_snapshots_to_keep or 0), known.get(ref.snapshot_id)
        sinks: set[str] = set()
        while at is not None:
            sink = at.summary.additional_properties.get("rheos.sink") if at.summary else None
            # IC6: a sink whose property is lost finds its number in its newest snapshot of main.
            is_mark = (
                name == "main"
                and sink is not None
                and sink not in sinks
                and number_property(sink) not in metadata.properties
            )
            if keep > 0 or is_mark:
                retained.add(at.snapshot_id)
            if sink is not None:
                sinks.add(sink)
            keep, at = keep - 1, known.get(at.parent_snapshot_id)
    old = [
        each
        for each in metadata.snapshots
        if each.snapshot_id not in retained and each.timestamp_ms < now_ms - policy.older_than_ms
    ]
    return sorted(old, key=lambda each: each.timestamp_ms)[:MOST_EXPIRED]


def _manifests_of(snapshots: Iterable[Any], io: Any, progressed: Progressed) -> dict[str, Any]:
    """Return the manifests of snapshots by their paths."""
    found: dict[str, Any] = {}
    for each in snapshots:
        found |= {manifest.manifest_path: manifest for manifest in each.manifests(io)}
        progressed()
    return found


def _named_by(manifests: Iterable[Any], io: Any, progressed: Progressed) -> set[str]:
    """Return the paths of all data files that manifests add, keep or remove."""
    found: set[str] = set()
    for manifest in manifests:
        entries = manifest.fetch_manifest_entry(io, discard_deleted=False)
        found |= {entry.data_file.file_path for entry in entries}
        progressed()
    return found


def _deleted(paths: Iterable[str], table: Any, target: IcebergTarget, progressed: Progressed) -> int:
    """Delete files of the table's own folders. Files that were added from elsewhere stay."""
    folders = (f"{table.location().rstrip('/')}/", f"{target.folder}/")
    count = 0
    for path in paths:
        if path.startswith(folders):
            try:
                table.io.delete(path)
            except FileNotFoundError:
                continue  # Another driver was first.
            count += 1
            progressed()
    return count
