"""Deletes data files of a Delta table that only old versions have.

The library lists files that the log has removed. So files that no version has named yet, such as those
of a checkpoint that is not in the table, are never deleted (DL12).
"""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow as pa

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.delta.delta_table import (
    DeltaTarget,
    reading_or_writing,
    relative_path,
    table_uri,
)
from rheos.connectors.delta.registration import CONNECTOR
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.table_log.expiry_policy import MOST_DELETED, VersionExpiry

_HOUR_MS = 3_600_000


def delete_expired_files(target: DeltaTarget, policy: VersionExpiry, progressed: Progressed) -> int:
    """Delete files, and return their number.

    Args:
        target: the table.
        policy: the policy.
        progressed: called after each file.

    Raises:
        CheckpointError: the table's own retention is longer than that of the policy.
        UnavailableError: the table cannot be read now.
    """
    delta = CONNECTOR.client()
    with reading_or_writing(target.folder):
        table = delta.DeltaTable(table_uri(target.folder))
        target.check_identity(str(table.metadata().id))
        newest = table.version()
        kept = range(max(newest - policy.keep + 1, 0), newest + 1)
        hours = -(-policy.older_than_ms // _HOUR_MS)
        expired = table.vacuum(hours, dry_run=True, keep_versions=[*kept])
        progressed()
        # Another program may have restored an old version meanwhile.
        live = pa.table(delta.DeltaTable(table_uri(target.folder)).get_add_actions())["path"]
    named = {unquote(path) for path in live.to_pylist()}
    paths = [relative_path(path) for path in expired if path not in named][:MOST_DELETED]
    folder = SinkFolder(target.folder)
    for path in paths:
        folder.remove(path)
        progressed()
    return len(paths)
