"""Publication and replication slot of a source of changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rheos.connectors.postgres.change_positions import ChangesPosition, left_at, lsn_of, lsn_text
from rheos.connectors.postgres.connection import ServerSession, client, quoted
from rheos.connectors.postgres.target_table import TargetTable
from rheos.core.errors import ConfigurationError, InputError

_ANEW = (
    "a job never skips changes silently. Start it anew, without its checkpoints: it then "
    "begins with a new snapshot"
)

_DEFAULT_SENDER_TIMEOUT_S = 60.0
"""PostgreSQL's default timeout, used if the server has disabled it."""


@dataclass(frozen=True)
class ReplicationSlot:
    name: str
    confirmed_lsn: int
    """Position before which entries cannot be read any more."""
    is_active: bool
    """Whether a reader uses the slot."""


def make_ready(session: ServerSession, table: TargetTable, slot: str) -> None:
    """Create the publication and the slot, both with this name, unless they exist."""
    [(level,)] = session.rows("SELECT current_setting('wal_level')")
    if level != "logical":
        raise ConfigurationError(
            f"the server has wal_level={level}, but changes are read by logical replication",
            hint="ALTER SYSTEM SET wal_level = logical, and restart the server",
        )
    _make_publication(session, table, slot)
    if not session.rows("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [slot]):
        try:
            session.rows("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        except client().errors.DuplicateObject:
            pass  # Another session has just created it.
    find_slot(session, slot)


def _make_publication(session: ServerSession, table: TargetTable, name: str) -> None:
    published = session.rows(
        "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication "
        "WHERE pubname = %s",
        [name],
    )
    if not published:
        _check_identity(session, table)
        by_root = " WITH (publish_via_partition_root = true)" if table.is_partitioned else ""
        session.run(f"CREATE PUBLICATION {quoted(name)} FOR TABLE {table.sql}{by_root}")
    elif published != [(True,)]:
        raise ConfigurationError(
            f"the publication {name} omits some kinds of changes",
            hint=f"ALTER PUBLICATION {quoted(name)} SET (publish = 'insert, update, delete, truncate')",
        )
    elif not session.rows(
        "SELECT 1 FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s",
        [name, table.schema, table.name],
    ):
        raise ConfigurationError(
            f"the publication {name} exists, but does not contain the table {table}",
            hint=f"ALTER PUBLICATION {quoted(name)} ADD TABLE {table.sql}, or choose another slot=",
        )


def _check_identity(session: ServerSession, table: TargetTable) -> None:
    """Raise ConfigurationError if PostgreSQL would refuse all updates and deletes of the table or one
    of its partitions once it is published."""
    found = session.rows(
        "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind = 'r' AND c.relreplident <> 'f' "
        "AND (c.oid = to_regclass(%s) "
        "OR c.oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%s)))) "
        "AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indimmediate "
        "AND i.indisvalid AND CASE c.relreplident WHEN 'd' THEN i.indisprimary "
        "WHEN 'i' THEN i.indisreplident ELSE false END) ORDER BY 1",
        [table.sql, table.sql],
    )
    if found:
        [name] = found[0]
        raise ConfigurationError(
            f"the table {name} has no REPLICA IDENTITY: once its changes are published, "
            "PostgreSQL rejects updates and deletions",
            hint=f"ALTER TABLE {name} REPLICA IDENTITY FULL, or add a primary key",
        )


def find_slot(session: ServerSession, name: str) -> ReplicationSlot:
    """Return the slot. Raises InputError if it is lost, ConfigurationError if it is not ours."""
    found = session.rows(
        "SELECT plugin::text, database::text, confirmed_flush_lsn::text, wal_status, "
        "database = current_database(), active FROM pg_replication_slots WHERE slot_name = %s",
        [name],
    )
    if not found:
        raise InputError(
            f"the replication slot {name} no longer exists: changes since the job last read it "
            "are lost",
            hint=_ANEW,
        )
    [(plugin, database, confirmed, status, is_here, active)] = found
    if plugin != "pgoutput" or not is_here:
        raise ConfigurationError(
            f"the replication slot {name} uses the plugin {plugin} in the database {database}",
            hint="choose another name with slot=",
        )
    if status == "lost" or confirmed is None:
        raise InputError(
            f"the server has removed changes that the replication slot {name} had not read yet "
            "(max_slot_wal_keep_size)",
            hint=f"SELECT pg_drop_replication_slot('{name}'). {_ANEW[0].upper()}{_ANEW[1:]}",
        )
    return ReplicationSlot(name, lsn_of(confirmed), active)


def sender_timeout_s(session: ServerSession) -> float:
    """Return the time after which the server closes the connection of a silent reader."""
    [(timeout_ms,)] = session.rows(
        "SELECT setting::bigint FROM pg_settings WHERE name = 'wal_sender_timeout'"
    )
    timeout_s: float = timeout_ms / 1000
    return timeout_s or _DEFAULT_SENDER_TIMEOUT_S


def advance(session: ServerSession, slot: str, lsn: int) -> None:
    """Let the server remove entries before `lsn`. The slot must not be in use."""
    session.rows(
        "SELECT pg_replication_slot_advance(slot_name, %s::pg_lsn) FROM pg_replication_slots "
        "WHERE slot_name = %s AND confirmed_flush_lsn < %s::pg_lsn",
        [lsn_text(lsn), slot, lsn_text(lsn)],
    )


def check_log(
    session: ServerSession, slot: str, at: ChangesPosition, history: Callable[[int], str]
) -> int:
    """Return the current timeline of the server's log. Raises InputError if the log ends before `at`,
    or left its timeline earlier. `history` returns the history of a timeline."""
    [(written, file)] = session.rows(
        "SELECT pg_current_wal_insert_lsn()::text, pg_walfile_name(pg_current_wal_insert_lsn())"
    )
    timeline, end, read = int(file[:8], 16), lsn_of(written), at.lsn
    if at.timeline not in (0, timeline):
        end = left_at(history(timeline), at.timeline) or 0
        # The new log must contain everything that the snapshot has seen, under the same transaction
        # ids.
        read = max([read, *(part.lsn for part in at.parts)])
    if end < read:
        raise InputError(
            f"the server's log ends at {lsn_text(end)}, but the replication slot {slot} has "
            f"already read up to {lsn_text(read)}. Check whether this is another server, one "
            "restored from an older copy, or a promoted standby that had less of the log",
            hint=_ANEW,
        )
    return timeline


def check_no_gap(slot: ReplicationSlot, lsn: int) -> None:
    """Raise InputError if the slot does not retain the entries from `lsn` on."""
    if slot.confirmed_lsn > lsn:
        raise InputError(
            f"the replication slot {slot.name} starts at {lsn_text(slot.confirmed_lsn)}, but "
            f"the job resumes at {lsn_text(lsn)}: the changes in between are lost. Check "
            "whether the slot was recreated or read by another client, or whether the job "
            "resumes from an older checkpoint or savepoint than its last",
            hint=_ANEW,
        )
